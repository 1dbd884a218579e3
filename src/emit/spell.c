/* Types, numbers and statements of nests as C spells them. */
#include "emit/spell.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ types */
const sp_spell_type sp_spell_vec = {"vec", "float", "splat", "_vec", "f32"},
                    sp_spell_ints = {"ints", "int", "splat_int", "_ints", "i32"},
                    sp_spell_longs = {"longs", "long long", "splat_long", "_longs", "i64"},
                    sp_spell_doubles = {"doubles", "double", "splat_double", "_doubles", "f64"};

const sp_spell_type *sp_spell_type_of(sparta_dtype d)
{
    switch (d) {
    case SPARTA_F32:
    case SPARTA_F16:
    case SPARTA_BF16: return &sp_spell_vec;
    case SPARTA_F64: return &sp_spell_doubles;
    case SPARTA_I64:
    case SPARTA_U64: return &sp_spell_longs;
    default: return &sp_spell_ints;
    }
}

/* As it lies in memory: words.h has ACCESS of the same. */
const char *sp_spell_stored(sparta_dtype d)
{
    switch (d) {
    case SPARTA_F32: return "float";
    case SPARTA_F64: return "double";
    case SPARTA_F16:
    case SPARTA_BF16:
    case SPARTA_U16: return "unsigned short";
    case SPARTA_I8: return "signed char";
    case SPARTA_U8:
    case SPARTA_BOOL: return "unsigned char";
    case SPARTA_I16: return "short";
    case SPARTA_I64:
    case SPARTA_U64: return "long long";
    default: return "int";
    }
}

/* ------------------------------------------------------------------ expressions */
/* How words are written: $0 and $1 are arguments; of vec first, then of the others, where @ is what functions of the type end with. */
static const struct {
    int word;
    const char *real, *other;
} spelling[] = {
    {SP_NEST_copy, "$0", "$0"},
    {SP_NEST_add, "$0 + $1", "add@($0, $1)"},
    {SP_NEST_sub, "$0 - $1", "sub@($0, $1)"},
    {SP_NEST_mul, "$0 * $1", "mul@($0, $1)"},
    {SP_NEST_div, "$0 / $1", NULL},
    {SP_NEST_min, "least($0, $1)", "least@($0, $1)"},
    {SP_NEST_max, "most($0, $1)", "most@($0, $1)"},
    {SP_NEST_neg, "-$0", "sub@($z, $0)"},
    {SP_NEST_abs, "absolute($0)", "abs@($0)"},
    {SP_NEST_sign, "sign($0)", "sign@($0)"},
    {SP_NEST_relu, "relu($0)", "most@($0, $z)"},
    {SP_NEST_equal, "$0 == $1", "$0 == $1"},
    {SP_NEST_less, "$0 < $1", "$0 < $1"},
    {SP_NEST_less_equal, "$0 <= $1", "$0 <= $1"},
    {SP_NEST_is_nan, "$0 != $0", NULL},
    {SP_NEST_is_inf, "absolute($0) == splat(__builtin_inff())", NULL},
    {SP_NEST_and, NULL, "$0 & $1"},
    {SP_NEST_or, NULL, "$0 | $1"},
    {SP_NEST_xor, NULL, "$0 ^ $1"},
    {SP_NEST_not, NULL, "~$0"},
    {SP_NEST_where, "pick($0, $1, $2)", "pick@($0, $1, $2)"},
    {SP_NEST_sqrt, "root($0)", NULL},
    {SP_NEST_rsqrt, "rsqrt($0)", NULL},
    {SP_NEST_reciprocal, "splat(1.f) / $0", NULL},
    {SP_NEST_floor, "down($0)", NULL},
    {SP_NEST_ceil, "up($0)", NULL},
    {SP_NEST_round, "nearest($0)", NULL},
    {SP_NEST_steps, "steps($0, $1, $2, $3)", NULL},
    {SP_NEST_exp, "expv($0)", NULL},
    {SP_NEST_expm1, "expm1v($0)", NULL},
    {SP_NEST_log, "logv($0)", NULL},
    {SP_NEST_sin, "sinv($0)", NULL},
    {SP_NEST_cos, "cosv($0)", NULL},
    {SP_NEST_tanh, "tangent($0)", NULL},
    {SP_NEST_erf, "erfv($0)", NULL},
    {SP_NEST_sigmoid, "sigmoidv($0)", NULL},
    {SP_NEST_softplus, "softplus($0)", NULL},
    {SP_NEST_gelu, "gelu($0)", NULL},
    {SP_NEST_gelu_tanh, "gelu_tanh($0)", NULL},
    {SP_NEST_pow, "power($0, $1)", NULL},
};
static const sp_spell_folding folding[] = {
    {SP_NEST_sum, "0", "0", "0", "add", "sum"},
    {SP_NEST_mean, "0", "0", "0", "add", "sum"},
    {SP_NEST_prod, "1", "1", "1", "mul", "product"},
    {SP_NEST_smallest, "__builtin_inff()", "0x7fffffff", "0x7fffffffffffffffll", "least", "smallest"},
    {SP_NEST_largest, "-__builtin_inff()", "-0x7fffffff - 1", "-0x7fffffffffffffffll - 1", "most", "largest"},
};

