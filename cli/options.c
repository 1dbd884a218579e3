/* argv into values, by the table of options. */
#include "verbs.h"
#include <math.h>
#include <string.h>

const cli_option cli_options[CLI_OPTIONS] = {
#define CLI_OPTION(id, name, letter, kind, metavar, least, most, sweeps, verbs, help)                        \
    {name, letter, CLI_##kind, metavar, least, most, sweeps, verbs, help},
#include "options.def"
#undef CLI_OPTION
};

static const cli_verb verbs[] = {
#define CLI_VERB(id, name, operands, least, most, what, examples)                                            \
    {name, operands, what, examples, least, most, cli_verb_##id},
#define CLI_LATER(name, what) {name, "", what, "", 0, 1 << 20, NULL},
#include "verbs.def"
#undef CLI_VERB
#undef CLI_LATER
};
enum { VERBS = (int)SP_COUNT(verbs) };

int cli_verb_count(void)
{
    return VERBS;
}

const cli_verb *cli_verb_row(int i)
{
    return i >= 0 && i < VERBS ? &verbs[i] : NULL;
}

const cli_verb *cli_verb_find(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (!strcmp(verbs[i].name, name)) return &verbs[i];
    return NULL;
}

/* ------------------------------------------------------------------ which option */

/* Is `word` one of the space-separated words? */
static bool among(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ')
        if (!strncmp(p, word, n) && (p[n] == ' ' || !p[n])) return true;
    return false;
}

bool cli_option_named(const cli_option *o, const cli_verb *verb)
{
    return among(o->verbs, verb->name);
}

bool cli_option_of(const cli_option *o, const cli_verb *verb)
{
    return o->verbs[0] == '*' || (verb && cli_option_named(o, verb));
}

static const char *who(const cli *c)
{
    return c->verb ? c->verb->name : "command line";
}

/* `flag` with its dashes. */
static sparta_status no_flag(cli *c, const char *flag)
{
    return sp_fail(c->cx, SPARTA_E_USAGE, "%s: %s is no flag of %s; `sparta%s%s --help` lists them", who(c),
                   flag, c->verb ? c->verb->name : "sparta", c->verb ? " " : "",
                   c->verb ? c->verb->name : "");
}

static sparta_status unknown_option(cli *c, const char *given)
{
    const char *names[CLI_OPTIONS];
    int n = 0;
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (cli_option_of(&cli_options[i], c->verb)) names[n++] = cli_options[i].name;
    const char *near = sp_nearest(given, names, n);
    const char *flag = sp_arena_printf(c->arena, "--%s", given);
    SP_NEED(c->cx, flag);
    if (!near) return no_flag(c, flag);
    return sp_fail(c->cx, SPARTA_E_USAGE, "%s: %s is no flag of %s; did you mean --%s?", who(c), flag,
                   c->verb ? c->verb->name : "sparta", near);
}

static int find_long(const cli *c, const char *name, size_t n)
{
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (strlen(cli_options[i].name) == n && !strncmp(cli_options[i].name, name, n) &&
            cli_option_of(&cli_options[i], c->verb))
            return i;
    return -1;
}

static int find_letter(const cli *c, char letter)
{
    for (int i = 0; i < CLI_OPTIONS; i++)
        if (letter && cli_options[i].letter == letter && cli_option_of(&cli_options[i], c->verb)) return i;
    return -1;
}

/* ------------------------------------------------------------------ values */

size_t cli_parse_size(const char *s)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
                 {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    char digits[24];
    size_t n = strspn(s, "0123456789"), bytes;
    int64_t v;
    if (!n || n >= sizeof digits) return 0;
    memcpy(digits, s, n);
    digits[n] = 0;
    if (!sp_parse_int(digits, &v) || v <= 0) return 0;
    for (size_t i = 0; i < SP_COUNT(units); i++)
        if (!strcmp(s + n, units[i].unit))
            return sp_size_mul((size_t)v, (size_t)1 << units[i].shift, &bytes) ? bytes : 0;
    return 0;
}

static bool chosen(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|')
        if (n && !strncmp(p, value, n) && (p[n] == '|' || !p[n])) return true;
    return false;
}

bool cli_value_fits(const cli_option *o, const char *value)
{
    double d;
    if (o->kind == CLI_CHOICE) return chosen(o->metavar, value);
    if (o->kind == CLI_CHOICES)
        return chosen(o->metavar, strchr(value, '=') ? strchr(value, '=') + 1 : value);
    if (o->kind == CLI_REAL) return sp_parse_double(value, &d) && d >= o->least && d <= o->most;
    return true;
}

static sparta_status check_one(cli *c, const cli_option *o, const char *value)
{
    int64_t i;
    if (o->kind == CLI_INT && (!sp_parse_int(value, &i) || (double)i < o->least || (double)i > o->most))
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s %s; give a whole number from %.0f to %.0f", who(c),
                       o->name, value, o->least, o->most);
    if (o->kind == CLI_REAL && !cli_value_fits(o, value))
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s %s; give a number from %g to %g", who(c), o->name,
                       value, o->least, o->most);
    if (cli_chooses(o) && !cli_value_fits(o, value))
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s %s; choose from %s", who(c), o->name, value,
                       o->metavar);
    if (o->kind == CLI_SIZE && !cli_parse_size(value))
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s %s; give bytes, or a number with K, M, G or T",
                       who(c), o->name, value);
    if (!*value && o->kind != CLI_LIST)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s has an empty value; leave the flag out or give one",
                       who(c), o->name);
    return SPARTA_OK;
}

