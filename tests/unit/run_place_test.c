/* Where buffers are put: as the plain search that looks at everything would put them, and in a time that grows with the number of
 * values, not with its square. (Alone: it compares times.) */
#include "models.h"
#include "run/session.h"
#include <time.h>

enum { STEPS = 400, VALUES = 1200 };

typedef struct bed {
    int n;
    sp_value *name;
    run_value *value, **list;
} bed;

static bed with(int n)
{
    bed b = {n, calloc((size_t)n, sizeof *b.name), calloc((size_t)n, sizeof *b.value),
             calloc((size_t)n, sizeof *b.list)};
    assert_true(b.name && b.value && b.list);
    for (int i = 0; i < n; i++) {
        b.name[i].id = i;
        b.value[i].value = &b.name[i];
        b.list[i] = &b.value[i];
    }
    return b;
}

static void done(bed *b)
{
    free(b->name);
    free(b->value);
    free(b->list);
}

static bool meets(const run_value *a, const run_value *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool fits(const run_value *const *busy, int n, const run_value *r, size_t at)
{
    for (int i = 0; i < n; i++)
        if (meets(busy[i], r) && at < busy[i]->offset + busy[i]->bytes && busy[i]->offset < at + r->bytes)
            return false;
    return true;
}

static int larger(const void *a, const void *b)
{
    const run_value *x = *(run_value *const *)a, *y = *(run_value *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->value->id - y->value->id;
}

/* Every value lies at the lowest offset, 0 or the end of a larger one, that is free of the larger ones. */
static void lowest_of_all(bed *b)
{
    qsort(b->list, (size_t)b->n, sizeof *b->list, larger);
    for (int i = 0; i < b->n; i++) {
        const run_value *r = b->list[i], *const *busy = (const run_value *const *)b->list;
        size_t best = fits(busy, i, r, 0) ? 0 : SIZE_MAX;
        for (int k = 0; k < i && best; k++) {
            const size_t end = busy[k]->offset + busy[k]->bytes;
            if (meets(busy[k], r) && end < best && fits(busy, i, r, end)) best = end;
        }
        assert_int_equal(r->offset, best);
    }
}

/* From values that hardly meet to values that all do. */
static void as_the_plain_search(void **state)
{
    (void)state;
    static const int longest[] = {1, 5, 40, STEPS};
    uint64_t random = 7;
    for (int l = 0; l < 4; l++) {
        bed b = with(VALUES);
        size_t total, most = 0;
        for (int i = 0; i < b.n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            b.value[i].first = (int)(random >> 33) % STEPS;
            b.value[i].last = SP_MIN(b.value[i].first + (int)(random >> 45) % longest[l], STEPS - 1);
            b.value[i].bytes = 64 * ((random >> 40) % 9);
        }
        assert_int_equal(sp_session_place(cx, b.list, b.n, &total), SPARTA_OK);
        for (int i = 0; i < b.n; i++) most = SP_MAX(most, b.value[i].offset + b.value[i].bytes);
        assert_int_equal(total, most);
        lowest_of_all(&b);
        done(&b);
    }
}

static double seconds(int n)
{
    bed b = with(n);
    size_t total;
    for (int i = 0; i < n; i++) {
        b.value[i].first = i;
        b.value[i].last = SP_MIN(i + 1 + (i % 10 == 0) * 50, n - 1); /* a chain with bridges */
        b.value[i].bytes = 64;
    }
    const clock_t start = clock();
    assert_int_equal(sp_session_place(cx, b.list, b.n, &total), SPARTA_OK);
    const double taken = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_in_range(total, 2 * 64, 8 * 64);
    done(&b);
    return taken;
}

static void a_long_chain(void **state)
{
    (void)state;
    const double some = seconds(30000), more = seconds(120000);
    if (more > 8 * some + 0.2) fail_msg("%.2f s for 30,000 values and %.2f s for 120,000", some, more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_plain_search), cmocka_unit_test(a_long_chain)};
    return cmocka_run_group_tests(tests, enter, leave);
}
