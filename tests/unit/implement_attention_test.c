/* Attention on every target that fits, against the reference: items that do not begin at a panel's edge, masks of every shape, and
 * numbers that must not leak from one item into another; on panels, on rows, and on rows with k and v as a cache has them. (Slow: make test only.) */
#include "implement_bed.h"

static long cases;
static const sp_implement *subject = &sp_implement_attention;
static bool cached; /* k and v are (B, groups, T, dim) */

enum {
    NO_MASK,
    ITEM_KEYS,
    ITEM_FULL,
    HEAD_FULL,
    PLAIN,
    EVERYTHING,
    KEYS,
    ITEM_QUERIES,
    NUMBER,
    SOME_ITEMS,
    MASKS
};

typedef struct shape {
    int64_t batch, queries, keys, heads, dim; /* dim: rows of a head in q and k */
    int mask;
    int64_t dim_v; /* in v; 0: the same */
    int64_t share; /* heads of q that share one of k and v; 0: 1 */
} shape;

static int64_t groups(const shape *s)
{
    return s->share ? s->heads / s->share : s->heads;
}

static int64_t dim_v(const shape *s)
{
    return s->dim_v ? s->dim_v : s->dim;
}

static void add_mask(bed *b, const shape *s)
{
    static const float values[] = {0, 0, 0, -1.5f, 2, -INFINITY, -INFINITY, -3.4028235e38f, -3.4028235e38f};
    const int64_t B = s->batch, H = s->heads, S = s->queries, T = s->keys;
    sparta_tensor *m = NULL;
    switch (s->mask) {
    case ITEM_KEYS: m = bed_input(b, false, SPARTA_F32, DIMS(B, 1, 1, T)); break;
    case ITEM_FULL: m = bed_input(b, false, SPARTA_F32, DIMS(B, 1, S, T)); break;
    case HEAD_FULL: m = bed_input(b, false, SPARTA_F32, DIMS(1, H, S, T)); break;
    case PLAIN: m = bed_input(b, false, SPARTA_F32, DIMS(S, T)); break;
    case EVERYTHING: m = bed_input(b, false, SPARTA_F32, DIMS(B, H, S, T)); break;
    case KEYS: m = bed_input(b, false, SPARTA_F32, DIMS(T)); break;
    case ITEM_QUERIES: m = bed_input(b, false, SPARTA_F32, DIMS(B, 1, S, 1)); break;
    case SOME_ITEMS:
        m = bed_input(b, false, SPARTA_F32, DIMS(B % 3 ? B % 2 ? B : B / 2 : B / 3, H, S, T));
        break;
    case NUMBER: m = bed_input(b, false, SPARTA_F32, DIMS(1)); break;
    default: return;
    }
    for (int64_t i = 0; i < sparta_tensor_elements(m); i++) ((float *)m->data)[i] = ONE_OF(values);
}

static bed *attention_bed(const shape *s, const char *more)
{
    char attrs[128];
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(s->batch, s->queries, s->heads * s->dim));
    if (cached) {
        bed_input(b, false, SPARTA_F32, DIMS(s->batch, groups(s), s->keys, s->dim));
        bed_input(b, false, SPARTA_F32, DIMS(s->batch, groups(s), s->keys, dim_v(s)));
    } else {
        bed_input(b, false, SPARTA_F32, DIMS(s->batch, s->keys, groups(s) * s->dim));
        bed_input(b, false, SPARTA_F32, DIMS(s->batch, s->keys, groups(s) * dim_v(s)));
    }
    add_mask(b, s);
    if (s->share)
        snprintf(attrs, sizeof attrs, "heads=%ld, kv_heads=%ld%s", (long)s->heads, (long)groups(s), more);
    else
        snprintf(attrs, sizeof attrs, "heads=%ld%s", (long)s->heads, more);
    bed_node(b, "sparta::Attention", attrs, DIMS(s->batch, s->queries, s->heads * dim_v(s)));
    return b;
}