/* The i-th of a comma list; NULL after the last. The part before '=' of "sequence=64,128" belongs to each. */
static const char *piece(cli *c, const char *list, int i)
{
    const char *equal = strchr(list, '='), *p = equal ? equal + 1 : list;
    for (; i > 0; i--) {
        p += strcspn(p, ",");
        if (!*p) return NULL;
        p++;
    }
    return sp_arena_printf(c->arena, "%.*s%.*s", equal ? (int)(equal + 1 - list) : 0, list,
                           (int)strcspn(p, ","), p);
}

static bool can_sweep(const cli *c, const cli_option *o)
{
    return o->sweeps && c->verb && (!strcmp(c->verb->name, "bench") || !strcmp(c->verb->name, "kernel"));
}

static sparta_status check_value(cli *c, const cli_option *o, const char *value)
{
    if (!can_sweep(c, o) || !strchr(value, ',')) return check_one(c, o, value);
    const char *one;
    for (int i = 0; (one = piece(c, value, i)); i++) SP_TRY(check_one(c, o, one));
    return SPARTA_OK;
}

static sparta_status append(cli *c, cli_values *v, const char *value)
{
    const char **grown = sp_arena_array(c->arena, (size_t)v->n + 1, sizeof *grown);
    SP_NEED(c->cx, grown);
    if (v->n) memcpy(grown, v->value, (size_t)v->n * sizeof *grown);
    grown[v->n] = value;
    *v = (cli_values){v->n + 1, grown};
    return SPARTA_OK;
}

static sparta_status take(cli *c, int id, const char *value)
{
    const cli_option *o = &cli_options[id];
    if (o->kind != CLI_FLAG) SP_TRY(check_value(c, o, value));
    if (o->kind != CLI_LIST && !(o->kind == CLI_CHOICES && strchr(value, '=')))
        c->option[id].n = 0; /* the last one counts */
    return append(c, &c->option[id], value);
}

/* ------------------------------------------------------------------ the line */

typedef struct line {
    int argc, at;
    char **argv;
} line;

/* No value where one may be left out: the end of the line, or another flag. */
static bool left_out(const cli_option *o, const line *l)
{
    return o->metavar[0] == '[' && (l->at + 1 >= l->argc || l->argv[l->at + 1][0] == '-');
}

/* `attached`: the value that stands in the same word, "--m=4" or "-oF"; NULL: none does. */
static sparta_status take_option(cli *c, line *l, int id, const char *attached)
{
    const cli_option *o = &cli_options[id];
    if (o->kind == CLI_FLAG && attached)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s takes no value; leave out %s", who(c), o->name,
                       attached);
    if (o->kind == CLI_FLAG) return take(c, id, "");
    if (attached) return take(c, id, attached);
    if (left_out(o, l)) return take(c, id, "default");
    if (l->at + 1 < l->argc) return take(c, id, l->argv[++l->at]);
    return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s needs a value; --%s %s", who(c), o->name, o->name,
                   o->metavar);
}

static sparta_status long_option(cli *c, line *l)
{
    const char *name = l->argv[l->at] + 2, *equal = strchr(name, '=');
    const size_t n = equal ? (size_t)(equal - name) : strlen(name);
    const int id = find_long(c, name, n);
    if (id >= 0) return take_option(c, l, id, equal ? equal + 1 : NULL);
    const char *given = sp_arena_bytes(c->arena, name, n);
    SP_NEED(c->cx, given);
    return unknown_option(c, given);
}

