/* What the tables say to shells: --completion bash, zsh or fish. */
#include "cli.h"
#include "zoo/zoo.h"
#include <string.h>

/* "md|csv" as words. */
static void choices(cli *c, const char *list)
{
    for (; *list; list++) sp_text_printf(&c->out, "%c", *list == '|' ? ' ' : *list);
}

/* The words that the first operand of a verb may be: models of the zoo, and what stands in the table as "bench|show|run"; false: it is a file. */
static bool first_operand(cli *c, const cli_verb *v)
{
    if (!strcmp(v->name, "zoo"))
        for (int i = 0; i < sp_zoo_count(); i++)
            sp_text_printf(&c->out, "%s%s", i ? " " : "", sp_zoo_row(i)->name);
    else if (strcspn(v->operands, "|") < strcspn(v->operands, " "))
        for (const char *p = v->operands; *p && *p != ' '; p++)
            sp_text_printf(&c->out, "%c", *p == '|' ? ' ' : *p);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------ bash */

static void bash_verb(cli *c, const cli_verb *v)
{
    sp_text_printf(&c->out, "    %s) flags=\"", v->name);
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (cli_option_of(&cli_options[i], v))
            sp_text_printf(&c->out, "%s--%s", i ? " " : "", cli_options[i].name);
    sp_text_printf(&c->out, "\" words=\"");
    (void)first_operand(c, v);
    sp_text_printf(&c->out, "\" ;;\n");
}

static void bash_choices(cli *c)
{
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *o = &cli_options[i];
        if (!cli_chooses(o)) continue;
        sp_text_printf(&c->out, "    --%s) COMPREPLY=($(compgen -W \"", o->name);
        choices(c, o->metavar);
        sp_text_printf(&c->out, "\" -- \"$word\")); return ;;\n");
    }
}

