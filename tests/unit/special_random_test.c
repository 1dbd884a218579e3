/* Random expressions over operands in random formats and types, against the same computed index by index: whole numbers, equal to the bit. Kernels are compiled many
 * at a time. Other ones every day: SPARTA_SEED repeats one, SPARTA_CASES asks for more. Slow: make test only. */
#include "special_bed.h"
#include "format_random.h"
#include <time.h>

enum { BATCH = 20 };
static int joined; /* nests that became one function with others */
static int narrow; /* operands of f16 and bf16 */

static const char *const expressions[] = {
    "C(i,k) = A(i,j)*B(j,k)",
    "C(i,k) += A(i,j)*B(j,k)",
    "C(k,i) = A(i,j)*B(k,j)",
    "y(i) = A(i,j)*x(j)",
    "y(j) = A(i,j)*x(i)",
    "C(i,j) = A(i,j)*X(i,k)*Y(j,k)",
    "C(i,j) = A(i,j) + B(i,j)",
    "C(i,j) = A(i,j)*B(i,j)",
    "C(i,j) = max(A(i,j),B(i,j)) - 2*A(i,j)",
    "C(i,j) = relu(A(i,j))*X(i,j)",
    "y(i) = A(i,j)*x(j) + b(i); y(i) = relu(y(i))",
    "C(i,k) = A(i,j)*B(j,k)*2 - D(i,k)",
    "s = A(i,j)*B(i,j)",
    "C(b,i,k) = A(i,j)*X(b,j,k)",
    "C(i,k) = A(i,j)*B(j,l)*X(l,k)",
    "y(i) = A(i+p,j)*w(p)*x(j)",
    "C(i,j) = A(j,i) + abs(B(i,j))",
    "S(i,j) = A(i,j)*X(i,k)*Y(j,k)",
    "C(m,n) = X(m,k)*A(n,k)",
    "d(i) = A(i,j); C(i,k) = A(i,j)*X(j,k)*d(i); y(i) = C(i,k)",
    "C(i,j) = A(i,j); C(i,j) += 2*B(i,j); y(i) = C(i,j) - X(j,i)",
    "y(i) = largest(A(i,j))",
    "y(j) = smallest(A(i,j)*x(i))",
    "C(i,k) = largest(A(i,j)*X(j,k))",
    "s = largest(A(i,j)-B(i,j))",
    "S(i,j) = A(i,j)*X(i,k)*Y(j,k); y(i) = largest(S(i,j)*A(i,j))",
};
static const char *const threes[] = {
    "C(i,l) = A(i,j,k)*X(j,l)*Y(k,l)",
    "C(i,j) = A(i,j,k)*x(k)",
    "C(i,j,k) = A(i,j,k)*B(i,j,k)",
    "y(k) = A(i,j,k)*X(i,j)",
};

static const char *const named[] = {"csr",       "csc",      "coo",      "dcsr",
                                    "bsr(4,4)",  "bsr(2,3)", "strip(4)", "ell",
                                    "dia",       "bitmap",   "hyb(2,2)", "dbsr(3,2)",
                                    "bell(2,2)", "dcsc",     "cv(4)",    "sr-bcrs(2,2)",
                                    "panel",     "vnni",     "dense",    "(i,j)->(i+j:compressed, j:range)",
                                    "nm24"};

static void draw_format(sp_rng *r, int rank, char *out)
{
    if (rank == 2 && roll(r, 2))
        snprintf(out, FORMAT_DRAWN, "%s", named[roll(r, SP_COUNT(named))]);
    else if (rank == 3 && !roll(r, 3))
        snprintf(out, FORMAT_DRAWN, "csf");
    else
        format_draw(r, rank, roll(r, 4) == 0, out, FORMAT_DRAWN);
}

