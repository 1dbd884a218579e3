/* tune: the bed: what it calls right, whatever a contender leaves undone; and points of a space. */
#include "panel_bed.h"
#include "tune/bed.h"
#include <math.h>

static const sp_bindings no_sizes = {0, NULL, NULL};

static void nothing(const void *args)
{
    (void)args;
}

/* y(130, 12) = Linear(x, w) with a weight of which half is there. */
static bed *product(sp_task *task)
{
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(130, 20));
    float *w = bed_input(b, true, SPARTA_F32, DIMS(12, 20))->data;
    for (int i = 0; i < 240; i++) w[i] = i % 2 ? (float)i / 100 : 0;
    bed_node(b, "sparta::Linear", "transposed=1", DIMS(130, 12));
    assert_int_equal(sp_implement_task(cx, b->node, SP_TARGET_PORTABLE, 130, task), SPARTA_OK);
    return b;
}

/* The next row, from *i on, that takes the task, checked: it is right. The caller drops it. */
static bool next_right(sp_bed *on, sp_task *task, int *i, sp_contender *c)
{
    for (; *i < sp_implement_count(); ++*i) {
        *c = (sp_contender){.im = sp_implement_row(*i)};
        if (!sp_implement_point(c->im, 0, task) || !sp_implement_matches(c->im, task)) continue;
        memcpy(c->point, task->point, sizeof c->point);
        assert_int_equal(sp_bed_check(on, c), SPARTA_OK);
        assert_true(c->found.ok);
        ++*i;
        return true;
    }
    return false;
}