static void bash(cli *c)
{
    sp_text_printf(&c->out, "# bash completion of sparta; source <(sparta --completion bash)\n_sparta()\n{\n"
                            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
                            "verb=${COMP_WORDS[1]} flags= words=\n"
                            "    case $before in\n");
    bash_choices(c);
    sp_text_printf(&c->out,
                   "    esac\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < cli_verb_count(); i++)
        if (cli_verb_row(i)->run) sp_text_printf(&c->out, "%s ", cli_verb_row(i)->name);
    sp_text_printf(&c->out,
                   "help --help --version\" -- \"$word\"))\n        return\n    fi\n    case $verb in\n");
    for (int i = 0; i < cli_verb_count(); i++)
        if (cli_verb_row(i)->run) bash_verb(c, cli_verb_row(i));
    sp_text_printf(&c->out,
                   "    esac\n    [ \"$COMP_CWORD\" = 2 ] || words=\n"
                   "    case $word in\n    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
                   "    *) if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); "
                   "return; fi ;;&\n"
                   "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\ncomplete -o filenames -F "
                   "_sparta sparta\n");
}

/* ------------------------------------------------------------------ zsh */

/* Inside single quotes of a shell: '\'' for a quote, and a backslash before each of `special`. */
static void quoted(cli *c, const char *s, const char *special)
{
    for (; *s; s++) {
        if (*s == '\'')
            sp_text_printf(&c->out, "'\\''");
        else
            sp_text_printf(&c->out, strchr(special, *s) ? "\\%c" : "%c", *s);
    }
}

/* '--name[help]:METAVAR:what completes it' */
static void zsh_flag(cli *c, const cli_option *o, const cli_verb *v)
{
    sp_text_printf(&c->out, " \\\n            '%s--%s[", o->kind == CLI_LIST ? "*" : "", o->name);
    quoted(c, cli_shown_help(o, v), "[]:\\");
    sp_text_printf(&c->out, "]");
    if (o->kind != CLI_FLAG) {
        sp_text_printf(&c->out, ":");
        quoted(c, cli_shown_metavar(o, v), "[]:\\");
        sp_text_printf(&c->out, ":");
    }
    if (cli_chooses(o)) {
        sp_text_printf(&c->out, "(");
        choices(c, o->metavar);
        sp_text_printf(&c->out, ")");
    }
    if (o->kind == CLI_TEXT || o->kind == CLI_LIST) sp_text_printf(&c->out, "_files");
    sp_text_printf(&c->out, "'");
}

static void zsh(cli *c)
{
    sp_text_printf(&c->out, "#compdef sparta\n_sparta() {\n    local -a verbs flags first\n    verbs=(\n");
    for (int i = 0; i < cli_verb_count(); i++) {
        const cli_verb *v = cli_verb_row(i);
        if (!v->run) continue;
        sp_text_printf(&c->out, "        '%s:", v->name);
        quoted(c, v->what, ":\\");
        sp_text_printf(&c->out, "'\n");
    }
    sp_text_printf(&c->out, "    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n"
                            "        return\n    fi\n    case $words[2] in\n");
    for (int i = 0; i < cli_verb_count(); i++) {
        const cli_verb *v = cli_verb_row(i);
        if (!v->run) continue;
        sp_text_printf(&c->out, "    %s) flags=(", v->name);
        for (int k = 0; k < CLI_OPTIONS; k++)
            if (cli_option_of(&cli_options[k], v)) zsh_flag(c, &cli_options[k], v);
        sp_text_printf(&c->out, ")\n            first=(");
        (void)first_operand(c, v);
        sp_text_printf(&c->out, ") ;;\n");
    }
    sp_text_printf(&c->out, "    esac\n    if (( CURRENT == 3 && $#first )) && [[ $PREFIX != -* ]]; then\n"
                            "        compadd -a first\n        return\n    fi\n"
                            "    _arguments $flags '*:file:_files'\n}\n"
                            "if [ \"$funcstack[1]\" = _sparta ]; then _sparta \"$@\"; else compdef "
                            "_sparta sparta; fi\n");
}

/* ------------------------------------------------------------------ fish */

static void fish_flag(cli *c, const cli_option *o)
{
    sp_text_printf(&c->out, "complete -c sparta -l %s", o->name);
    if (o->letter) sp_text_printf(&c->out, " -s %c", o->letter);
    if (o->verbs[0] != '*') sp_text_printf(&c->out, " -n '__fish_seen_subcommand_from %s'", o->verbs);
    if (o->kind == CLI_TEXT || o->kind == CLI_LIST)
        sp_text_printf(&c->out, " -r -F");
    else if (o->kind != CLI_FLAG)
        sp_text_printf(&c->out, " -x");
    if (cli_chooses(o)) {
        sp_text_printf(&c->out, " -a '");
        choices(c, o->metavar);
        sp_text_printf(&c->out, "'");
    }
    sp_text_printf(&c->out, " -d '");
    quoted(c, o->help, "\\");
    sp_text_printf(&c->out, "'\n");
}

static void fish_operand(cli *c, const cli_verb *v)
{
    const size_t before = c->out.size;
    sp_text_printf(
        &c->out, "complete -c sparta -f -n '__fish_seen_subcommand_from %s; and __fish_is_nth_token 2' -a '",
        v->name);
    if (first_operand(c, v))
        sp_text_printf(&c->out, "'\n");
    else
        c->out.size = before;
}

static void fish(cli *c)
{
    sp_text_printf(&c->out, "# fish completion of sparta; sparta --completion fish | source\n");
    for (int i = 0; i < cli_verb_count(); i++) {
        const cli_verb *v = cli_verb_row(i);
        if (!v->run) continue;
        sp_text_printf(&c->out, "complete -c sparta -f -n __fish_use_subcommand -a %s -d '", v->name);
        quoted(c, v->what, "\\");
        sp_text_printf(&c->out, "'\n");
    }
    for (int i = 0; i < cli_verb_count(); i++)
        if (cli_verb_row(i)->run) fish_operand(c, cli_verb_row(i));
    for (int i = 0; i < CLI_OPTIONS; i++) fish_flag(c, &cli_options[i]);
}

void cli_completion(cli *c)
{
    const char *shell = cli_text(c, CLI_COMPLETION, "bash");
    if (!strcmp(shell, "zsh"))
        zsh(c);
    else if (!strcmp(shell, "fish"))
        fish(c);
    else
        bash(c);
}
