/* The text columns of levels.def, evaluated, against level_<name>.c: where segments begin and end, and the coordinate of every position, of all kinds in named
 * and random formats. */
#include "bed.h"
#include "format/walk.h"
#include "format_random.h"

static const struct {
    const char *begin, *end, *coordinate;
} columns[] = {
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate) {begin, end, coordinate},
#include "format/levels.def"
#undef SP_LEVEL
};

/* ------------------------------------------------------------------ a column as a number */
typedef struct evaluator {
    const char *c;
    sp_level_view *v;
    int64_t p, q;
} evaluator;

static int64_t sum(evaluator *e);

static void blanks(evaluator *e)
{
    while (*e->c == ' ') e->c++;
}

/* What is stored at q, as generated text reads it. */
static int64_t stored(const evaluator *e)
{
    const sp_level *l = e->v->level;
    if (!l->crd_bits) return sp_index_get(l->crd, e->v->crd->data, e->q * e->v->crd_step + e->v->crd_first);
    const int64_t each = 8 / l->crd_bits, parent = e->q / l->w, slot = e->q % l->w;
    const uint8_t *bytes = e->v->crd->data;
    return bytes[parent * ((l->w + each - 1) / each) + slot / each] >> slot % each * l->crd_bits &
           ((1 << l->crd_bits) - 1);
}

static int64_t factor(evaluator *e)
{
    int64_t value = 0;
    blanks(e);
    if (*e->c == '(') {
        e->c++;
        value = sum(e);
        assert_int_equal(*e->c++, ')');
    } else if (!strncmp(e->c, "pos[", 4)) {
        e->c += 4;
        value = sp_index_get(e->v->level->pos, e->v->pos->data, sum(e));
        assert_int_equal(*e->c++, ']');
    } else if (!strncmp(e->c, "crd(q)", 6)) {
        e->c += 6;
        value = stored(e);
    } else if (*e->c >= '0' && *e->c <= '9') {
        value = strtoll(e->c, (char **)&e->c, 10);
    } else {
        value = *e->c == 'p' ? e->p : *e->c == 'q' ? e->q : *e->c == 'N' ? e->v->extent : e->v->width;
        assert_non_null(strchr("pqNW", *e->c++));
    }
    blanks(e);
    return value;
}

static int64_t product(evaluator *e)
{
    int64_t value = factor(e);
    while (*e->c == '*') e->c++, value *= factor(e);
    return value;
}

static int64_t sum(evaluator *e)
{
    int64_t value = product(e);
    while (*e->c == '+' || *e->c == '-') {
        const int sign = *e->c++ == '+' ? 1 : -1;
        value += sign * product(e);
    }
    return value;
}

static int64_t evaluate(const char *column, sp_level_view *v, int64_t p, int64_t q)
{
    evaluator e = {column, v, p, q};
    const int64_t value = sum(&e);
    assert_int_equal(*e.c, 0);
    return value;
}

/* ------------------------------------------------------------------ both */
static int seen[SP_LEVEL_KINDS];

static void compare_level(sp_level_view *v, const char *format)
{
    const sp_level_kind kind = v->level->kind;
    for (int64_t p = 0; p < v->parents; p++) {
        int64_t lo, hi;
        sp_level_table[kind].ops->segment(v, p, &lo, &hi);
        if (evaluate(columns[kind].begin, v, p, 0) != lo || evaluate(columns[kind].end, v, p, 0) != hi)
            fail_msg("%s: level %d, segment %lld is %lld to %lld", format, v->number, (long long)p,
                     (long long)lo, (long long)hi);
        for (int64_t q = lo; q < hi && *columns[kind].coordinate; q++) {
            const int64_t is = sp_level_table[kind].ops->coordinate(v, p, q);
            const int64_t stored_from = sp_level_table[kind].crd_kind == SP_CRD_INDEX ? v->origin : 0;
            if (evaluate(columns[kind].coordinate, v, p, q) - stored_from != is)
                fail_msg("%s: level %d, the coordinate at %lld is %lld", format, v->number, (long long)q,
                         (long long)is);
        }
        seen[kind] += hi > lo;
    }
}

static void compare_format(const char *text, int rank, sp_rng *r)
{
    sp_format f;
    sp_packed p;
    sparta_tensor t;
    int64_t dim[3];
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    for (int d = 0; d < rank; d++) dim[d] = 1 + roll(r, 9);
    assert_int_equal(sp_tensor_alloc(cx, SPARTA_F32, rank, dim, &t), SPARTA_OK);
    for (int64_t i = 0; i < sparta_tensor_elements(&t); i++) ((float *)t.data)[i] = (float)(roll(r, 3) == 0);
    if (!sp_store_pack(cx, &f, &t, NULL, &p)) { /* else it does not fit */
        for (int i = 0; i < sp_packed_leaves(&p); i++) {
            sp_level_view view[SP_LEVELS];
            const sp_packed *leaf = sp_packed_leaf(&p, i);
            assert_int_equal(sp_leaf_verify(cx, leaf, view), SPARTA_OK);
            for (int l = 0; l < leaf->format.n; l++) compare_level(&view[l], text);
        }
        sp_packed_free(cx, &p);
    }
    sp_free(cx, t.data);
}

static void columns_are_what_levels_do(void **state)
{
    (void)state;
    static const char *const named[] = {"csr",
                                        "csc",
                                        "coo",
                                        "dcsr",
                                        "bsr(2,3)",
                                        "ell",
                                        "dia",
                                        "nm24",
                                        "bitmap",
                                        "hyb(2,2)",
                                        "(i,j)->(i:compressed(nonunique), j:singleton(aos))",
                                        "(i,j)->(i:dense, j/4:dense, j%4:structured[4,4]), crd=u4",
                                        "(i,j)->(i:dense, j:loose)",
                                        "(i,j)->(i:dense, j:ragged)"};
    sp_rng r = sp_rng_seed(3);
    for (int round = 0; round < 40; round++)
        for (size_t i = 0; i < SP_COUNT(named); i++) compare_format(named[i], 2, &r);
    for (int i = 0; i < 2000; i++) {
        char text[FORMAT_DRAWN];
        const int rank = 1 + (int)roll(&r, 3);
        format_draw(&r, rank, roll(&r, 4) == 0, text, sizeof text);
        compare_format(text, rank, &r);
    }
    for (int k = 0; k < SP_LEVEL_KINDS; k++)
        if (!seen[k]) fail_msg("no %s level was seen", sp_level_table[k].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_are_what_levels_do)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
