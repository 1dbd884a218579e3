/* What the tables say to people and to the shell: --help and the manual page. */
#include "fit.h"
#include <stdio.h>
#include <string.h>

/* "-o, --output FILE" */
static void flag_text(const cli_option *o, const cli_verb *verb, char *out, size_t size)
{
    char letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, size, "%s--%s%s%s", letter, o->name, o->kind == CLI_FLAG ? "" : " ",
             o->kind == CLI_FLAG ? "" : cli_shown_metavar(o, verb));
}

/* Help is for terminals of 80 columns. */
enum { WIDTH = 80, FLAGS = 28, VERBS = 14 };

/* A word, and what it means in a column that begins at `at`; below it when the word is too long. */
static void entry(cli *c, const char *word, int at, const char *means)
{
    sp_text_printf(&c->out, "  %s", word);
    int used = 2 + cli_width(word);
    if (used + 2 > at) cli_end_line(&c->out);
    cli_pad(&c->out, used + 2 > at ? at : at - used);
    cli_wrapped(&c->out, means, WIDTH - at, at);
    cli_end_line(&c->out);
}

static void paragraph(cli *c, const char *text)
{
    cli_wrapped(&c->out, text, WIDTH, 0);
    cli_end_line(&c->out);
}

static void flag_line(cli *c, const cli_option *o)
{
    char flag[64];
    flag_text(o, c->verb, flag, sizeof flag);
    entry(c, flag, FLAGS, cli_shown_help(o, c->verb));
}

static void program_help(cli *c)
{
    sp_text_printf(&c->out, "sparta %s: a pruned model in; the same answer, faster, out\n\n",
                   sparta_version());
    sp_text_printf(&c->out, "usage: sparta VERB [flags]        `sparta VERB --help` says more\n\n");
    for (int i = 0; i < cli_verb_count(); i++)
        if (cli_verb_row(i)->run) entry(c, cli_verb_row(i)->name, VERBS, cli_verb_row(i)->what);
    sp_text_printf(&c->out, "\nflags of every verb:\n");
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (cli_option_common(&cli_options[i])) flag_line(c, &cli_options[i]);
    sp_text_printf(&c->out, "\n");
    paragraph(c,
              "exit codes: 0 ok, 1 failed, 2 usage, 3 answers differ, 4 not supported, 5 out of a resource, "
              "130 interrupted");
    paragraph(c, "variables of the environment: sparta --man, or docs/environment.md");
}

/* Flags that every verb has, by name alone. */
static void other_flags(cli *c)
{
    sp_text also;
    sp_text_init(&also, c->cx);
    sp_text_printf(&also, "also:");
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (cli_option_common(&cli_options[i]) && !cli_option_named(&cli_options[i], c->verb) && i < CLI_HELP)
            sp_text_printf(&also, " --%s", cli_options[i].name);
    sp_text_printf(&also, " (`sparta --help` describes these)");
    cli_wrapped(&c->out, sp_text_str(&also), WIDTH - 6, 6);
    cli_end_line(&c->out);
    sp_text_free(&also);
}

/* A line for the shell, over several that can be pasted as they are. */
static void example(cli *c, const char *line, size_t n)
{
    const char *rest = sp_arena_bytes(c->arena, line, n);
    for (int indent = 2; rest && *rest; indent = 6) {
        const bool whole = indent + cli_width(rest) <= WIDTH;
        const char *s = rest;
        size_t used = cli_wrap(s, whole ? WIDTH : WIDTH - indent - 2, &rest);
        cli_pad(&c->out, indent);
        sp_text_put(&c->out, s, used);
        sp_text_printf(&c->out, *rest ? " \\\n" : "\n");
    }
}

static void verb_help(cli *c)
{
    cli_option_id shown[CLI_OPTIONS];
    const int n = cli_shown(c->verb, shown);
    sp_text_printf(&c->out, "usage: sparta %s%s%s [flags]\n\n", c->verb->name, *c->verb->operands ? " " : "",
                   c->verb->operands);
    paragraph(c, c->verb->what);
    sp_text_printf(&c->out, "\n");
    for (int i = 0; i < n; i++) flag_line(c, &cli_options[shown[i]]);
    sp_text_printf(&c->out, "\n");
    other_flags(c);
    sp_text_printf(&c->out, "\nexamples:\n");
    for (const char *p = c->verb->examples; *p; p += strcspn(p, "\n"), p += *p == '\n')
        example(c, p, strcspn(p, "\n"));
}

