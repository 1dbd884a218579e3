/* Random expressions over operands in random formats and types, against the same computed index by index: whole numbers, equal to the bit.
 *
 * A case is drawn from the seed and its number alone, so any one can be repeated. Compilers take nearly all the time, so 50 cases are one text, one text in 8 is
 * optimised as users' kernels are, and the others not at all: what is tested is what room special writes, not what gcc makes of it. A batch runs in a process of its
 * own; one that fails, crashes or hangs is run again case by case, which names the culprit.
 *
 *     TEST_SEED=n       others than today's
 *     SPARTA_CASES=n    as many, of each family
 *     SPARTA_FROM=n     the number of the first
 *     SPARTA_FAMILY=x   this family alone
 *     SPARTA_JOBS=n     as many processes at a time
 *     SPARTA_FULL=n     one text in n is optimised
 *
 * make test runs 700 in all, make test-all 2,000; make test-random runs 100,000 of each family, one text in 32 optimised. Slow: make test only. */
#include "special_bed.h"
#include "format_random.h"
#include "today.h"
#include "jit/jit.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { BATCH = 50, FULL = 8, PATIENCE = 600 /* s */, JOBS_MOST = 64 };

/* What batches tell of themselves, across processes. */
static struct tally {
    int64_t ran;    /* of those drawn; the others were refused */
    int64_t joined; /* nests that became one function with others */
    int64_t narrow; /* operands of f16 and bf16 */
} * tally;

static void count(int64_t *what, int64_t n)
{
    __atomic_fetch_add(what, n, __ATOMIC_RELAXED);
}

static int64_t number_given(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static int64_t full(void)
{
    return SP_MAX(number_given("SPARTA_FULL", FULL), 1);
}

typedef struct family {
    const char *name;
    const char *expression[12];
} family;
static const family families[] = {
    {"product",
     {"C(i,k) = A(i,j)*B(j,k)", "C(i,k) += A(i,j)*B(j,k)", "C(k,i) = A(i,j)*B(k,j)", "y(i) = A(i,j)*x(j)",
      "y(j) = A(i,j)*x(i)", "C(b,i,k) = A(i,j)*X(b,j,k)", "C(i,k) = A(i,j)*B(j,l)*X(l,k)",
      "C(m,n) = X(m,k)*A(n,k)", "C(i,k) = A(i,j)*B(j,k)*2 - D(i,k)", "s = A(i,j)*B(i,j)"}},
    {"sampled",
     {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "S(i,j) = A(i,j)*X(i,k)*Y(j,k)",
      "S(i,j) = A(i,j)*X(i,k)*Y(j,k); y(i) = largest(S(i,j)*A(i,j))"}},
    {"elementwise",
     {"C(i,j) = A(i,j) + B(i,j)", "C(i,j) = A(i,j)*B(i,j)", "C(i,j) = max(A(i,j),B(i,j)) - 2*A(i,j)",
      "C(i,j) = relu(A(i,j))*X(i,j)", "C(i,j) = A(j,i) + abs(B(i,j))"}},
    {"tensor",
     {"C(i,l) = A(i,j,k)*X(j,l)*Y(k,l)", "C(i,j) = A(i,j,k)*x(k)", "C(i,j,k) = A(i,j,k)*B(i,j,k)",
      "y(k) = A(i,j,k)*X(i,j)"}},
    {"extreme",
     {"y(i) = largest(A(i,j))", "y(j) = smallest(A(i,j)*x(i))", "C(i,k) = largest(A(i,j)*X(j,k))",
      "s = largest(A(i,j)-B(i,j))"}},
    {"chain",
     {"y(i) = A(i,j)*x(j) + b(i); y(i) = relu(y(i))",
      "d(i) = A(i,j); C(i,k) = A(i,j)*X(j,k)*d(i); y(i) = C(i,k)",
      "C(i,j) = A(i,j); C(i,j) += 2*B(i,j); y(i) = C(i,j) - X(j,i)"}},
    {"window",
     {"y(i) = A(i+p,j)*w(p)*x(j)", "C(i,j) = A(i+p,j+q)*B(p,q)", "C(i,o) = A(i+p,c)*B(o,c)*w(p)",
      "C(b,i) = A(b,2*i+p)*w(p)"}},
};

static const char *const named[] = {"csr",       "csc",      "coo",      "dcsr",
                                    "bsr(4,4)",  "bsr(2,3)", "strip(4)", "ell",
                                    "dia",       "bitmap",   "hyb(2,2)", "dbsr(3,2)",
                                    "bell(2,2)", "dcsc",     "cv(4)",    "sr-bcrs(2,2)",
                                    "panel",     "vnni",     "dense",    "(i,j)->(i+j:compressed, j:range)",
                                    "nm24",      "ranges(3)"};

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
        if (!sp_special_apply(s, s->nest[n], text)) count(&tally->joined, n && s->nest[n]->joined);
    }
}