/* Primitives at random, of which many are refused; what is refused leaves the nest as it was. */
static void draw_schedule(sp_special *s, sp_special_nest *n, sp_rng *r)
{
    for (int step = 0; step < 8 && n->loops; step++) {
        const char *a = n->loop[roll(r, (unsigned)n->loops)].name,
                   *b = n->loop[roll(r, (unsigned)n->loops)].name;
        char text[96];
        const char *c = n->loop[roll(r, (unsigned)n->loops)].name;
        const sp_special_index *x = &s->index[roll(r, (unsigned)s->indices)];
        const sp_special_use *u = &n->use[roll(r, (unsigned)n->uses)];
        switch (roll(r, 15)) {
        case 0:
            snprintf(text, sizeof text, "split(%s,u%d,v%d,%d)", a, step, step,
                     roll(r, 4) ? 2 + (int)roll(r, 3) : 16);
            break;
        case 1:
        case 2: snprintf(text, sizeof text, "reorder(%s,%s)", a, b); break;
        case 3: snprintf(text, sizeof text, "vectorize(%s,%d)", a, 1 << roll(r, 3)); break;
        case 4:
        case 5: snprintf(text, sizeof text, "unroll(%s)", a); break;
        case 6: snprintf(text, sizeof text, "precompute(%s)", a); break;
        case 7: snprintf(text, sizeof text, "bound(%s,%lld)", x->name, (long long)x->size); break;
        case 12:
        case 13:
            snprintf(text, sizeof text, roll(r, 2) ? "cache(%s,%s)" : "cache(%s,%s,scratch)",
                     s->operand[u->operand].name, a);
            break;
        case 9: snprintf(text, sizeof text, "pos(%s,p%d)", a, step); break;
        case 10:
        case 11: snprintf(text, sizeof text, "fuse(%s,%s,f%d)", a, b, step); break;
        case 8: snprintf(text, sizeof text, "tensorize(%s,%s,%s)", a, b, c); break;
        default: snprintf(text, sizeof text, roll(r, 2) ? "threads(%s)" : "threads(%s,temporaries)", a);
        }
        const sp_special_nest before = *n;
        if (!sp_special_apply(s, n, text)) continue;
        assert_int_equal(sp_ctx_status(cx), SPARTA_E_USAGE);
        assert_memory_equal(&before, n, sizeof before);
    }
}

/* All nests with one loop outermost, joined where they may be. */
static void draw_joined(sp_special *s, sp_rng *r)
{
    char text[160];
    const bool threads = roll(r, 2);
    const sp_special_access *result = &s->access[s->statement[0].target];
    const int rank = s->operand[result->operand].rank;
    const char *i = rank ? s->index[sp_special_plain(&result->axis[roll(r, (unsigned)rank)])].name : "i";
    for (int n = 0; n < s->nests; n++) {
        size_t used = (size_t)snprintf(text, sizeof text, "reorder(%s", i);
        for (int l = 0; l < s->nest[n]->loops; l++)
            if (strcmp(s->nest[n]->loop[l].name, i))
                used += (size_t)snprintf(text + used, sizeof text - used, ",%s", s->nest[n]->loop[l].name);
        snprintf(text + used, sizeof text - used, ")");
        if (sp_special_apply(s, s->nest[n], text)) continue;
        snprintf(text, sizeof text, "threads(%s)", i);
        if (threads && sp_special_apply(s, s->nest[n], text)) continue;
        snprintf(text, sizeof text, "hfuse(%s)", i);
        if (!sp_special_apply(s, s->nest[n], text)) joined += n && s->nest[n]->joined;
    }
}