/* Call `entry` for each target that can be had, with who it is. */
static bool attention_entry(const bed *b, int target, how *h)
{
    char parameters[96];
    sp_task t = task_of(b, NULL, NULL);
    t.tokens = 1; /* for rows */
    assert_true(sp_implement_matches(subject, &t));
    parameters_of(subject, &t, parameters, sizeof parameters);
    *h = (how){.kernel = subject->kernel, .parts = 1};
    return entry_of((sp_target)target, subject->kernel, parameters, &h->entry);
}

/* The largest sum |q||k| scale: a rounding of so large a score is a relative error of its probability. */
static double largest_score(const bed *b, const shape *s)
{
    const float *q = b->in[0].data, *k = b->in[1].data;
    const int64_t width = s->heads * s->dim, wide = groups(s) * s->dim, share = s->share ? s->share : 1;
    double most = 0, scale = sp_attr_float(&b->node->attrs, "scale", (float)(1 / sqrt((double)s->dim)));
    for (int64_t i = 0; i < s->batch * s->queries; i++)
        for (int64_t t = 0; t < s->keys; t++)
            for (int64_t h = 0; h < s->heads; h++) {
                double sum = 0;
                const float *kt = k + (i / s->queries * s->keys + t) * wide + h / share * s->dim;
                if (cached) kt = k + ((i / s->queries * groups(s) + h / share) * s->keys + t) * s->dim;
                for (int64_t d = 0; d < s->dim; d++)
                    sum += fabs((double)q[i * width + h * s->dim + d] * kt[d]);
                most = fmax(most, sum * fabs(scale));
            }
    return most;
}

static double largest_value(const sparta_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) most = fmax(most, fabs(((float *)t->data)[i]));
    return most;
}

static void try_shape(const shape *s, const char *more, float spread)
{
    bed *b = attention_bed(s, more);
    for (int64_t i = 0; i < sparta_tensor_elements(&b->in[0]); i++) ((float *)b->in[0].data)[i] *= spread;
    reference(b);
    const double bound = (2e-6 + 4e-7 * largest_score(b, s)) * largest_value(&b->in[2]);
    EACH_TARGET(target)
    {
        how h;
        char who[64];
        if (!attention_entry(b, target, &h)) continue;
        snprintf(who, sizeof who, "%s, mask %d", sp_target_name((sp_target)target), s->mask);
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 0, bound, who);
        for (h.parts = 2; h.parts <= 4; h.parts++) same_bits(b, y, run_kernel(b, &h), "parts of attention");
        cases += 4;
    }
    bed_free(b);
}

static const int64_t lengths[] = {1, 2, 7, 16, 17, 63, 64, 65, 128, 200}, dims[] = {4, 12, 16, 32, 64};

static void agrees_with_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 500 / FEWER; i++) {
        shape s;
        do {
            s = (shape){1 + below(5),
                        ONE_OF(lengths),
                        ONE_OF(lengths),
                        1 + below(4),
                        ONE_OF(dims),
                        (int)below(MASKS),
                        0,
                        0};
            if (below(2)) s.keys = s.queries;
        } while (s.batch * s.queries * s.keys * s.heads * s.dim > 600000);
        static const char *const more[] = {"", ", scale=0.25", ", nan_to_zero=1", ", nan_to_zero=2"};
        /* a kernel for each dim and one more takes the compiler long enough: NaN to 0 with one dim only */
        try_shape(&s, s.dim == 4 ? ONE_OF(more) : more[below(2)], below(4) ? 1 : 20);
    }
}

/* Groups of heads that share k and v, windows (causal ones too), caps, each with masks, at lengths on both sides of panels. */
static void decoders(void **state)
{
    (void)state;
    static const char *const more[] = {", right=0",
                                       ", right=0, nan_to_zero=1",
                                       ", right=0, nan_to_zero=2",
                                       ", right=0, left=5",
                                       ", right=0, left=0",
                                       ", left=20, right=20, nan_to_zero=1",
                                       ", left=3",
                                       ", right=70",
                                       ", softcap=2.5",
                                       ", right=0, hidden=-3.4028235e+38",
                                       ", left=4, right=2, hidden=-3.4028235e+38",
                                       ", right=0, softcap=50.0"};
    for (int i = 0; i < 240 / FEWER; i++) {
        shape s;
        do {
            s = (shape){1 + below(6), ONE_OF(lengths), ONE_OF(lengths), 0, 4, (int)below(MASKS), 0,
                        1 + below(3)};
            s.heads = s.share * (1 + below(2));
            if (below(2)) s.keys = s.queries;
        } while (s.batch * s.queries * s.keys * s.heads * s.dim > 600000);
        try_shape(&s, ONE_OF(more), below(4) ? 1 : 20);
    }
}