void cli_help(cli *c)
{
    if (!c->verb)
        program_help(c);
    else if (c->verb->run)
        verb_help(c);
    else
        sp_text_printf(&c->out, "sparta %s: %s. This version does not have it yet.\n", c->verb->name,
                       c->verb->what);
}

/* ------------------------------------------------------------------ manual page */

/* Roff reads "-" as a hyphen, "\" as an escape and "." or "'" at the start of a line as a request. */
static void roff(cli *c, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0 && (s[i] == '.' || s[i] == '\'')) sp_text_printf(&c->out, "\\&");
        if (s[i] == '-')
            sp_text_printf(&c->out, "\\-");
        else if (s[i] == '\\')
            sp_text_printf(&c->out, "\\e");
        else
            sp_text_put(&c->out, &s[i], 1);
    }
}

static void roff_line(cli *c, const char *s, size_t n)
{
    roff(c, s, n);
    sp_text_printf(&c->out, "\n");
}

static void roff_option(cli *c, const cli_option *o, const cli_verb *verb)
{
    char flag[64];
    const char *help = cli_shown_help(o, verb);
    flag_text(o, verb, flag, sizeof flag);
    sp_text_printf(&c->out, ".TP\n.B ");
    roff_line(c, flag, strlen(flag));
    roff_line(c, help, strlen(help));
}

static void roff_options(cli *c, const cli_verb *verb)
{
    cli_option_id shown[CLI_OPTIONS];
    const int n = cli_shown(verb, shown);
    for (int i = 0; i < n; i++) roff_option(c, &cli_options[shown[i]], verb);
}

static void roff_common(cli *c)
{
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (cli_option_common(&cli_options[i])) roff_option(c, &cli_options[i], NULL);
}

static void roff_variable(cli *c, const cli_option *v)
{
    sp_text_printf(&c->out, ".TP\n.BR %s = ", v->name);
    roff_line(c, v->metavar, strlen(v->metavar));
    roff_line(c, v->help, strlen(v->help));
}

static void roff_verb(cli *c, const cli_verb *v)
{
    sp_text_printf(&c->out, ".SS sparta %s ", v->name);
    roff_line(c, v->operands, strlen(v->operands));
    roff(c, v->what, strlen(v->what));
    sp_text_printf(&c->out, ".\n");
    roff_options(c, v);
    sp_text_printf(&c->out, ".PP\n.nf\n");
    for (const char *p = v->examples; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        roff_line(c, p, strcspn(p, "\n"));
    }
    sp_text_printf(&c->out, ".fi\n");
}

static void roff_glossary(cli *c)
{
    static const struct {
        const char *word, *means;
    } terms[] = {
#define CLI_TERM(word, means) {word, means},
#include "glossary.def"
#undef CLI_TERM
    };
    sp_text_printf(&c->out, ".SH WORDS\n");
    for (size_t i = 0; i < SP_COUNT(terms); i++) {
        sp_text_printf(&c->out, ".TP\n.B ");
        roff_line(c, terms[i].word, strlen(terms[i].word));
        roff_line(c, terms[i].means, strlen(terms[i].means));
    }
}

void cli_man(cli *c)
{
    sp_text_printf(&c->out, ".TH SPARTA 1 \"\" \"sparta %s\" \"User Commands\"\n", sparta_version());
    sp_text_printf(&c->out, ".SH NAME\nsparta \\- compile and run pruned models\n"
                            ".SH SYNOPSIS\n.B sparta\n.I verb\n[\\fIflags\\fR]\n"
                            ".SH DESCRIPTION\nTakes a pruned model as ONNX, finds what is sparse about "
                            "it and writes a package that\n"
                            "computes the same answer faster, with a reason for every layer that did not "
                            "get faster.\n.SH VERBS\n");
    for (int i = 0; i < cli_verb_count(); i++)
        if (cli_verb_row(i)->run) roff_verb(c, cli_verb_row(i));
    sp_text_printf(&c->out, ".SH COMMON FLAGS\n");
    roff_common(c);
    sp_text_printf(
        &c->out,
        ".SH EXIT STATUS\n0 ok; 1 failed (bad file, I/O); 2 usage; 3 answers differ; 4 not supported;\n"
        "5 out of a resource or budget; 130 interrupted.\n"
        ".SH ENVIRONMENT\nAn empty variable is one that is not set.\n");
    for (int i = 0; i < cli_variable_count(); i++) roff_variable(c, cli_variable_row(i));
    roff_glossary(c);
    sp_text_printf(
        &c->out,
        ".SH FILES\n.TP\n.B $XDG_CACHE_HOME/sparta\ncompiled kernels and the tuning database, mode 0700\n");
}
