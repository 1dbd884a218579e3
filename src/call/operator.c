/* Running an operator: no context, no allocation, nothing of the operator written. */
#include "call/operator.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct bound { /* one run */
    const sparta_operator *op;
    sp_job job;
    sp_operand operand[SP_OPERATOR_OPERANDS]; /* inputs, then the result */
    sparta_tensor rows[SP_OPERATOR_OPERANDS]; /* what the caller gave; rank -1: a constant */
    size_t start[SP_OPERATOR_OPERANDS];       /* of its lanes, bytes into the workspace */
    size_t work, each, bytes;                 /* where scratch begins, of one worker, of all together */
    int most;                                 /* workers: as many as the launch has threads */
    int workers;                              /* that have a panel of each operand to themselves */
    int team, parts;                          /* that share the run, and the parts of one panel */
    int phase;
} bound;

typedef struct complaint {
    char *text;
    size_t size;
} complaint;

static sparta_status refuse(const complaint *c, sparta_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (c->size) vsnprintf(c->text, c->size, format, args);
    va_end(args);
    return status;
}

/* ------------------------------------------------------------------ arrays against the expression */

static sparta_status check_dims(const sparta_operator *op, const sp_late *l, const sparta_tensor *t,
                                int64_t *size, const complaint *c)
{
    for (int i = 0; i < l->rank; i++) {
        int64_t *is = &size[l->size[i]];
        if (*is < 0) *is = t->dim[i];
        if (t->dim[i] != *is || t->dim[i] < 0)
            return refuse(c, SPARTA_E_SHAPE, "operator: '%s' of %s is %lld, expected %lld",
                          op->size[l->size[i]].name, l->name, (long long)t->dim[i], (long long)*is);
    }
    return SPARTA_OK;
}

static sparta_status check_array(const sparta_operator *op, const sp_late *l, const sparta_tensor *t,
                                 int64_t *size, const complaint *c)
{
    if (t->device != 0) return refuse(c, SPARTA_E_UNSUPPORTED, SP_OFF_CPU, "operand", l->name, t->device);
    if (t->dtype != l->dtype)
        return refuse(c, SPARTA_E_DTYPE, "operator: %s is %s, expected %s", l->name,
                      sparta_dtype_name(t->dtype), sparta_dtype_name(l->dtype));
    if (t->rank != l->rank)
        return refuse(c, SPARTA_E_SHAPE, "operator: %s has %d dims, expected %d", l->name, t->rank, l->rank);
    const sparta_status status = check_dims(op, l, t, size, c);
    if (status != SPARTA_OK) return status;
    const int64_t elements = sparta_tensor_elements(t);
    if (elements < 0 || elements > INT64_MAX / 64)
        return refuse(c, SPARTA_E_LIMIT, "operator: %s is too large", l->name);
    if (!sp_tensor_contiguous(t))
        return refuse(c, SPARTA_E_UNSUPPORTED, "operator: %s is not contiguous; make a row-major copy",
                      l->name);
    if (elements && !t->data) return refuse(c, SPARTA_E_USAGE, "operator: %s has no data", l->name);
    return SPARTA_OK;
}