/* On rows, k and v in either form: what decoders have, heads of odd sizes, one query and many. Then what the panels are asked, once more. */
static void no_keys_at_all(void **state);
static void a_row_without_keys(void **state);
static void items_do_not_leak(void **state);
static void nan_goes_where_it_belongs(void **state);
static void in_rows(void **state)
{
    static const int64_t sizes[][2] = {{4, 0}, {32, 0}, {53, 64}, {3, 2}, {33, 17}, {1, 1}, {64, 40}};
    static const char *const more[] = {"", ", right=0", ", right=0, left=5, nan_to_zero=1",
                                       ", right=0, left=5, nan_to_zero=2",
                                       ", left=4, right=2, hidden=-3.4028235e+38, softcap=2.5"};
    subject = &sp_implement_attention_rows;
    for (int form = 0; form < 2; form++) {
        cached = form;
        for (int i = 0; i < 120 / FEWER; i++) {
            const size_t kind = (size_t)below(SP_COUNT(sizes));
            shape s;
            do {
                s = (shape){1 + below(4),   ONE_OF(lengths),   ONE_OF(lengths), 0,
                            sizes[kind][0], (int)below(MASKS), sizes[kind][1],  1 + below(9)};
                s.heads = s.share * (1 + below(3));
                if (below(2)) s.queries = 1;
            } while (s.batch * s.queries * s.keys * s.heads * s.dim > 600000);
            try_shape(&s, more[kind ? kind % 5 : (size_t)below(5)], below(4) ? 1 : 20);
        }
        no_keys_at_all(state);
        a_row_without_keys(state);
        items_do_not_leak(state);
    }
    cached = false;
    nan_goes_where_it_belongs(state);
    subject = &sp_implement_attention;
}

/* What structured pruning leaves: heads of odd sizes, those of v of another one than those of q and k. */
static void heads_of_unequal_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{53, 64}, {64, 53}, {1, 1}, {3, 2}, {5, 7}, {6, 1}, {2, 12}, {31, 33}};
    static const int64_t rows[] = {1, 17, 64, 130};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (size_t k = 0; k < SP_COUNT(rows); k++) {
            const shape s = {2,           rows[k],      rows[k],     1 + (int64_t)(i + k) % 3,
                             sizes[i][0], (int)(k % 3), sizes[i][1], 0};
            try_shape(&s, i % 2 ? ", scale=0.25" : "", 1); /* one kernel for each pair of sizes */
        }
}

/* Every alignment of an item against panels and vectors. */
static void items_of_every_length(void **state)
{
    (void)state;
    for (int64_t length = 1; length <= 70; length += FEWER > 1 ? 7 : 1) {
        const shape s = {5, length, length, 2, 4, length % 2 ? NO_MASK : ITEM_FULL, 0, 0},
                    cross = {4, length, 71 - length, 1, 4, ITEM_KEYS, 0, 0};
        try_shape(&s, "", 1);
        try_shape(&cross, "", 1);
    }
}

/* A memory of length 0: every answer is 0. */
static void no_keys_at_all(void **state)
{
    (void)state;
    const shape few = {2, 3, 0, 2, 4, NO_MASK, 0, 0}, many = {3, 65, 0, 3, 12, ITEM_KEYS, 5, 0};
    try_shape(&few, "", 1);
    try_shape(&many, "", 1);
}

static void scale_may_be_zero_or_negative(void **state)
{
    (void)state;
    const shape s = {2, 9, 9, 2, 4, NO_MASK, 0, 0};
    try_shape(&s, ", scale=0.0", 1);
    try_shape(&s, ", scale=-1.0", 1);
}