const sp_spell_folding *sp_spell_fold(const sp_nest_statement *s)
{
    size_t i = 0;
    while (i + 1 < SP_COUNT(folding) && folding[i].word != s->word) i++;
    return &folding[i];
}
const char *sp_spell_start(const sp_nest_statement *s)
{
    const sp_spell_type *t = sp_spell_type_of(s->dtype);
    const sp_spell_folding *f = sp_spell_fold(s);
    return t == &sp_spell_ints ? f->start_int : t == &sp_spell_longs ? f->start_long : f->start_real;
}

/* The fewest digits that read back as the same number. */
static void print_shortest(double v, bool single, char *out, size_t size)
{
    const double exact = single ? (double)(float)v : v;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, exact);
        for (char *c = out; *c; c++)
            if (*c == ',') *c = '.'; /* the host's locale */
        double back;
        if (sp_parse_double(out, &back) && (single ? (double)(float)back : back) == exact) return;
    }
}

static void print_number(double v, const sp_spell_type *t, sp_text *out)
{
    if (t == &sp_spell_ints || t == &sp_spell_longs) {
        const double low = t == &sp_spell_ints ? -0x1p31 : -0x1p63,
                     high = t == &sp_spell_ints ? 0x1p31 : 0x1p63;
        const long long i = v >= low && v < high ? (long long)v : 0;
        if (i == (t == &sp_spell_ints ? INT32_MIN : INT64_MIN))
            sp_text_printf(out, "%s(%lld%s - 1)", t->splat, i + 1, t == &sp_spell_longs ? "ll" : "");
        else
            sp_text_printf(out, "%s(%lld%s)", t->splat, i, t == &sp_spell_longs ? "ll" : "");
    } else if (isnan(v))
        sp_text_printf(out, "%s(__builtin_nanf(\"\"))", t->splat);
    else if (isinf(v))
        sp_text_printf(out, "%s(%s__builtin_inff())", t->splat, v < 0 ? "-" : "");
    else {
        char s[64];
        print_shortest(v, t == &sp_spell_vec, s, sizeof s);
        sp_text_printf(out, "%s(%s%s%s)", t->splat, s, strpbrk(s, ".ein") ? "" : ".",
                       t == &sp_spell_vec ? "f" : "");
    }
}

sp_spell_name sp_spell_name_of(const sp_nest *n, int statement)
{
    const int stores = n->statement[statement].stores;
    sp_spell_name out;
    snprintf(out.s, sizeof out.s, stores < 0 ? "t%d" : "y%d",
             stores < 0 ? statement : stores - sp_nest_inputs(n));
    return out;
}

void sp_spell_arg(const sp_nest *n, const sp_nest_arg *a, const sp_spell_type *number, sp_text *out)
{
    if (a->kind == SP_ARG_NUMBER)
        print_number(a->number, number, out);
    else if (a->kind == SP_ARG_OPERAND)
        sp_text_printf(out, "x%d", a->at);
    else
        sp_text_printf(out, "%s", sp_spell_name_of(n, a->at).s);
}

/* The type of what a statement's numbers stand among. */
static const sp_spell_type *arg_type(const sp_nest *n, const sp_nest_statement *s)
{
    const sp_nest_kind kind = sp_nest_word_row(s->word)->kind;
    if (kind == SP_KIND_STEPS) return &sp_spell_vec;
    if (kind == SP_KIND_TEST || kind == SP_KIND_CHECK)
        for (int i = 0; i < s->n; i++)
            if (s->arg[i].kind != SP_ARG_NUMBER)
                return sp_spell_type_of(sp_nest_arg_dtype(n, &s->arg[i], s->dtype));
    return sp_spell_type_of(kind == SP_KIND_TEST || kind == SP_KIND_CHECK ? SPARTA_F32 : s->dtype);
}

/* from one type to another */
static void print_cast(const sp_nest *n, const sp_nest_statement *s, sp_text *out)
{
    const sparta_dtype from = sp_nest_arg_dtype(n, &s->arg[0], s->dtype), to = s->dtype;
    const sp_spell_type *a = sp_spell_type_of(from), *b = sp_spell_type_of(to);
    sp_text arg;
    sp_text_init(&arg, out->cx);
    sp_spell_arg(n, &s->arg[0], a, &arg);
    const char *x = sp_text_str(&arg);
    if (to == SPARTA_BOOL && from == SPARTA_BOOL)
        sp_text_printf(out, "%s", x);
    else if (to == SPARTA_BOOL)
        sp_text_printf(out,
                       a == &sp_spell_longs     ? "TEST_LONGS(%s, !=, %s(0))"
                       : a == &sp_spell_doubles ? "narrow_mask((longs)(%s != %s(0)))"
                                                : "(ints)(%s != %s(0))",
                       x, a->splat);
    else if (from == SPARTA_BOOL)
        sp_text_printf(out, b == &sp_spell_ints ? "%s & 1" : "__builtin_convertvector(%s & 1, %s)", x,
                       b->name);
    else if (a == &sp_spell_vec && b == &sp_spell_ints && to != SPARTA_I32)
        sp_text_printf(out, "__builtin_convertvector(longs_of_vec(%s), ints)",
                       x); /* wraps as a wider integer does */
    else if (a == b)
        sp_text_printf(out, "%s", x);
    else
        sp_text_printf(out, "__builtin_convertvector(%s, %s)", x, b->name);
    sp_text_free(&arg);
}

