/* Text to nest. The text may come from a package that somebody made to do harm: every number, name and count is checked. */
#include "kernel/inside.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MOST_TEXT = 1 << 16, MOST_NUMBER = 1 << 30 };

typedef struct reader {
    sparta_ctx *cx;
    const char *text, *p;
    sp_nest *n;
    int names[SP_NEST_STATEMENTS]; /* the number that a statement was called by; -1: by its operand */
} reader;

static sparta_status bad(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "nest: %s at character %ld ('%.12s')", what,
                   (long)(r->p - r->text), r->p);
}

static void skip(reader *r)
{
    while (*r->p == ' ' || *r->p == '\n') r->p++;
}
static bool take(reader *r, const char *s)
{
    skip(r);
    const size_t n = strlen(s);
    if (strncmp(r->p, s, n)) return false;
    r->p += n;
    return true;
}
static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number of at most MOST_NUMBER, with a sign if `sign`. */
static sparta_status take_int(reader *r, bool sign, int64_t *out)
{
    skip(r);
    const bool minus = sign && *r->p == '-';
    if (minus) r->p++;
    if (!digit(*r->p)) return bad(r, "a number is missing");
    int64_t v = 0;
    while (digit(*r->p)) {
        v = v * 10 + (*r->p - '0');
        if (v > MOST_NUMBER) return bad(r, "a number is too large");
        r->p++;
    }
    *out = minus ? -v : v;
    return SPARTA_OK;
}

/* Letters, digits and underscores. */
static size_t take_word(reader *r, const char **word)
{
    skip(r);
    *word = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    return (size_t)(r->p - *word);
}
static int among(const char *word, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == length && length && !memcmp(names[i], word, length)) return i;
    return -1;
}

static int find_loop(const sp_nest *n, char name)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].name == name) return i;
    return -1;
}

/* ------------------------------------------------------------------ loops: i j:3 | k* */
static sparta_status take_loop(reader *r, bool inner)
{
    sp_nest *n = r->n;
    const char *word;
    size_t length;
    if (n->loops == SP_NEST_LOOPS) return bad(r, "there are too many loops");
    if (*r->p < 'a' || *r->p > 'z' || find_loop(n, *r->p) >= 0)
        return bad(r, "a loop's name is one small letter that no other has");
    sp_nest_loop *l = &n->loop[n->loops];
    *l = (sp_nest_loop){.name = *r->p++, .inner = inner, .size = -1};
    if (*r->p == ':') {
        r->p++;
        SP_TRY(take_int(r, false, &l->size));
    }
    if (*r->p == '@') {
        r->p++;
        length = take_word(r, &word);
        const int over = among(word, length, sp_nest_overs, SP_NEST_OVERS);
        if (over < 0) return bad(r, "a loop runs over counts, segment or merge, before this");
        l->over = (sp_nest_over)over;
    }
    if (*r->p == '*') {
        r->p++;
        l->bind = SP_BIND_VECTOR;
    } else if (*r->p == '.') {
        r->p++;
        length = take_word(r, &word);
        const int bind = among(word, length, sp_nest_bindings, SP_NEST_BINDINGS);
        if (bind < 0) return bad(r, "no binding of loops is called so, before this");
        l->bind = (sp_nest_binding)bind;
    }
    n->loops++;
    return SPARTA_OK;
}