/* A row whose every key is masked is NaN, or 0 where that is asked for; -3.4e38 instead makes all keys equal. */
static void a_row_without_keys(void **state)
{
    (void)state;
    static const char *const how_zero[] = {"", ", nan_to_zero=1", ", nan_to_zero=2"};
    for (int zero = 0; zero < 3; zero++)
        for (int mask = ITEM_KEYS; mask <= ITEM_FULL; mask++) {
            const shape s = {3, 20, 20, 2, 4, mask, 0, 0};
            bed *b = attention_bed(&s, how_zero[zero]);
            float *m = b->in[3].data;
            const int64_t rows = mask == ITEM_KEYS ? 3 : 60, gone = mask == ITEM_KEYS ? 1 : 25;
            for (int64_t i = 0; i < rows * 20; i++)
                m[i] = i / 20 == gone ? -INFINITY : i / 20 == 0 ? -3.4028235e38f : 0;
            reference(b);
            EACH_TARGET(target)
            {
                how h;
                if (!attention_entry(b, target, &h)) continue;
                const float *y = run_kernel(b, &h);
                for (int64_t i = 0; i < 60 * 8; i++) {
                    const bool lost = mask == ITEM_KEYS ? i / 160 == 1 : i / 8 == 25;
                    assert_true(lost ? (zero ? y[i] == 0 : isnan(y[i])) : isfinite(y[i]));
                }
                close_enough(b, y, NULL, 1e-5, 1e-6, "a row without keys");
                cases++;
            }
            bed_free(b);
        }
}

/* Poison one item's q, k, v and mask: every other item has the bits it had. */
static void items_do_not_leak(void **state)
{
    (void)state;
    static const float poison[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (int i = 0; i < 60 / (FEWER > 1 ? 4 : 1); i++) {
        const shape s = {3 + below(3),
                         ONE_OF(lengths) % 100 + 1,
                         ONE_OF(lengths) % 100 + 1,
                         1 + below(2),
                         4,
                         i % 3 == 0   ? NO_MASK
                         : i % 3 == 1 ? ITEM_KEYS
                                      : ITEM_FULL,
                         0,
                         0};
        bed *b = attention_bed(&s, "");
        const int64_t bad = below(s.batch), item = s.queries * s.heads * s.dim;
        how h;
        const float *clean[SP_CPU_TARGETS] = {0};
        EACH_TARGET(target) if (attention_entry(b, target, &h)) clean[target] = run_kernel(b, &h);
        for (int j = 0; j < b->n_in; j++) {
            const int64_t size = sparta_tensor_elements(&b->in[j]) / s.batch;
            for (int64_t k = 0; k < size; k++)
                if (below(3) == 0) ((float *)b->in[j].data)[bad * size + k] = poison[i % 4];
        }
        EACH_TARGET(target)
        {
            if (!clean[target] || !attention_entry(b, target, &h)) continue;
            const float *y = run_kernel(b, &h);
            for (int64_t k = 0; k < s.batch * item; k++)
                if (k / item != bad && !(isnan(y[k]) && isnan(clean[target][k])) &&
                    memcmp(&y[k], &clean[target][k], 4))
                    fail_msg("%s: item %ld changed from %g to %g when item %ld got %g", b->what,
                             (long)(k / item), (double)clean[target][k], (double)y[k], (long)bad,
                             (double)poison[i % 4]);
            cases++;
        }
        bed_free(b);
    }
}

/* A NaN in one query is that query's only; in one key, of all queries of its item and head. */
static void nan_goes_where_it_belongs(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        const int which = i / 2;
        const shape s = {2, 20, 20, 2, 4, NO_MASK, 0, 0};
        bed *b = attention_bed(&s, i % 2 ? ", nan_to_zero=2" : "");
        ((float *)b->in[which].data)[25 * 8 + 5] = NAN; /* item 1, token 5, head 1, row 1 */
        reference(b);
        EACH_TARGET(target)
        {
            how h;
            if (!attention_entry(b, target, &h)) continue;
            const float *y = run_kernel(b, &h);
            close_enough(b, y, NULL, 1e-5, 1e-6, "NaN"); /* NaN exactly where the reference has it */
            int n = 0;
            for (int64_t k = 0; k < 40 * 8; k++) n += isnan(y[k]);
            assert_int_equal(n, which == 0 ? 4 : which == 1 ? 20 * 4 : 20);
            cases++;
        }
        bed_free(b);
    }
}