static sparta_status short_option(cli *c, line *l)
{
    const char *arg = l->argv[l->at];
    const int id = find_letter(c, arg[1]);
    if (id >= 0) return take_option(c, l, id, arg[2] ? arg + 2 : NULL);
    return no_flag(c, arg);
}

static sparta_status take_verb(cli *c, const char *name)
{
    c->verb = cli_verb_find(name);
    if (c->verb) return SPARTA_OK;
    const char *names[VERBS + 1];
    int n = 0;
    for (int i = 0; i < VERBS; i++)
        if (verbs[i].run) names[n++] = verbs[i].name;
    names[n++] = "help";
    const char *near = sp_nearest(name, names, n);
    if (near)
        return sp_fail(c->cx, SPARTA_E_USAGE, "command line: there is no verb \"%s\"; did you mean %s?", name,
                       near);
    return sp_fail(c->cx, SPARTA_E_USAGE, "command line: there is no verb \"%s\"; `sparta --help` lists them",
                   name);
}

static sparta_status take_operand(cli *c, const char *arg)
{
    if (!c->verb && strcmp(arg, "help")) return take_verb(c, arg);
    if (!c->verb) return take(c, CLI_HELP, ""); /* sparta help bench */
    cli_values v = {c->n_operands, c->operand};
    SP_TRY(append(c, &v, arg));
    c->n_operands = v.n;
    c->operand = v.value;
    return SPARTA_OK;
}

static sparta_status count_operands(cli *c)
{
    if (!c->verb || !c->verb->run || cli_has(c, CLI_HELP) || cli_has(c, CLI_VERSION) || cli_has(c, CLI_MAN) ||
        cli_has(c, CLI_COMPLETION))
        return SPARTA_OK;
    if (c->n_operands < c->verb->least)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: something is missing; sparta %s %s", c->verb->name,
                       c->verb->name, c->verb->operands);
    if (c->n_operands && !c->verb->most)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: it takes flags only; leave out \"%s\"", c->verb->name,
                       c->operand[0]);
    if (c->n_operands > c->verb->most)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: \"%s\" is one too many; sparta %s %s", c->verb->name,
                       c->operand[c->verb->most], c->verb->name, c->verb->operands);
    return SPARTA_OK;
}

sparta_status cli_parse(cli *c, int argc, char **argv)
{
    line l = {argc, 1, argv};
    bool only_operands = false;
    for (; l.at < argc; l.at++) {
        const char *arg = argv[l.at];
        if (only_operands || arg[0] != '-' || !arg[1])
            SP_TRY(take_operand(c, arg));
        else if (!strcmp(arg, "--"))
            only_operands = true;
        else if (c->verb && !c->verb->run && strcmp(arg, "--help") && strcmp(arg, "-h"))
            continue; /* a verb to come: its flags are not known */
        else if (arg[1] == '-')
            SP_TRY(long_option(c, &l));
        else
            SP_TRY(short_option(c, &l));
    }
    return count_operands(c);
}

/* ------------------------------------------------------------------ reading values */

bool cli_has(const cli *c, cli_option_id id)
{
    return c->option[id].n > 0;
}

const char *cli_text(const cli *c, cli_option_id id, const char *otherwise)
{
    const cli_values *v = &c->option[id];
    return v->n ? v->value[v->n - 1] : otherwise;
}

int64_t cli_int(const cli *c, cli_option_id id, int64_t otherwise)
{
    const char *s = cli_text(c, id, NULL);
    int64_t v;
    return s && sp_parse_int(s, &v) ? v : otherwise;
}

double cli_real(const cli *c, cli_option_id id, double otherwise)
{
    const char *s = cli_text(c, id, NULL);
    double v;
    return s && sp_parse_double(s, &v) ? v : otherwise;
}

sparta_status cli_cut(cli *c, cli_option_id id, const char *text, const char **name, const char **rest)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1])
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s %s; give --%s %s", who(c), cli_options[id].name, text,
                       cli_options[id].name,
                       strchr(cli_options[id].metavar, '=') ? cli_options[id].metavar : "NAME=TEXT");
    *name = sp_arena_bytes(c->arena, text, (size_t)(equal - text));
    SP_NEED(c->cx, *name);
    *rest = equal + 1;
    return SPARTA_OK;
}