/* False: this tensor does not fit the format, or the expression does not take it. */
static bool begin_case(special_case *c, const family *f, sp_rng *r, sp_target target, int64_t number,
                       sp_text *text, char *what)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33};
    char format[FORMAT_DRAWN];
    unsigned n = 0;
    while (n < SP_COUNT(f->expression) && f->expression[n]) n++;
    const char *e = f->expression[roll(r, n)];
    const bool three = strstr(e, "A(i,j,k)");
    must(sp_special_parse(cx, e, &c->s), e);
    size_t used =
        (size_t)snprintf(what, 4 * FORMAT_DRAWN, "%s, case %lld: %s", f->name, (long long)number, e);
    for (int i = c->s->operands - 1; i >= 0; i--) {
        const char *name = c->s->operand[i].name;
        const bool plain = strstr(e, "i+p");
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
        count(&tally->narrow, type != SPARTA_F32);
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
    c->number = number;
    snprintf(c->prefix, sizeof c->prefix, "c%lld_", (long long)number);
    if (sp_special_bind(c->s, c->given, &c->kernel)) return false;
    sp_special_functions(c->s, c->prefix, text);
    must(text->status, what);
    return true;
}

/* One text of cases from..from+count of a family; whatever is wrong ends the test. */
static void batch(const family *f, uint64_t seed, int64_t from, int n)
{
    static special_case cases[BATCH];
    static char what[BATCH][4 * FORMAT_DRAWN];
    const int64_t number = from / BATCH;
    sp_target target = (sp_target)(number % 3); /* avx512, avx2, portable */
    if (!sp_target_fits(target)) target = sp_target_best(SP_DEVICE_CPU);
    const sp_object *object;
    sp_text text;
    int ran = 0;
    sp_text_init(&text, cx);
    if ((number + (int64_t)seed + 5 * (f - families)) % full()) /* also where a family has few batches */
        sp_text_printf(&text, "#pragma GCC optimize(\"O0\")\n");
    must(sp_special_head(target, &text), "head");
    for (int i = 0; i < n; i++) {
        sp_rng r = sp_rng_seed(sp_rng_seed(seed).state + (uint64_t)(from + i) * SP_COUNT(families) +
                               (uint64_t)(f - families));
        if (begin_case(&cases[ran], f, &r, target, from + i, &text, what[ran]))
            ran++;
        else
            end_case(&cases[ran]);
    }
    if (getenv("SPECIAL_TEXT")) puts(sp_text_str(&text));
    must(sp_jit_get(cx, target, sp_text_str(&text), &object, NULL), "compile");
    sp_text_free(&text);
    sp_pool *pool = sp_pool_create(cx, 2);
    assert_non_null(pool);
    for (int i = 0; i < ran; i++) {
        must(sp_special_code(&cases[i].kernel, object, cases[i].prefix), what[i]);
        if (n == 1) print_message("%s\n", what[i]);
        must(sp_special_run(&cases[i].kernel, cases[i].number % 2 ? pool : NULL), what[i]);
        compare_case(&cases[i], what[i]);
        end_case(&cases[i]);
    }
    sp_pool_free(pool);
    sp_jit_close(object);
    count(&tally->ran, ran);
}

/* ------------------------------------------------------------------ batches in processes of their own */
typedef struct job {
    pid_t process; /* 0: none */
    const family *family;
    int64_t from;
    int n;
} job;