static sparta_status check_all(const sparta_operator *op, const sparta_tensor *array, int n,
                               const complaint *c)
{
    int64_t size[SP_COUNT(op->size)];
    if (n != op->n_late)
        return refuse(c, SPARTA_E_USAGE,
                      "operator: %d arrays, expected %d: the result and what is not constant", n, op->n_late);
    for (int i = 0; i < op->n_sizes; i++) size[i] = op->size[i].is;
    for (int i = 0; i < n; i++) {
        const sparta_status status = check_array(op, &op->late[i], &array[i], size, c);
        if (status != SPARTA_OK) return status;
    }
    for (int i = 1; i < n && sparta_tensor_elements(&array[0]); i++)
        if (!sparta_tensor_elements(&array[i]))
            return refuse(c, SPARTA_E_SHAPE, "operator: %s is empty, the result is not", op->late[i].name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ places */

static bool is_in_lanes(const bound *b, int i)
{
    return b->rows[i].rank >= 0 && sp_layout_has_lanes(b->operand[i].layout);
}

/* Operand i in the workspace, from `bytes` on: one panel a worker, or all of them where the kernel reads those. */
static void place_lanes(const sparta_operator *op, bound *b, int i)
{
    sp_operand *o = &b->operand[i];
    const sparta_tensor lain = op->beyond ? o->tensor : sp_panel_one(&o->tensor);
    size_t bytes;
    o->slotted = !op->beyond;
    b->start[i] = b->bytes;
    if (!sp_lanes_of(o->layout, &lain, 0, &o->lanes, &bytes)) bytes = SIZE_MAX;
    bytes = SP_MIN(bytes, SIZE_MAX / 1024); /* more than anybody has, and no sum of them overflows */
    if (o->slotted) o->lanes.panel = (int64_t)(bytes / 4);
    b->bytes += bytes * (size_t)(op->beyond ? 1 : b->workers);
}

/* The job of this run. Lanes get their offsets; the workspace they count from comes later. */
static void place(const sparta_operator *op, const sparta_tensor *array, int n, int most, bound *b)
{
    *b = (bound){.op = op, .job = op->call.job, .most = most};
    const int n_in = b->job.n_in;
    for (int i = 0; i < n_in; i++) b->operand[i] = op->call.job.in[i];
    for (int i = 0; i <= n_in; i++) b->rows[i].rank = -1;
    b->job.in = b->operand;
    b->job.out = b->operand + n_in;
    b->job.tokens = sp_panel_tokens(&array[0]);
    b->job.panels = sp_panels(b->job.tokens);
    b->workers = (int)SP_MIN(SP_MAX(b->job.panels, 1), most);
    for (int i = 0; i < n; i++) {
        const int at = op->late[i].at, slot = at < 0 ? n_in : at;
        b->rows[slot] = sp_tensor_placed(&array[i]);
        b->operand[slot] = (sp_operand){.layout = op->call.job.in[slot].layout, .tensor = b->rows[slot]};
        if (is_in_lanes(b, slot)) place_lanes(op, b, slot);
    }
    if (!is_in_lanes(b, n_in)) b->workers = most; /* parts of all rows, not panels */
    b->work = b->bytes;
    if (b->job.tokens && op->call.kernel->work)
        b->each = (op->call.kernel->work(&b->job) + 127) & ~(size_t)63;
    b->bytes += b->each * (size_t)most;
    b->parts = 1;
}

/* Who does it: the caller alone, panel after panel in one place of the workspace, which stays in the cache; or several. Where panels are at most
 * half as many as threads, several share each: a part of its rows. */
static void split(bound *b, const sp_call *call)
{
    double real = 0, dense;
    b->team = 1;
    if (b->most == 1) return;
    sp_call_ops(call, &real, &dense);
    if (real > 0 && real < b->op->share_from) return;
    if (!is_in_lanes(b, b->job.n_in))
        b->team = b->most;
    else if (b->job.panels > 0 && b->job.panels <= b->most / 2) {
        b->parts = b->most / (int)b->job.panels;
        b->team = (int)b->job.panels * b->parts;
    } else
        b->team = b->workers;
}

/* What a caller's struct says, whose size may be that of another version. */
static sparta_status read_launch(const sparta_launch *given, sparta_launch *out, const complaint *c)
{
    *out = (sparta_launch){.size = sizeof *out};
    if (given && given->size < sizeof given->size)
        return refuse(c, SPARTA_E_USAGE, "operator: the launch's size is not that of its struct");
    if (given) memcpy(out, given, SP_MIN(given->size, sizeof *out));
    return SPARTA_OK;
}

static int threads_of(const sparta_launch *how)
{
    if (!how->parallel_for) return 1;
    return how->threads > 0 ? SP_MIN(how->threads, SP_OPERATOR_WORKERS) : SP_OPERATOR_WORKERS;
}

size_t sparta_operator_workspace(const sparta_operator *op, const sparta_tensor *array, int n,
                                 const sparta_launch *launch)
{
    bound b;
    sparta_launch how;
    if (read_launch(launch, &how, &(complaint){NULL, 0}) != SPARTA_OK) return 0;
    if (check_all(op, array, n, &(complaint){NULL, 0}) != SPARTA_OK) return 0;
    place(op, array, n, threads_of(&how), &b);
    return b.bytes + 64;
}

/* ------------------------------------------------------------------ work */

/* Operand i of one panel from the caller's rows, or into them. */
static void convert(const bound *b, int i, const sp_place *at)
{
    sp_operand rows = {.layout = SP_LAYOUT_ROWS, .tensor = b->rows[i]}, lanes = b->operand[i];
    const bool in = i < b->job.n_in;
    const sp_job job = {.in = in ? &rows : &lanes,
                        .out = in ? &lanes : &rows,
                        .n_in = 1,
                        .n_out = 1,
                        .tokens = sp_panel_tokens(&b->rows[i])};
    sp_panel_args args;
    if ((in ? &sp_panel_to_lanes : &sp_panel_to_rows)->fill(&job, at, &args))
        (in ? b->op->to_lanes : b->op->to_rows)(&args);
}

static sp_place place_of(const bound *b, int worker, char *work)
{
    return (sp_place){.slot = worker, .parts = 1, .work = (float *)(void *)(work + b->each * (size_t)worker)};
}

typedef struct shift { /* what workers are given */
    const bound *b;
    const sp_call *call;
    char *work;
} shift;

/* Panel by panel: packed, computed and unpacked by one worker. */
static void each_panel(void *arg, int worker)
{
    const shift *s = arg;
    const bound *b = s->b;
    sp_place at = place_of(b, worker, s->work);
    for (at.panel = worker; at.panel < b->job.panels; at.panel += b->team) {
        for (int i = 0; i < b->job.n_in; i++)
            if (is_in_lanes(b, i)) convert(b, i, &at);
        sp_call_panel(s->call, &at);
        if (is_in_lanes(b, b->job.n_in)) convert(b, b->job.n_in, &at);
    }
}

/* All panels of all operands, then the kernel, part by part, then the result. Each panel has a slot of its own, if they have slots. */
static void each_phase(void *arg, int worker)
{
    const shift *s = arg;
    const bound *b = s->b;
    sp_place at = place_of(b, worker, s->work);
    const int first = b->phase == 2 ? b->job.n_in : 0, last = b->phase == 2 ? b->job.n_in : b->job.n_in - 1;
    if (b->phase != 1) {
        for (int i = first; i <= last; i++)
            for (at.panel = worker; is_in_lanes(b, i) && at.panel < sp_panels(sp_panel_tokens(&b->rows[i]));
                 at.panel += b->team) {
                at.slot = (int)at.panel;
                convert(b, i, &at);
            }
        return;
    }
    at.parts = b->parts;
    for (int64_t i = worker; i < b->job.panels * b->parts; i += b->team) {
        at.panel = i / b->parts;
        at.part = (int)(i % b->parts);
        at.slot = (int)at.panel;
        sp_call_panel(s->call, &at);
    }
}

/* Tokens in rows: a share of the weight. */
static void each_part(void *arg, int worker)
{
    const shift *s = arg;
    sp_place at = place_of(s->b, worker, s->work);
    at.part = worker, at.parts = s->b->team;
    for (at.panel = 0; at.panel < s->b->job.panels; at.panel++) sp_call_panel(s->call, &at);
}

static void share(const sparta_launch *how, int n, void (*fn)(void *, int), void *arg)
{
    if (how->parallel_for && n > 1)
        how->parallel_for(how->host, n, fn, arg);
    else
        for (int i = 0; i < n; i++) fn(arg, i);
}

sparta_status sparta_operator_run(const sparta_operator *op, const sparta_tensor *array, int n,
                                  const sparta_launch *launch, char *message, size_t size)
{
    const complaint c = {message, message ? size : 0};
    sparta_launch how;
    bound b;
    if (c.size) *message = 0;
    sparta_status status = read_launch(launch, &how, &c);
    if (status != SPARTA_OK) return status;
    if (how.stream) return refuse(&c, SPARTA_E_UNSUPPORTED, "operator: the CPU has no streams");
    status = check_all(op, array, n, &c);
    if (status != SPARTA_OK) return status;
    place(op, array, n, threads_of(&how), &b);
    if (!b.job.tokens) return SPARTA_OK;
    const size_t bytes = b.bytes + 64;
    if (how.workspace_bytes < bytes || !how.workspace)
        return refuse(&c, SPARTA_E_MEMORY,
                      "operator: a workspace of %zu bytes, %zu are needed for %d threads",
                      how.workspace ? how.workspace_bytes : 0, bytes, b.most);
    char *base = (char *)(((uintptr_t)how.workspace + 63) & ~(uintptr_t)63);
    for (int i = 0; i <= b.job.n_in; i++)
        if (is_in_lanes(&b, i)) b.operand[i].at = base + b.start[i];
    sp_call call = op->call;
    call.job = b.job;
    shift s = {&b, &call, base + b.work};
    split(&b, &call);
    if (!is_in_lanes(&b, b.job.n_in))
        share(&how, b.team, each_part, &s);
    else if (!op->beyond && b.parts == 1)
        share(&how, b.team, each_panel, &s);
    else
        for (b.phase = 0; b.phase < 3; b.phase++) share(&how, b.team, each_phase, &s);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the rest */

sparta_status sp_operator_try(sparta_ctx *cx, const sparta_operator *op)
{
    sparta_tensor array[SP_OPERATOR_OPERANDS];
    bound b;
    for (int i = 0; i < op->n_late; i++) {
        int64_t dim[SPARTA_RANK];
        for (int k = 0; k < op->late[i].rank; k++) dim[k] = SP_MAX(op->size[op->late[i].size[k]].is, 1);
        array[i] = sparta_tensor_view(op->late[i].dtype, op->late[i].rank, dim, NULL);
    }
    place(op, array, op->n_late, 1, &b);
    return op->call.kernel->check(cx, &b.job);
}

const char *sparta_operator_reason(const sparta_operator *op)
{
    return op->reason;
}

void sparta_operator_free(sparta_operator *op)
{
    if (!op) return;
    sparta_ctx *cx = op->cx;
    for (size_t i = 0; i < SP_COUNT(op->object); i++)
        if (op->object[i]) sp_jit_close(op->object[i]);
    if (!op->owned) op->packed.values.data = NULL;
    sp_packed_free(cx, &op->packed);
    sp_graph_free(op->graph);
    sp_arena_free(op->arena);
    sp_free(cx, op);
}