sparta_status cli_list(cli *c, cli_option_id id, const char *const **out)
{
    const cli_values *v = &c->option[id];
    const char **list = sp_arena_array(c->arena, (size_t)v->n + 1, sizeof *list);
    SP_NEED(c->cx, list);
    for (int i = 0; i < v->n; i++) list[i] = v->value[i];
    *out = list;
    return SPARTA_OK;
}

static sparta_status one_dim(cli *c, const char *text, const char **name, int64_t *value)
{
    const char *number;
    SP_TRY(cli_cut(c, CLI_DIM, text, name, &number));
    if (!sp_parse_int(number, value) || *value < 0)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --dim %s; give a whole number after the =", who(c), text);
    return SPARTA_OK;
}

sparta_status cli_dims(cli *c, sp_bindings *out)
{
    const cli_values *v = &c->option[CLI_DIM];
    int most = v->n + 1, n = 0;
    const char **name = sp_arena_array(c->arena, (size_t)most, sizeof *name);
    SP_NEED(c->cx, name);
    int64_t *value = sp_arena_array(c->arena, (size_t)most, sizeof *value);
    SP_NEED(c->cx, value);
    for (int i = 0; i < v->n; i++, n++) SP_TRY(one_dim(c, v->value[i], &name[n], &value[n]));
    if (cli_has(c, CLI_BATCH)) {
        name[n] = "batch";
        value[n++] = cli_int(c, CLI_BATCH, 1);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(name[i], name[j]) && value[i] != value[j])
                return sp_fail(c->cx, SPARTA_E_USAGE, "%s: %s is both %lld and %lld; give it once", who(c),
                               name[i], (long long)value[j], (long long)value[i]);
    *out = (sp_bindings){n, name, value};
    return SPARTA_OK;
}

sparta_status cli_sizes(cli *c, const char *const **out)
{
    sp_bindings b;
    SP_TRY(cli_dims(c, &b));
    const char **list = sp_arena_array(c->arena, (size_t)b.n + 1, sizeof *list);
    SP_NEED(c->cx, list);
    for (int i = 0; i < b.n; i++) {
        list[i] = sp_arena_printf(c->arena, "%s=%lld", b.name[i], (long long)b.value[i]);
        SP_NEED(c->cx, list[i]);
    }
    *out = list;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sweeps */

enum { SWEPT = 8 };
typedef struct swept {
    const char **slot; /* where the single value goes */
    const char *list, *name;
    int n, at;
} swept;

static sparta_status find_swept(cli *c, swept *s, int *n)
{
    *n = 0;
    for (int id = 0; id < CLI_OPTIONS; id++)
        for (int i = 0; can_sweep(c, &cli_options[id]) && i < c->option[id].n; i++)
            if (strchr(c->option[id].value[i], ',')) {
                if (*n == SWEPT)
                    return sp_fail(c->cx, SPARTA_E_USAGE,
                                   "%s: more than %d flags have a list of values; give fewer lists", who(c),
                                   SWEPT);
                swept *one = &s[(*n)++];
                *one = (swept){&c->option[id].value[i], c->option[id].value[i], cli_options[id].name, 0, 0};
                while (piece(c, one->list, one->n)) one->n++;
            }
    return SPARTA_OK;
}

/* Set the values of this point; the text that says them. */
static sparta_status place(cli *c, swept *s, int n, const char **point)
{
    *point = "";
    for (int i = 0; i < n; i++) {
        *s[i].slot = piece(c, s[i].list, s[i].at);
        SP_NEED(c->cx, *s[i].slot);
        bool dim = strchr(*s[i].slot, '=') != NULL;
        *point = sp_arena_printf(c->arena, "%s%s%s%s%s", *point, i ? " " : "", dim ? "" : s[i].name,
                                 dim ? "" : "=", *s[i].slot);
        SP_NEED(c->cx, *point);
    }
    return SPARTA_OK;
}

sparta_status cli_sweep(cli *c, sparta_status (*fn)(cli *c, const char *point, void *arg), void *arg,
                        int *points)
{
    swept s[SWEPT];
    int n, total = 1;
    SP_TRY(find_swept(c, s, &n));
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(total, s[i].n, &total) || total > 10000)
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "%s: the lists make more than 10000 combinations; give fewer values", who(c));
    *points = total;
    for (int p = 0; p < total; p++) {
        const char *point;
        for (int i = n - 1, rest = p; i >= 0; rest /= s[i].n, i--) s[i].at = rest % s[i].n;
        SP_TRY(place(c, s, n, &point));
        if (total > 1) cli_progress_show(c, p, total, point);
        SP_TRY(fn(c, point, arg));
    }
    return SPARTA_OK;
}