/* Does a later statement read statement `at`? What is only stored is rounded or wrapped by that. */
static bool is_read(const sp_nest *n, int at)
{
    for (int i = at + 1; i < n->statements; i++)
        if (sp_nest_reads(&n->statement[i], at)) return true;
    return false;
}

/* Types narrower than what they are computed in: rounded, or wrapped. */
static bool narrow(sparta_dtype d)
{
    return d == SPARTA_F16 || d == SPARTA_BF16 || d == SPARTA_I8 || d == SPARTA_U8 || d == SPARTA_I16 ||
           d == SPARTA_U16;
}

/* Division takes longer than to read what is divided: by a number, or by a root that is the same at many indices, it is a product with the
 * inverse, which is off by one rounding. Not where something is sensitive to that: what rounds and compares. */
static bool exact(const sp_nest *n)
{
    for (int i = 0; i < n->statements; i++) {
        const int word = n->statement[i].word;
        const sp_nest_kind kind = sp_nest_word_row(word)->kind;
        if (kind == SP_KIND_TEST || kind == SP_KIND_CAST || kind == SP_KIND_STEPS || word == SP_NEST_floor ||
            word == SP_NEST_ceil || word == SP_NEST_round || word == SP_NEST_sign)
            return true;
    }
    return false;
}
static bool inverts(const sp_nest *n, const sp_nest_statement *s)
{
    const sp_nest_arg *d = &s->arg[1];
    if (s->word != SP_NEST_div || exact(n)) return false;
    if (d->kind == SP_ARG_NUMBER) return fabs(d->number) > 1e-30 && fabs(d->number) < 1e30;
    if (d->kind != SP_ARG_STATEMENT || !sp_nest_barred(n) || !s->inner) return false;
    return !n->statement[d->at].inner && n->statement[d->at].word == SP_NEST_sqrt;
}

/* What C's own operators do for doubles too. */
static bool is_arithmetic(int word)
{
    return word == SP_NEST_add || word == SP_NEST_sub || word == SP_NEST_mul || word == SP_NEST_neg;
}

void sp_spell_expression(const sp_nest *n, const sp_nest_statement *s, sp_text *out)
{
    if (inverts(n, s)) {
        sp_spell_arg(n, &s->arg[0], &sp_spell_vec, out);
        sp_text_printf(out, " * ");
        if (s->arg[1].kind == SP_ARG_NUMBER)
            print_number(1 / s->arg[1].number, &sp_spell_vec, out);
        else
            sp_text_printf(out, "(splat(1.f) / %s)", sp_spell_name_of(n, s->arg[1].at).s);
        return;
    }
    const sp_spell_type *t = arg_type(n, s);
    const bool wraps = narrow(s->dtype) && s->word != SP_NEST_copy && s->word != SP_NEST_where &&
                       is_read(n, (int)(s - n->statement));
    if (wraps)
        sp_text_printf(out, "from_%s(to_%s(", sparta_dtype_name(s->dtype), sparta_dtype_name(s->dtype));
    const bool test = sp_nest_word_row(s->word)->kind == SP_KIND_TEST;
    const bool plain = t == &sp_spell_vec || (t == &sp_spell_doubles && is_arithmetic(s->word));
    const char *p = NULL;
    for (size_t i = 0; i < SP_COUNT(spelling); i++)
        if (spelling[i].word == s->word) p = plain ? spelling[i].real : spelling[i].other;
    if (s->word == SP_NEST_cast) print_cast(n, s, out);
    const bool halves = test && t == &sp_spell_longs; /* TEST_LONGS(a, ==, b) */
    if (p && test)
        sp_text_printf(out, halves                   ? "TEST_LONGS("
                            : t == &sp_spell_doubles ? "narrow_mask((longs)("
                                                     : "(ints)(");
    for (; p && *p; p++) {
        if (*p == '@')
            sp_text_printf(out, "%s", t->end);
        else if (*p == '$' && p[1] == 'z')
            p++, print_number(0, t, out);
        else if (*p == '$') {
            const sp_nest_arg *a = &s->arg[*++p - '0'];
            sp_spell_arg(n, a, t, out);
        } else
            sp_text_printf(out, halves && *p == ' ' ? ", " : "%c", *p);
    }
    if (p && test) sp_text_printf(out, t == &sp_spell_doubles ? "))" : ")");
    if (wraps) sp_text_printf(out, "))");
}

const char *sp_spell_word(int word)
{
    for (size_t i = 0; i < SP_COUNT(spelling); i++)
        if (spelling[i].word == word) return spelling[i].real;
    return NULL;
}