/* Every row is right; one that writes nothing, or all but one token, is not, though it runs after one that is. */
static void unwritten_outputs_are_wrong(void **state)
{
    (void)state;
    sp_task task;
    bed *b = product(&task);
    sp_bed *on;
    int tried = 0;
    const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
    assert_true(task.each && task.mask && task.n == 12 && task.k == 20);
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    sp_contender c;
    for (int i = 0; next_right(on, &task, &i, &c);) {
        if (c.im->kernel) {
            const sp_entry entry = c.call.entry;
            tried++;
            c.call.entry = nothing;
            assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
            assert_false(c.found.ok);
            c.call.entry = entry;
            c.call.job.panels--; /* the last tokens stay as they were */
            assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
            assert_false(c.found.ok);
            c.call.job.panels++;
            assert_int_equal(sp_bed_time(on, &c, 1e-4), SPARTA_OK);
            assert_true(c.best > 0 && c.spread >= 0);
        }
        sp_bed_drop(on, &c);
    }
    assert_true(tried >= 2);
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

static sp_entry right_one; /* what a faulty kernel calls */
static float *spoilt;      /* the word of the result that it spoils */

static void off_by_a_thousandth(const void *args)
{
    right_one(args);
    *spoilt *= 1.001f;
}

/* A kernel that is off by a thousandth in one number is out, whatever the bed forgives rounding: portable rows for a product and for normalisations. A number below
 * a fifth of the largest is off by less than what is allowed of the largest: it is not counted. */
static void small_faults_are_wrong(void **state)
{
    (void)state;
    static const char *const nodes[] = {"sparta::Linear", "LayerNormalization", "Softmax",
                                        "RMSNormalization"};
    int faults = 0;
    for (size_t n = 0; n < SP_COUNT(nodes); n++) {
        sp_task task;
        sp_bed *on;
        bed *b = n ? bed_make() : product(&task);
        if (n) {
            bed_input(b, false, SPARTA_F32, DIMS(130, 20));
            for (int i = 0; n != 2 && i < (n == 1 ? 2 : 1); i++) {
                float *w = bed_input(b, true, SPARTA_F32, DIMS(20))->data;
                for (int k = 0; k < 20; k++) w[k] = 1;
            }
            bed_node(b, nodes[n], "axis=-1", DIMS(130, 20));
            assert_int_equal(sp_implement_task(cx, b->node, SP_TARGET_PORTABLE, 130, &task), SPARTA_OK);
        }
        const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
        assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
        sp_contender c;
        for (int i = 0; next_right(on, &task, &i, &c);) {
            sp_operand *y = &c.call.job.out[0];
            right_one = c.call.entry;
            for (int at = 0; c.im->kernel && right_one && at < 12; at++) {
                spoilt =
                    sp_layout_has_lanes(y->layout) ? (float *)y->at + at * 64 : (float *)y->tensor.data + at;
                c.call.entry = off_by_a_thousandth;
                assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
                if (c.found.ok && c.found.max_abs > 2e-4 * c.found.largest)
                    fail_msg("%s: off by %g", c.im->name, c.found.max_abs);
                faults += !c.found.ok;
                c.call.entry = right_one;
            }
            sp_bed_drop(on, &c);
        }
        sp_bed_free(on);
        sp_implement_task_free(cx, &task);
        bed_free(b);
    }
    assert_true(faults >= 20); /* refused */
}

static int64_t token; /* that a faulty kernel spoils */
static const sp_operand *result;

/* Once: a kernel goes panel by panel, and each has its call. */
static void off_in_a_token(const void *args)
{
    right_one(args);
    float *y = sp_layout_has_lanes(result->layout)
                   ? (float *)sp_lane_at(&result->lanes, SPARTA_F32, result->at, token, 0)
                   : (float *)result->tensor.data + token * 12;
    *y = NAN;
}

/* Whichever of 130 tokens a kernel has wrong, it is out: the reference computes four of them. */
static void faults_in_any_token_are_wrong(void **state)
{
    (void)state;
    sp_task task;
    bed *b = product(&task);
    sp_bed *on;
    int faults = 0;
    const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    sp_contender c;
    for (int i = 0; next_right(on, &task, &i, &c);) {
        right_one = c.call.entry;
        result = &c.call.job.out[0];
        for (token = 0; c.im->kernel && right_one && token < 130; token++, faults++) {
            c.call.entry = off_in_a_token;
            assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
            if (c.found.ok) fail_msg("%s: token %d is wrong, and it passes", c.im->name, (int)token);
            c.call.entry = right_one;
        }
        sp_bed_drop(on, &c);
    }
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
    assert_true(faults >= 2 * 130);
}

#if defined(__SANITIZE_ADDRESS__)
static const bool watched = true;
#else
static const bool watched = false;
#endif
static char *victim;
static int64_t where; /* the byte that is written, from its begin */
static char written;  /* another than is there */

/* The right answer is there already, and one byte more. */
static __attribute__((no_sanitize("address"))) void beyond(const void *args)
{
    (void)args;
    victim[where] = written;
}

/* Bytes that an operand has on the bed. */
static size_t size_of(const sp_operand *o)
{
    const int64_t rows =
        sp_lane_rows(o->tensor.dtype, sp_panel_features(&o->tensor)); /* nothing behind them is its own */
    if (sp_layout_has_lanes(o->layout)) return (size_t)(o->lanes.panels * rows) * SP_PANEL * 4;
    return (size_t)sparta_tensor_elements(&o->tensor) * sparta_dtype_size(o->tensor.dtype);
}

static __attribute__((no_sanitize("address"))) void writes(sp_bed *on, sp_contender *c, const sp_operand *o,
                                                           int64_t at, const char *what)
{
    victim = sp_layout_has_lanes(o->layout) ? o->at : o->tensor.data;
    where = at < 0 ? at : (int64_t)size_of(o) + at;
    written = (char)~victim[where];
    const sp_entry entry = c->call.entry;
    c->call.entry = beyond;
    assert_int_equal(sp_bed_check(on, c), SPARTA_OK);
    assert_non_null(c->outside);
    assert_string_equal(c->outside, what);
    assert_false(c->found.ok);
    c->outside = NULL;
    c->best = 0;
    assert_int_equal(sp_bed_time(on, c, 1e-5), SPARTA_OK); /* seen there as well, and not timed */
    assert_non_null(c->outside);
    assert_true(c->best == 0);
    c->call.entry = entry;
    c->outside = NULL;
    assert_int_equal(sp_bed_check(on, c), SPARTA_OK); /* the fence is whole again */
    assert_null(c->outside);
    assert_true(c->found.ok);
}

/* Its packed weight lies on the heap, as the package will have it: words next to the block are watched. The address sanitizer has none behind. */
static void writes_next_to_weight(sp_bed *on, sp_contender *c)
{
    const sparta_tensor *v = &c->packed->values;
    const int64_t size = sparta_tensor_elements(v) * (int64_t)sparta_dtype_size(v->dtype);
    const int64_t places[] = {-1, -32, size, size + 63};
    const sp_entry entry = c->call.entry;
    for (size_t i = 0; i < (v->data ? watched ? 2 : 4 : 0); i++) {
        victim = v->data;
        where = places[i];
        const char was = victim[where];
        written = (char)~was;
        c->call.entry = beyond;
        assert_int_equal(sp_bed_check(on, c), SPARTA_OK);
        assert_non_null(c->outside);
        assert_string_equal(c->outside, "its weight");
        assert_false(c->found.ok);
        victim[where] = was;
        c->outside = NULL;
        c->call.entry = entry;
        assert_int_equal(sp_bed_check(on, c), SPARTA_OK);
        assert_true(c->found.ok && !c->outside);
    }
}

/* One byte before or behind what a contender was given, near or far: it is out, and the operand is named. */
static void who_leaves_operands_is_out(void **state)
{
    (void)state;
    static const int64_t places[] = {0, 3, 255, 4096, (16 << 10) - 1, -1, -64, -(16 << 10)};
    sp_task task;
    bed *b = product(&task);
    sp_bed *on;
    int tried = 0, packed = 0;
    const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    for (int i = 0; i < sp_implement_count(); i++) {
        sp_contender c = {.im = sp_implement_row(i)};
        if (!c.im->kernel || !sp_implement_point(c.im, 0, &task) || !sp_implement_matches(c.im, &task))
            continue;
        memcpy(c.point, task.point, sizeof c.point);
        assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
        assert_true(c.found.ok && !c.outside);
        for (size_t k = 0; k < SP_COUNT(places); k++) {
            writes(on, &c, &c.call.job.out[0], places[k], "the result");
            writes(on, &c, &c.call.job.in[0], places[k], "input 0");
        }
        if (c.work) {
            const sparta_tensor scratch =
                sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){(int64_t)c.each}, c.work);
            writes(on, &c, &(sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = scratch}, 7, "its scratch");
        }
        if (c.packed) writes_next_to_weight(on, &c);
        packed += c.packed != NULL;
        tried++;
        sp_bed_drop(on, &c);
    }
    assert_true(tried >= 2 && packed >= 2);
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