/* False: this tensor does not fit the format, or the expression does not take it. */
static bool begin_case(special_case *c, sp_rng *r, sp_target target, int number, sp_text *text, char *what)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33};
    char format[FORMAT_DRAWN];
    const bool three = roll(r, 5) == 0;
    const char *e = three ? threes[roll(r, SP_COUNT(threes))] : expressions[roll(r, SP_COUNT(expressions))];
    must(sp_special_parse(cx, e, &c->s), e);
    size_t used = (size_t)snprintf(what, 4 * FORMAT_DRAWN, "case %d: %s", number, e);
    for (int i = c->s->operands - 1; i >= 0; i--) {
        const char *name = c->s->operand[i].name;
        const bool plain = strchr(e, '+') && strstr(e, "i+p");
        if (*name == 'S') { /* the pattern of A */
            must(sp_special_format(c->s, name, format), what);
            continue;
        }
        if ((*name != 'A' && (*name != 'B' || roll(r, 2)) && !(*name == 'X' && !roll(r, 6))) ||
            (plain && *name == 'A'))
            continue;
        draw_format(r, c->s->operand[i].rank, format);
        used += (size_t)snprintf(what + used, 4 * FORMAT_DRAWN - used, "; %s: %s", name, format);
        if (sp_special_format(c->s, name, format)) return false;
    }
    for (int i = 0; i < c->s->operands; i++) {
        static const sparta_dtype types[] = {SPARTA_F32, SPARTA_F32, SPARTA_F32, SPARTA_F16, SPARTA_BF16};
        const sparta_dtype type = types[roll(r, SP_COUNT(types))];
        must(sp_special_dtype(c->s, c->s->operand[i].name, type), what);
        narrow += type != SPARTA_F32;
        if (type != SPARTA_F32)
            used += (size_t)snprintf(what + used, 4 * FORMAT_DRAWN - used, "; %s: %s", c->s->operand[i].name,
                                     sparta_dtype_name(type));
    }
    for (int i = 0; i < c->s->indices; i++) {
        const int64_t size = sizes[roll(r, SP_COUNT(sizes) - (three ? 4 : 0))];
        used += (size_t)snprintf(what + used, 4 * FORMAT_DRAWN - used, "; %s=%lld", c->s->index[i].name,
                                 (long long)size);
        must(sp_special_size(c->s, c->s->index[i].name, size), what);
    }
    if (sp_special_sized(c->s)) return false;
    must(sp_special_lower(c->s), what);
    if (c->s->nests > 1 && roll(r, 2))
        draw_joined(c->s, r);
    else if (roll(r, 2))
        for (int i = 0; i < c->s->nests; i++) draw_schedule(c->s, c->s->nest[i], r);
    else
        must(sp_special_schedule(c->s, NULL, target), what);
    static const unsigned keeps[] = {0, 2, 20, 50, 100};
    make_operands(c, r, keeps[roll(r, SP_COUNT(keeps))]);
    snprintf(c->prefix, sizeof c->prefix, "c%d_", number);
    if (sp_special_bind(c->s, c->given, &c->kernel)) return false;
    sp_special_functions(c->s, c->prefix, text);
    must(text->status, what);
    return true;
}

static int batch(sp_rng *r, int from, int count)
{
    static special_case cases[BATCH];
    static char what[BATCH][4 * FORMAT_DRAWN];
    sp_target target = (sp_target)(from / BATCH % 3); /* avx512, avx2, portable */
    if (!sp_target_fits(target)) target = sp_target_best(SP_DEVICE_CPU);
    const sp_object *object;
    sp_jit_rung rung;
    sp_text text;
    int n = 0;
    sp_text_init(&text, cx);
    must(sp_special_head(target, &text), "head");
    for (int i = 0; i < count; i++) {
        if (begin_case(&cases[n], r, target, from + i, &text, what[n]))
            n++;
        else
            end_case(&cases[n]);
    }
    if (getenv("SPECIAL_TEXT")) puts(sp_text_str(&text));
    must(sp_jit_get(cx, target, sp_text_str(&text), &object, &rung), "compile");
    sp_text_free(&text);
    sp_pool *pool = sp_pool_create(cx, 2);
    assert_non_null(pool);
    for (int i = 0; i < n; i++) {
        must(sp_special_code(&cases[i].kernel, object, cases[i].prefix), what[i]);
        if (getenv("SPECIAL_TEXT")) fprintf(stderr, "%s\n", what[i]);
        must(sp_special_run(&cases[i].kernel, i % 2 ? pool : NULL), what[i]);
        compare_case(&cases[i], what[i]);
        end_case(&cases[i]);
    }
    sp_pool_free(pool);
    sp_jit_close(object);
    return n;
}

static void any_expression_in_any_format(void **state)
{
    (void)state;
    const char *seed = getenv("SPARTA_SEED"), *asked = getenv("SPARTA_CASES");
    const uint64_t day = (uint64_t)time(NULL) / 86400, from = seed ? strtoull(seed, NULL, 10) : day;
    sp_rng r = sp_rng_seed(from);
    const int cases = asked ? atoi(asked) : SANITIZED ? 300 : 2000;
    print_message("SPARTA_SEED=%llu\n", (unsigned long long)from);
    int ran = 0;
    for (int i = 0; i < cases; i += BATCH) ran += batch(&r, i, SP_MIN(BATCH, cases - i));
    print_message("%d of %d ran, %d nests joined, %d operands of f16 and bf16\n", ran, cases, joined, narrow);
    assert_true((joined && narrow) || cases < 200);
    assert_true(ran > cases / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_expression_in_any_format, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