static void start(job *j, uint64_t seed)
{
    fflush(stdout);
    j->process = fork();
    assert_true(j->process >= 0);
    if (j->process) return;
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* no assertion returns to the test's runner */
    alarm(PATIENCE);
    batch(j->family, seed, j->from, j->n);
    exit(0);
}

static bool well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* How many of a batch that failed fail by themselves. */
static int culprits(const job *whole, uint64_t seed)
{
    int failed = 0;
    for (int i = 0; i < whole->n; i++) {
        job one = {0, whole->family, whole->from + i, 1};
        int status = 0;
        start(&one, seed);
        assert_int_equal(waitpid(one.process, &status, 0), one.process);
        if (well(status)) continue;
        print_error("\nFAILED: TEST_SEED=%llu SPARTA_FAMILY=%s SPARTA_FROM=%lld SPARTA_CASES=1 "
                    "SPARTA_FULL=%lld\n",
                    (unsigned long long)seed, one.family->name, (long long)one.from, (long long)full());
        failed++;
    }
    if (!failed)
        print_error("\nFAILED, but no case by itself: TEST_SEED=%llu SPARTA_FAMILY=%s SPARTA_FROM=%lld "
                    "SPARTA_CASES=%d SPARTA_FULL=%lld\n",
                    (unsigned long long)seed, whole->family->name, (long long)whole->from, whole->n,
                    (long long)full());
    return SP_MAX(failed, 1);
}

/* Whichever ends first is free again. Returns how many cases failed. */
static int wait_for_one(job *running, int jobs, uint64_t seed)
{
    int status = 0;
    const pid_t ended = wait(&status);
    assert_true(ended > 0);
    job *j = running;
    while (j < running + jobs && j->process != ended) j++;
    assert_true(j < running + jobs);
    j->process = 0;
    return well(status) ? 0 : culprits(j, seed);
}

static int run_family(const family *f, uint64_t seed, int64_t from, int64_t cases, int jobs)
{
    job running[JOBS_MOST] = {0};
    int failed = 0, busy = 0;
    for (const int64_t end = from + cases; from < end || busy;) {
        if (busy == jobs || from == end) {
            failed += wait_for_one(running, jobs, seed);
            busy--;
            continue;
        }
        job *j = running;
        while (j->process) j++;
        *j = (job){0, f, from, (int)SP_MIN(BATCH - from % BATCH, end - from)};
        from += j->n;
        start(j, seed);
        busy++;
    }
    return failed;
}

static void any_expression_in_any_format(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    const char *only = getenv("SPARTA_FAMILY");
    const int64_t cases = number_given("SPARTA_CASES", (SANITIZED    ? 150
                                                        : test_all() ? 2000
                                                                     : 700) /
                                                               SP_COUNT(families) +
                                                           1),
                  from = number_given("SPARTA_FROM", 0);
    const int jobs = (int)SP_MIN(SP_MAX(number_given("SPARTA_JOBS", 1), 1), JOBS_MOST);
    int failed = 0, met = 0;
    sp_jit_state compiler;
    setenv("SPARTA_CACHE", "off", 1);
    setenv("SPARTA_CC_TIMEOUT", "500", 0); /* a busy machine is no hung compiler */
    sp_jit_describe(cx, &compiler);        /* asked for its version once, not in every process */
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
    for (const family *f = families; f < families + SP_COUNT(families); f++) {
        if (only && strcmp(only, f->name)) continue;
        const double since = sp_now();
        const int64_t before = tally->ran;
        const int wrong = run_family(f, seed, from, cases, jobs);
        const int64_t ran = tally->ran - before;
        print_message("%-12s %lld cases, %lld refused, %d failures, %.1f s\n", f->name, (long long)cases,
                      (long long)(cases - ran - wrong), wrong, sp_now() - since);
        failed += wrong;
        met++;
        assert_true(ran > cases / 2 || cases < 10);
    }
    assert_true(met > 0);
    assert_int_equal(failed, 0);
    assert_true((tally->joined && tally->narrow) || only || cases < 200);
    munmap(tally, sizeof *tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_expression_in_any_format, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