/* More than any fixed number of contenders race, each in as many windows. */
static void many_race(void **state)
{
    (void)state;
    enum { MANY = 40 };
    sp_task task;
    bed *b = product(&task);
    sp_bed *on;
    sp_contender c[MANY] = {0}, *all[MANY];
    const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    for (int i = 0; i < MANY; i++) {
        c[i].im = &sp_implement_dense4;
        all[i] = &c[i];
        assert_int_equal(sp_bed_build(on, all[i]), SPARTA_OK);
    }
    assert_int_equal(sp_bed_race(on, all, MANY, 0, 3), SPARTA_OK);
    for (int i = 0; i < MANY; i++) {
        assert_true(c[i].n_times == 3 && c[i].best > 0 && c[i].times[2] >= c[i].best);
        sp_bed_drop(on, all[i]);
    }
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

/* ------------------------------------------------------------------ a race beside loops on every core */

enum { WAYS = 4, RACES = 20 };

/* A machine that lets a thread run for 4 ms and then others for 4 to 12; what the thread finds in the caches afterwards is theirs, which makes its
 * next half of a millisecond longer by a third. */
static struct {
    double wall, ran, slice, cold;
    bool busy, told; /* told: the thread has a clock of its own */
    sp_rng rng;
    double takes[WAYS]; /* seconds of a call */
} machine;

static double machine_wall(void)
{
    return machine.wall;
}
static double machine_ran(void)
{
    return machine.told ? machine.ran : machine.wall;
}
static bool machine_used(double *all, double *own)
{
    *all = machine.wall, *own = machine.ran;
    return true;
}
static double machine_loop(void)
{
    return 1e-5;
}

static void run_for(double seconds)
{
    while (seconds > 0) {
        const double part = fmin(seconds, .1e-3), slow = machine.cold > 0 ? 4. / 3 : 1;
        seconds -= part;
        machine.wall += part * slow, machine.ran += part * slow;
        machine.slice -= part, machine.cold -= part;
        if (machine.busy && machine.slice <= 0) {
            machine.wall += 4e-3 + 8e-3 * sp_rng_uniform(&machine.rng);
            machine.slice = 4e-3, machine.cold = .5e-3;
        }
    }
}

#define WAY(k)                                                                                               \
    static void way##k(const void *args)                                                                     \
    {                                                                                                        \
        (void)args;                                                                                          \
        run_for(machine.takes[k]);                                                                           \
    }
WAY(0)
WAY(1)
WAY(2)
WAY(3)

/* The way that a race finds the fastest. */
static int winner(sp_bed *on, sp_contender *const *all, bool busy, bool told)
{
    int best = 0;
    machine.wall = machine.ran = 100;
    machine.slice = 4e-3, machine.cold = 0;
    machine.busy = busy, machine.told = told;
    for (int k = 0; k < WAYS; k++) all[k]->best = 0;
    assert_int_equal(sp_bed_race(on, all, WAYS, 0, 9), SPARTA_OK);
    for (int k = 1; k < WAYS; k++)
        if (all[k]->best < all[best]->best) best = k;
    return best;
}

/* Of 20 layers, how many get a way that is within 5 % of the fastest? */
static int good(sp_bed *on, sp_contender *const *all, bool busy, bool told)
{
    static const double sizes[] = {200e-6, 5e-3, 12e-3, 30e-3};
    int n = 0;
    machine.rng = sp_rng_seed(7);
    for (int i = 0; i < RACES; i++) {
        double least = INFINITY;
        for (int k = 0; k < WAYS; k++) {
            machine.takes[k] =
                sizes[i % 4] / 3 * (1 + .4 * sp_rng_uniform(&machine.rng)); /* there are three panels */
            least = fmin(least, machine.takes[k]);
        }
        n += machine.takes[winner(on, all, busy, told)] <= 1.05 * least;
    }
    return n;
}

/* Beside loops on every core at least 19 of 20 choices are those of a quiet machine, since a thread that waits is not timed; by the clock on the
 * wall they are not. The machine is made up: no real clock is read. */
static void waiting_decides_no_race(void **state)
{
    (void)state;
    static const sp_entry ways[WAYS] = {way0, way1, way2, way3};
    static const sp_quiet_source clocks = {machine_wall, machine_ran, machine_used, machine_loop};
    sp_task task;
    bed *b = product(&task);
    sp_bed *on;
    sp_contender c[WAYS] = {0}, *all[WAYS];
    const sp_bed_request r = {.task = &task, .tokens = 130, .seed = 3};
    unsetenv("SPARTA_TRUST");
    sp_quiet_set_source(&clocks);
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    for (int k = 0; k < WAYS; k++) {
        c[k].im = &sp_implement_dense4;
        all[k] = &c[k];
        assert_int_equal(sp_bed_build(on, all[k]), SPARTA_OK);
        c[k].call.entry = ways[k];
    }
    assert_int_equal(good(on, all, false, true), RACES);
    assert_false(sp_bed_disturbed(on));
    assert_true(good(on, all, true, true) >= 19);
    assert_true(sp_bed_disturbed(on));
    assert_in_range(good(on, all, true, false), 0, 18);
    for (int k = 0; k < WAYS; k++) sp_bed_drop(on, all[k]);
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

static int real_clocks(void **state)
{
    (void)state;
    sp_quiet_set_source(NULL);
    return 0;
}

/* A large weight and one token: rows are read piece by piece, panels, which have room for the statistics of one, are not. */
static void large_weights(void **state)
{
    (void)state;
    sp_task task;
    sp_bed *on;
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(1, 4096));
    bed_input(b, true, SPARTA_F32, DIMS(512, 4096));
    bed_node(b, "sparta::Linear", "transposed=1", DIMS(1, 512));
    assert_int_equal(sp_implement_task(cx, b->node, SP_TARGET_PORTABLE, 1, &task), SPARTA_OK);
    task.stat = true;
    const sp_bed_request r = {.task = &task, .tokens = 1, .seed = 3};
    sp_contender panels = {.im = &sp_implement_dense4}, rows = {.im = &sp_implement_few_dense};
    sp_contender *all[] = {&panels, &rows};
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(sp_bed_build(on, all[i]), SPARTA_OK);
    assert_true(panels.bytes >= 8 << 20);
    assert_int_equal(sp_bed_race(on, all, 2, 0, 3), SPARTA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sp_bed_check(on, all[i]), SPARTA_OK);
        assert_true(all[i]->found.ok);
        sp_bed_drop(on, all[i]);
    }
    sp_bed_free(on);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

/* Operators that are no product lie on a bed as well: attention, whose tokens look at each other, is compared whole. */
static void other_operators(void **state)
{
    (void)state;
    sp_task task;
    sp_bed *on;
    bed *b = bed_make();
    for (int i = 0; i < 3; i++) bed_input(b, false, SPARTA_F32, DIMS(2, 70, 16));
    bed_node(b, "sparta::Attention", "heads=2", DIMS(2, 70, 16));
    assert_int_equal(sp_implement_task(cx, b->node, SP_TARGET_PORTABLE, 0, &task), SPARTA_OK);
    assert_false(task.each);
    assert_null(task.mask);
    const sp_bed_request r = {.task = &task, .sizes = &no_sizes, .seed = 3};
    sp_contender c = {.im = &sp_implement_attention}, reference = {.im = &sp_implement_builtin};
    assert_true(sp_implement_matches(c.im, &task));
    assert_int_equal(sp_bed_create(cx, &r, &on), SPARTA_OK);
    assert_true(sp_bed_builtin_seconds(on) > 0);
    assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
    assert_true(c.found.ok);
    c.call.job.in[1].at = c.call.job.in[0].at; /* other keys */
    assert_int_equal(sp_bed_check(on, &c), SPARTA_OK);
    assert_false(c.found.ok);
    assert_int_equal(sp_bed_check(on, &reference), SPARTA_OK);
    assert_true(reference.found.ok);
    sp_bed_drop(on, &c);
    sp_bed_drop(on, &reference);
    sp_bed_free(on);
    bed_free(b);
}

/* Into `out`: the key of a node of the same shapes whatever its attributes are. */
static void key_of(const char *op, const char *attributes, char *out, size_t size)
{
    bed *b = bed_make();
    sp_task task;
    sp_text key;
    bed_input(b, false, SPARTA_F32, DIMS(4, 4, 4));
    bed_node(b, op, attributes, DIMS(4, 4, 4));
    assert_int_equal(sp_implement_task(cx, b->node, SP_TARGET_PORTABLE, 4, &task), SPARTA_OK);
    const sp_bed_request r = {.task = &task, .tokens = 4, .seed = 3};
    sp_text_init(&key, cx);
    assert_int_equal(sp_recall_key(cx, &r, SP_TARGET_PORTABLE, false, &key), SPARTA_OK);
    snprintf(out, size, "%s", sp_text_str(&key));
    sp_text_free(&key);
    sp_implement_task_free(cx, &task);
    bed_free(b);
}

/* Nodes that differ in an attribute, be it a list, are different tasks. */
static void attributes_are_part_of_the_key(void **state)
{
    (void)state;
    char a[512], b[512];
    key_of("Transpose", "perm=[0,2,1]", a, sizeof a);
    key_of("Transpose", "perm=[0,2,1]", b, sizeof b);
    assert_string_equal(a, b);
    key_of("Transpose", "perm=[2,0,1]", b, sizeof b);
    assert_string_not_equal(a, b);
    key_of("Softmax", "axis=1", a, sizeof a);
    key_of("Softmax", "axis=2", b, sizeof b);
    assert_string_not_equal(a, b);
}

/* ------------------------------------------------------------------ points */

static bool small(const sp_task *t)
{
    return sp_point_get(t->point, "B", 0) <= t->k;
}

static void points_of_a_space(void **state)
{
    (void)state;
    static const int form[] = {1, 2}, b[] = {8, 16, 32}, c[] = {0, 1};
    static const sp_knob knobs[] = {{"FORM", 2, form, NULL}, {"B", 3, b, NULL}, {"CL", 2, c, "FORM=2"}};
    static const sp_space space = {3, knobs, small};
    const sp_implement im = {.name = "made up", .space = &space};
    static const char *const want[] = {"FORM=1 B=8",       "FORM=2 B=8 CL=0", "FORM=1 B=16",
                                       "FORM=2 B=16 CL=0", "FORM=2 B=8 CL=1", "FORM=2 B=16 CL=1"};
    sp_task t = {.k = 16};
    int n = 0;
    for (int k = 0; k < sp_implement_points(&im); k++)
        if (sp_implement_point(&im, k, &t)) {
            assert_true(n < (int)SP_COUNT(want));
            assert_string_equal(t.point, want[n++]);
        }
    assert_int_equal(n, SP_COUNT(want));
    assert_int_equal(sp_implement_points(&sp_implement_dense4), 1);
    assert_true(sp_implement_point(&sp_implement_dense4, 0, &t));
    assert_string_equal(t.point, "");
    assert_int_equal(sp_point_get("RANGE=128 CL=2", "CL", 7), 2);
    assert_int_equal(sp_point_get("RANGE=128 CL=2", "L", 7), 7);
    /* those that are asked for by name */
    static const char *const there[] = {"", "FORM=2", "B=16 FORM=1", "CL=1", "FORM=2 B=8 CL=0"};
    for (size_t i = 0; i < SP_COUNT(there); i++) ok(sp_implement_has_point(cx, &im, there[i], 4, 16));
    static const char *const not_there[][2] = {
        {"CL=1 FORM=1", "CL=1 FORM=1: one of these counts only where another is met; its knobs: "
                        "FORM=1|2 B=8|16|32 CL=0|1 (where FORM=2)"},
        {"FORM=1 LC=1", "LC=1: it has no such knob; its knobs: FORM=1|2"},
        {"FORM", "FORM: the knob has no such value"},
        {"FORM=3", "FORM=3: the knob has no such value"},
        {"FORM=01", "FORM=01: the knob has no such value"},
        {"B=32", "for a weight of (n, k) = (4, 16) it is the same as another point"}};
    for (size_t i = 0; i < SP_COUNT(not_there); i++)
        fails_saying(SPARTA_E_USAGE, not_there[i][1],
                     sp_implement_has_point(cx, &im, not_there[i][0], 4, 16));
    assert_true(sp_point_has("RANGE=128 CL=2", "CL=2 RANGE=128") && sp_point_has("RANGE=128", ""));
    assert_false(sp_point_has("RANGE=128 CL=2", "RANGE=12") || sp_point_has("", "CL=2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unwritten_outputs_are_wrong),
                                       cmocka_unit_test(small_faults_are_wrong),
                                       cmocka_unit_test(faults_in_any_token_are_wrong),
                                       cmocka_unit_test(who_leaves_operands_is_out),
                                       cmocka_unit_test(many_race),
                                       cmocka_unit_test_teardown(waiting_decides_no_race, real_clocks),
                                       cmocka_unit_test(large_weights),
                                       cmocka_unit_test(other_operators),
                                       cmocka_unit_test(attributes_are_part_of_the_key),
                                       cmocka_unit_test(points_of_a_space)};
    return cmocka_run_group_tests(tests, context_begin, tear_down);
}