static sparta_status check_of(bed *b, void (*spoil)(sp_job *job))
{
    sp_job job = {.node = b->node, .n_in = b->n_in, .n_out = 1, .tokens = sp_panel_tokens(&b->out)};
    const how h = {.kernel = "attention", .parts = 1};
    const lain y = lay(b, &b->out, 0);
    bind_inputs(b, &h, &job);
    job.out[0] = lain_operand(&y, &b->out);
    spoil(&job);
    sparta_status s = sp_panel_prepare(cx, b->arena, &sp_panel_attention, &job);
    return s == SPARTA_OK ? sp_panel_attention.check(cx, &job) : s;
}

static void nothing(sp_job *job)
{
    (void)job;
}
static void longer_keys(sp_job *job)
{
    job->in[1].tensor.dim[1]++;
}
static void more_items(sp_job *job)
{
    job->in[2].tensor.dim[0]++;
}
static void wider_mask(sp_job *job)
{
    job->in[3].tensor.dim[3] = 5;
}
static void wrong_mask(sp_job *job)
{
    job->in[3].tensor.dtype = SPARTA_BOOL;
}
static void slotted_keys(sp_job *job)
{
    job->in[1].slotted = true;
}
static void no_value(sp_job *job)
{
    job->n_in = 2;
}
static void flat_query(sp_job *job)
{
    job->in[0].tensor.rank = 2;
}
static void other_keys(sp_job *job)
{
    job->in[1].tensor.dim[2] = 5;
}
static void odd_values(sp_job *job)
{
    job->in[2].tensor.dim[2] = 9;
}
static void fewer_tokens(sp_job *job)
{
    job->tokens--;
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    const shape s = {2, 6, 7, 2, 4, ITEM_KEYS, 0, 0};
    bed *b = attention_bed(&s, "");
    ok(check_of(b, nothing));
    fails_saying(SPARTA_E_SHAPE, "v does not fit", check_of(b, longer_keys));
    fails_saying(SPARTA_E_SHAPE, "v does not fit", check_of(b, more_items));
    fails_saying(SPARTA_E_SHAPE, "", check_of(b, wider_mask));
    fails_saying(SPARTA_E_FORMAT, "input 3 is bool", check_of(b, wrong_mask));
    fails_saying(SPARTA_E_SHAPE, "k does not fit", check_of(b, slotted_keys));
    fails_saying(SPARTA_E_FORMAT, "input 2 is missing", check_of(b, no_value));
    fails_saying(SPARTA_E_SHAPE, "", check_of(b, flat_query));
    fails_saying(SPARTA_E_SHAPE, "tokens", check_of(b, fewer_tokens));
    bed_free(b);
    const shape odd = {1, 4, 4, 2, 6, NO_MASK, 5, 0};
    b = attention_bed(&odd, "");
    ok(check_of(b, nothing));
    fails_saying(SPARTA_E_SHAPE, "12 features of q and 9 of v do not make 2 heads", check_of(b, odd_values));
    fails_saying(SPARTA_E_SHAPE, "k does not fit", check_of(b, other_keys));
    const sp_task t = task_of(b, NULL, NULL);
    assert_true(sp_implement_matches(&sp_implement_attention, &t));
    bed_free(b);
}

static void says_how_many(void **state)
{
    (void)state;
    print_message("implement_attention_test: %ld cases\n", cases);
    assert_true(cases > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(decoders),
        cmocka_unit_test(in_rows),
        cmocka_unit_test(heads_of_unequal_sizes),
        cmocka_unit_test(items_of_every_length),
        cmocka_unit_test(no_keys_at_all),
        cmocka_unit_test(scale_may_be_zero_or_negative),
        cmocka_unit_test(a_row_without_keys),
        cmocka_unit_test(items_do_not_leak),
        cmocka_unit_test(nan_goes_where_it_belongs),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(says_how_many),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