static sparta_status take_loops(reader *r)
{
    bool inner = false;
    for (skip(r); *r->p && *r->p != ';'; skip(r)) {
        if (*r->p == '|') {
            if (inner) return bad(r, "there is a second bar");
            inner = true;
            r->p++;
        } else
            SP_TRY(take_loop(r, inner));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ operands: x0: f32[i,2*j+k-1,0] */
/* One term of a sum: 2*j, j, 3. */
static sparta_status take_term(reader *r, bool minus, sp_nest_axis *x)
{
    int64_t times = 1;
    skip(r);
    if (digit(*r->p) || *r->p == '-') {
        SP_TRY(take_int(r, true, &times));
        if (!take(r, "*")) {
            if (x->plus) return bad(r, "an axis has a second constant");
            x->plus = minus ? -times : times;
            return SPARTA_OK;
        }
        skip(r);
    }
    const int loop = find_loop(r->n, *r->p);
    if (loop < 0) return bad(r, "no loop is called so");
    if (x->n == SP_NEST_TERMS) return bad(r, "an axis has too many loops");
    for (int i = 0; i < x->n; i++)
        if (x->term[i].loop == loop) return bad(r, "an axis has a loop twice");
    if (!times) return bad(r, "a factor is 0");
    x->term[x->n++] = (sp_nest_term){loop, minus ? -times : times};
    r->p++;
    return SPARTA_OK;
}

static sparta_status take_axis(reader *r, sp_nest_axis *x)
{
    *x = (sp_nest_axis){0};
    bool minus = false;
    for (;;) {
        SP_TRY(take_term(r, minus, x));
        if (take(r, "+"))
            minus = false;
        else if (take(r, "-"))
            minus = true;
        else
            return SPARTA_OK;
    }
}

static sparta_status take_dtype(reader *r, sparta_dtype *out)
{
    const char *word;
    char name[8] = {0};
    const size_t length = take_word(r, &word);
    if (length < sizeof name) memcpy(name, word, length);
    if (!sp_dtype_parse(name, out)) return bad(r, "no type is called so, before this");
    return SPARTA_OK;
}

static sparta_status take_operand(reader *r, bool out)
{
    sp_nest *n = r->n;
    int64_t number;
    if (n->operands == SP_NEST_OPERANDS) return bad(r, "there are too many operands");
    SP_TRY(take_int(r, false, &number));
    if (number != n->operands - (out ? sp_nest_inputs(n) : 0) || (!out && sp_nest_inputs(n) != n->operands))
        return bad(r, "operands are x0, x1, ... and then y0, y1, ..., before this");
    if (!take(r, ":")) return bad(r, "a colon is missing");
    sp_nest_operand *o = &n->operand[n->operands];
    *o = (sp_nest_operand){.out = out, .lanes = take(r, "lanes ")};
    SP_TRY(take_dtype(r, &o->dtype));
    if (!take(r, "[")) return bad(r, "a bracket is missing");
    if (!take(r, "]")) do {
            if (o->rank == SPARTA_RANK) return bad(r, "an operand has too many axes");
            SP_TRY(take_axis(r, &o->axis[o->rank]));
            o->rank++;
        } while (take(r, ","));
    else
        return n->operands++, SPARTA_OK;
    if (!take(r, "]")) return bad(r, "a bracket is missing");
    n->operands++;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ statements: t3: bool = less(x0,1e-06) */
static sparta_status take_arg(reader *r, sp_nest_arg *a)
{
    const sp_nest *n = r->n;
    skip(r);
    const char kind = *r->p;
    if ((kind == 'x' || kind == 'y' || kind == 't') && digit(r->p[1])) {
        int64_t number;
        r->p++;
        SP_TRY(take_int(r, false, &number));
        if (kind == 'x') {
            if (number >= sp_nest_inputs(n)) return bad(r, "no input is called so, before this");
            *a = (sp_nest_arg){SP_ARG_OPERAND, (int)number, 0};
            return SPARTA_OK;
        }
        for (int s = 0; s < n->statements; s++)
            if (kind == 't'
                    ? r->names[s] == number
                    : n->statement[s].stores >= 0 && n->statement[s].stores - sp_nest_inputs(n) == number) {
                *a = (sp_nest_arg){SP_ARG_STATEMENT, s, 0};
                return SPARTA_OK;
            }
        return bad(r, "it is used before it is computed, before this");
    }
    if (!(digit(kind) || kind == '-' || kind == 'i' || kind == 'n')) return bad(r, "an argument is missing");
    char number[40] = {0};
    size_t length = 0;
    *a = (sp_nest_arg){.kind = SP_ARG_NUMBER};
    for (char last = 'e';
         isalnum((unsigned char)*r->p) || *r->p == '.' || (last == 'e' && strchr("+-", *r->p) && *r->p);) {
        if (length + 1 == sizeof number) return bad(r, "a number is too long");
        last = number[length++] = *r->p++;
    }
    static const char *const names[] = {"inf", "-inf", "nan"};
    static const double values[] = {INFINITY, -INFINITY, NAN};
    const int special = among(number, length, names, 3);
    if (special >= 0)
        a->number = values[special];
    else if (!sp_parse_double(number, &a->number))
        return bad(r, "a number is none, before this");
    return SPARTA_OK;
}

static sparta_status take_statement(reader *r, bool stored)
{
    sp_nest *n = r->n;
    int64_t number;
    const char *word;
    if (n->statements == SP_NEST_STATEMENTS) return bad(r, "there are too many statements");
    SP_TRY(take_int(r, false, &number));
    if (!stored)
        for (int s = 0; s < n->statements; s++)
            if (r->names[s] == number) return bad(r, "there is a second statement of this name, before this");
    sp_nest_statement *s = &n->statement[n->statements];
    *s = (sp_nest_statement){.dtype = SPARTA_F32, .stores = -1};
    if (stored) {
        if (number >= n->operands - sp_nest_inputs(n)) return bad(r, "no output is called so, before this");
        s->stores = (int)number + sp_nest_inputs(n);
    }
    r->names[n->statements] = stored ? -1 : (int)number;
    if (take(r, ":")) SP_TRY(take_dtype(r, &s->dtype));
    if (!take(r, "=")) return bad(r, "an equals sign is missing");
    const size_t length = take_word(r, &word);
    s->word = -1;
    for (int w = 0; w < SP_NEST_WORDS; w++)
        if (among(word, length, &sp_nest_word_row(w)->name, 1) == 0) s->word = w;
    if (s->word < 0) return bad(r, "there is no such word, before this");
    if (!take(r, "(")) return bad(r, "a parenthesis is missing");
    do {
        if (s->n == SP_NEST_ARGS) return bad(r, "a word has too many arguments");
        SP_TRY(take_arg(r, &s->arg[s->n]));
        s->n++;
    } while (take(r, ","));
    if (!take(r, ")")) return bad(r, "a parenthesis is missing");
    n->statements++;
    return SPARTA_OK;
}

/* y0 is an operand at first, and then the statement that stores it. */
static sparta_status take_item(reader *r)
{
    skip(r);
    const char kind = *r->p;
    if (kind != 'x' && kind != 'y' && kind != 't') return bad(r, "it begins with none of x, y, t");
    r->p++;
    const bool operand = kind == 'x' || (kind == 'y' && memchr(r->p, '[', strcspn(r->p, ";=")));
    if (operand && r->n->statements) return bad(r, "operands come before statements");
    return operand ? take_operand(r, kind == 'y') : take_statement(r, kind == 'y');
}

sparta_status sp_nest_parse(sparta_ctx *cx, const char *text, sp_nest *out)
{
    *out = (sp_nest){0};
    reader r = {.cx = cx, .text = text, .p = text, .n = out};
    if (strnlen(text, MOST_TEXT) == MOST_TEXT) return bad(&r, "the text is too long");
    SP_TRY(take_loops(&r));
    while (take(&r, ";")) SP_TRY(take_item(&r));
    skip(&r);
    if (*r.p) return bad(&r, "something is left over");
    SP_TRY(sp_nest_check(cx, out));
    sp_nest_phases(out);
    return SPARTA_OK;
}
