/* A kernel at work: operands packed, arguments filled, nests run one after the other, each shared by the threads. */
#include "format/walk.h"
#include "special/inside.h"
#include "special/writer.h"
#include "store/store.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ operands */
static sparta_status check_operand(const sp_special *s, const sp_special_operand *o, const sparta_tensor *t)
{
    if (t->dtype != o->dtype && t->data)
        return sp_fail(s->cx, SPARTA_E_DTYPE, "expression: %s is %s, the kernel is for %s", o->name,
                       sparta_dtype_name(t->dtype), sparta_dtype_name(o->dtype));
    if (t->data && t->rank != o->rank)
        return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: %s has %d dimensions, the expression gives it %d",
                       o->name, t->rank, o->rank);
    for (int d = 0; t->data && d < o->rank; d++)
        if (t->dim[d] != o->dim[d])
            return sp_fail(s->cx, SPARTA_E_SHAPE,
                           "expression: %s has %lld elements in dimension %d, it should have %lld", o->name,
                           (long long)t->dim[d], d, (long long)o->dim[d]);
    if (t->data && !sp_tensor_contiguous(t))
        return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: %s does not lie row-major", o->name);
    return SPARTA_OK;
}

/* The pattern of another operand, and values of its own, all 0. */
static sparta_status place_like(sp_special_kernel *k, int at)
{
    const sp_packed *from = &k->packed[k->s->operand[at].like];
    const sparta_dtype dtype = k->s->operand[at].dtype;
    sp_packed *to = &k->packed[at];
    *to = *from;
    to->dtype = dtype;
    to->part = NULL;
    to->values = (sparta_tensor){0};
    if (from->parts) {
        to->part = sp_alloc_array(k->s->cx, (size_t)from->parts, sizeof *to->part);
        SP_NEED(k->s->cx, to->part);
    }
    for (int i = 0; i < SP_MAX(from->parts, 1); i++) {
        const sp_packed *leaf = sp_packed_leaf(from, i);
        sp_packed *mine = from->parts ? &to->part[i] : to;
        if (from->parts) *mine = *leaf;
        mine->values = (sparta_tensor){0};
        mine->dtype = dtype;
        SP_TRY(sp_tensor_alloc(k->s->cx, dtype, leaf->values.rank, leaf->values.dim, &mine->values));
    }
    return SPARTA_OK;
}

static bool added_to(const sp_special *s, int operand)
{
    bool adds = false;
    for (int i = 0; i < s->statements; i++)
        adds |= s->statement[i].adds && s->access[s->statement[i].target].operand == operand;
    return adds;
}

/* A result with another's pattern begins as 0: there may be no place for what was given. */
static sparta_status check_empty(const sp_special *s, const sp_special_operand *o, const sparta_tensor *given)
{
    for (int64_t i = 0; given->data && i < sparta_tensor_elements(given); i++)
        if (sp_element_get(given->dtype, given->data, i) != 0)
            return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                           "expression: %s has the pattern of %s and begins as 0, and values are given for "
                           "it; leave its format out, or its values",
                           o->name, s->operand[o->like].name);
    return SPARTA_OK;
}

static sparta_status place_operand(sp_special_kernel *k, int at, const sparta_tensor *given)
{
    sp_special *s = k->s;
    const sp_special_operand *o = &s->operand[at];
    SP_TRY(check_operand(s, o, given));
    if (!o->written && !given->data && sparta_tensor_elements(given))
        return sp_fail(s->cx, SPARTA_E_USAGE, "expression: %s is read and nothing is given for it", o->name);
    if (o->like >= 0) /* placed after the one that it is like */
        return added_to(s, at) ? check_empty(s, o, given) : SPARTA_OK;
    sparta_tensor *t = &k->dense[at];
    SP_TRY(sp_tensor_alloc(s->cx, o->dtype, o->rank, o->dim, t));
    if (given->data)
        memcpy(t->data, given->data, (size_t)sparta_tensor_elements(t) * sparta_dtype_size(o->dtype));
    if (!o->stored) return SPARTA_OK;
    const sparta_status status = sp_store_pack(s->cx, &o->format, t, NULL, &k->packed[at]);
    if (status) return sp_fail_in(s->cx, "%s", o->name);
    sp_free(s->cx, t->data);
    t->data = NULL;
    return SPARTA_OK;
}

/* The values of a part as nests meet them. */
static sparta_tensor values_of(const sp_special_kernel *k, int operand, int leaf)
{
    const sp_special_operand *o = &k->s->operand[operand];
    sparta_tensor t = o->stored ? sp_packed_leaf(&k->packed[operand], leaf)->values : k->dense[operand];
    t.dtype = sp_special_lies(o);
    t.data = k->array[sp_special_array(o, leaf)];
    return t;
}

/* Results of other types are f32 while nests write them. */
static sparta_status widen_result(sp_special_kernel *k, int operand)
{
    const sp_special_operand *o = &k->s->operand[operand];
    for (int i = 0; o->written && o->dtype != SPARTA_F32 && i < (o->stored ? o->leaves : 1); i++) {
        const int at = sp_special_array(o, i);
        const sparta_tensor t = values_of(k, operand, i);
        const int64_t n = sparta_tensor_elements(&t);
        if (!k->wide[at] || k->wide_n[at] < n) {
            sp_free(k->s->cx, k->wide[at]);
            k->wide[at] = sp_alloc_array(k->s->cx, (size_t)n + 1, sizeof(float));
            SP_NEED(k->s->cx, k->wide[at]);
            k->wide_n[at] = n;
            memset(k->wide[at], 0, (size_t)n * sizeof(float)); /* padding in a format stays 0 */
        }
        k->array[at] = k->wide[at];
    }
    return SPARTA_OK;
}

static void fill_leaf(sp_special_kernel *k, int at, int leaf, const sp_packed *p, const sp_level_view *view)
{
    const sp_special_operand *o = &k->s->operand[at];
    void **array = k->array + sp_special_array(o, leaf);
    long *size = k->size + sp_special_sizes(o, leaf);
    array[0] = p->values.data;
    for (int l = 0; l < p->format.n; l++) {
        array[1 + 2 * l] = p->pos[l].data;
        array[2 + 2 * l] = p->crd[l].data;
        size[l] = (long)(p->format.level[l].kind == SP_LEVEL_PACKED ? view[l].width : view[l].extent);
    }
}

static sparta_status fill_operand(sp_special_kernel *k, int at)
{
    const sp_special_operand *o = &k->s->operand[at];
    if (!o->stored) {
        k->array[o->array] = k->dense[at].data;
        for (int d = 0; d < o->rank; d++) k->size[SP_SPECIAL_INDICES + o->level + d] = (long)o->dim[d];
        return widen_result(k, at);
    }
    if (sp_packed_leaves(&k->packed[at]) != o->leaves)
        return sp_fail(k->s->cx, SPARTA_E_FORMAT, "expression: %s is stored in %d parts, its format has %d",
                       o->name, sp_packed_leaves(&k->packed[at]), o->leaves);
    for (int i = 0; i < o->leaves; i++) {
        sp_level_view view[SP_LEVELS];
        const sp_packed *leaf = sp_packed_leaf(&k->packed[at], i);
        if (leaf->dtype != o->dtype)
            return sp_fail(k->s->cx, SPARTA_E_DTYPE, "expression: %s is stored as %s, the kernel is for %s",
                           o->name, sparta_dtype_name(leaf->dtype), sparta_dtype_name(o->dtype));
        SP_TRY(sp_leaf_verify(k->s->cx, leaf, view));
        fill_leaf(k, at, i, leaf, view);
    }
    return widen_result(k, at);
}

/* ------------------------------------------------------------------ limits */
/* Steps of all loops of a nest: what its first needed operand stores, times all values of the indices that it does not have. */
static double work_of(const sp_special_kernel *k, const sp_special_nest *n)
{
    const sp_special_use *lead = NULL;
    double work = 1;
    for (int u = n->uses - 1; u >= 0; u--)
        if (n->use[u].needed) lead = &n->use[u];
    if (lead)
        work = (double)sparta_tensor_elements(&sp_packed_leaf(&k->packed[lead->operand], lead->leaf)->values);
    for (int i = 0; i < k->s->indices; i++) {
        bool used = false;
        for (int u = 0; u < n->uses; u++) used |= sp_special_uses(k->s, &n->use[u], i);
        if (used && !(lead && sp_special_uses(k->s, lead, i))) work *= (double)k->s->index[i].size;
    }
    return work;
}

double sp_special_work(const sp_special_kernel *k)
{
    double all = 0;
    for (int i = 0; i < k->s->nests; i++) all += work_of(k, k->s->nest[i]);
    return all;
}

static sparta_status check_work(const sp_special_kernel *k)
{
    for (int i = 0; i < k->s->nests; i++) {
        const double work = work_of(k, k->s->nest[i]);
        if (work > SP_SPECIAL_WORK)
            return sp_fail(k->s->cx, SPARTA_E_LIMIT,
                           "expression: its loops take %.3g steps, the most are %.3g; make it smaller", work,
                           SP_SPECIAL_WORK);
    }
    return SPARTA_OK;
}

/* What begins as the largest of nothing has no such value where no element is: in padding, and in zeros that a format fills up with. */
static sparta_status check_beginnings(const sp_special *s)
{
    for (int i = 0; i < s->nests; i++) {
        const sp_special_nest *n = s->nest[i];
        const sp_special_use *t = sp_special_target(n);
        const sp_special_operand *o = &s->operand[t->operand];
        int result;
        if (s->statement[n->statement].reduce == SP_NEST_sum || !o->stored) continue;
        if (o->like >= 0 ? sp_special_fills_up(t->format) : sp_special_clears(s, i, &result))
            return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                           "expression: %s is the largest or the smallest of something, and its format has "
                           "places that are no elements; leave it row-major",
                           o->name);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ making one */
static sparta_status check_bounds(const sp_special *s)
{
    for (int n = 0; n < s->nests; n++)
        for (int i = 0; i < s->indices; i++)
            if (s->nest[n]->bound[i] && s->nest[n]->bound[i] != s->index[i].size)
                return sp_fail(s->cx, SPARTA_E_SHAPE, "schedule: bound(%s,%lld), and %s has %lld values",
                               s->index[i].name, (long long)s->nest[n]->bound[i], s->index[i].name,
                               (long long)s->index[i].size);
    return SPARTA_OK;
}

static sparta_status make_arrays(sp_special *s, sp_special_kernel *k)
{
    *k = (sp_special_kernel){.s = s};
    k->array = sp_arena_array(s->arena, (size_t)s->arrays + 1, sizeof *k->array);
    k->size = sp_arena_array(s->arena, (size_t)(SP_SPECIAL_INDICES + s->levels + 1), sizeof *k->size);
    k->wide = sp_arena_array(s->arena, (size_t)s->arrays + 1, sizeof *k->wide);
    k->wide_n = sp_arena_array(s->arena, (size_t)s->arrays + 1, sizeof *k->wide_n);
    SP_NEED(s->cx, k->array && k->wide && k->wide_n);
    SP_NEED(s->cx, k->size);
    return SPARTA_OK;
}

static sparta_status fill_sizes(sp_special_kernel *k)
{
    for (int i = 0; i < k->s->indices; i++) k->size[i] = (long)k->s->index[i].size;
    SP_TRY(check_bounds(k->s));
    return check_beginnings(k->s);
}

sparta_status sp_special_bind(sp_special *s, const sparta_tensor *operand, sp_special_kernel *k)
{
    SP_TRY(make_arrays(s, k));
    SP_TRY(fill_sizes(k));
    for (int i = 0; i < s->operands; i++) SP_TRY(place_operand(k, i, &operand[i]));
    for (int i = 0; i < s->operands; i++)
        if (s->operand[i].like >= 0) SP_TRY(place_like(k, i));
    for (int i = 0; i < s->operands; i++) SP_TRY(fill_operand(k, i));
    return check_work(k);
}

sparta_status sp_special_attach(sp_special *s, const sp_packed *const *packed, sp_special_kernel *k)
{
    SP_TRY(make_arrays(s, k));
    k->borrows = true;
    for (int i = 0; i < s->operands; i++) {
        const sp_special_operand *o = &s->operand[i];
        if (packed[i])
            k->packed[i] = *packed[i];
        else if (o->stored)
            SP_TRY(place_operand(
                k, i, &(sparta_tensor){.dtype = o->dtype, .rank = o->rank})); /* a result of dense levels */
    }
    for (int i = 0; i < s->operands; i++)
        if (s->operand[i].like >= 0) SP_TRY(place_like(k, i));
    for (int i = 0; i < s->operands; i++)
        if (s->operand[i].stored) SP_TRY(fill_operand(k, i));
    return SPARTA_OK;
}

sparta_status sp_special_give(sp_special_kernel *k, const sparta_tensor *const *given)
{
    for (int i = 0; i < k->s->operands; i++) {
        const sp_special_operand *o = &k->s->operand[i];
        if (o->stored) continue;
        SP_TRY(check_operand(k->s, o, given[i]));
        k->dense[i] = *given[i];
        SP_TRY(fill_operand(k, i));
    }
    SP_TRY(fill_sizes(k));
    return check_work(k);
}

/* The functions that convert results of other types. */
static sparta_status find_conversions(sp_special_kernel *k, const sp_object *o, const char *prefix)
{
    for (int i = 0; i < k->s->operands; i++) {
        const sp_special_operand *a = &k->s->operand[i];
        char symbol[64];
        if (!a->written || a->dtype == SPARTA_F32) continue;
        snprintf(symbol, sizeof symbol, "%swiden_%s", prefix, sparta_dtype_name(a->dtype));
        void *widen = sp_jit_symbol(o, symbol);
        snprintf(symbol, sizeof symbol, "%snarrow_%s", prefix, sparta_dtype_name(a->dtype));
        void *narrow = sp_jit_symbol(o, symbol);
        if (!widen || !narrow)
            return sp_fail(k->s->cx, SPARTA_E_INTERNAL, "expression: the code has no %s", symbol);
        memcpy(&k->widen[i], &widen, sizeof widen);
        memcpy(&k->narrow[i], &narrow, sizeof narrow);
    }
    return SPARTA_OK;
}

sparta_status sp_special_code(sp_special_kernel *k, const sp_object *o, const char *prefix)
{
    SP_TRY(find_conversions(k, o, prefix));
    for (int i = 0; i < k->s->nests; i++) {
        char symbol[64];
        if (k->s->nest[i]->joined) continue;
        snprintf(symbol, sizeof symbol, "%s%d", prefix, i);
        void *address = sp_jit_symbol(o, symbol);
        if (!address) return sp_fail(k->s->cx, SPARTA_E_INTERNAL, "expression: the code has no %s", symbol);
        memcpy(&k->entry[i], &address, sizeof address);
    }
    return SPARTA_OK;
}

sparta_status sp_special_compile(sp_special_kernel *k, sp_target target, sp_text *text)
{
    const double begin = sp_now();
    SP_TRY(sp_special_text(k->s, target, text));
    SP_TRY(sp_jit_get(k->s->cx, target, sp_text_str(text), &k->object, &k->rung));
    k->compile_ms = (sp_now() - begin) * 1e3;
    return sp_special_code(k, k->object, "sp_special_");
}

sparta_status sp_special_build(sp_special *s, const sparta_tensor *operand, sp_target target,
                               sp_special_kernel *k)
{
    sp_text text;
    SP_TRY(sp_special_bind(s, operand, k));
    sp_text_init(&text, s->cx);
    const sparta_status status = sp_special_compile(k, target, &text);
    sp_text_free(&text);
    return status;
}

/* ------------------------------------------------------------------ running */
static void fill(const sparta_tensor *t, float with)
{
    float *x = t->data;
    const int64_t n = x ? sparta_tensor_elements(t) : 0;
    if (with == 0 && n) memset(x, 0, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n && with != 0; i++) x[i] = with;
}

/* What sums begin with, or the largest or the smallest of nothing. */
static float beginning(int reduce)
{
    return reduce == SP_NEST_sum ? 0 : reduce == SP_NEST_largest ? -INFINITY : INFINITY;
}

static void clear(const sp_special_kernel *k, int operand, int reduce)
{
    const sp_special_operand *o = &k->s->operand[operand];
    const float with = beginning(reduce);
    for (int i = 0; i < (o->stored ? o->leaves : 1); i++) {
        const sparta_tensor t = values_of(k, operand, i);
        fill(&t, with);
    }
}

static bool empty(const sp_special *s, const sp_special_nest *n)
{
    for (int i = 0; i < s->indices; i++)
        for (int u = 0; u < n->uses && !s->index[i].size; u++)
            if (sp_special_uses(s, &n->use[u], i)) return true;
    return false;
}

/* One nest, shared by workers. Long ones are cut into more parts than there are workers, so that each can ask between two of them whether to go on. */
typedef struct shared {
    const sp_special_kernel *k;
    int nest, workers, cuts;
    void ***array;  /* of each worker; NULL: all have the kernel's */
    float *scratch; /* `tile` elements of each worker */
    int64_t tile;
} shared;

#define MOST_STEPS 3e8 /* of a part: about a second */
enum { MOST_CUTS = 1 << 12 };

static void run_part(void *arg, int worker)
{
    const shared *r = arg;
    for (int c = 0; c < r->cuts && !sp_ctx_cancelled(r->k->s->cx); c++) {
        const struct sp_special_args a = {r->array ? r->array[worker] : r->k->array, r->k->size,
                                          (long)worker * r->cuts + c, (long)r->workers * r->cuts,
                                          r->scratch ? r->scratch + worker * r->tile : NULL};
        r->k->entry[r->nest](&a);
    }
}

/* What tiles lie in, whole lines of the cache for each worker. */
static sparta_status lend(shared *r)
{
    sparta_ctx *cx = r->k->s->cx;
    const int64_t n = sp_special_scratch(r->k->s, r->nest);
    r->tile = (n + 15) / 16 * 16;
    if (!n) return SPARTA_OK;
    if (n < 0 || r->tile > INT64_MAX / 8 / r->workers)
        return sp_fail(cx, SPARTA_E_LIMIT, "schedule: a tile in scratch is larger than memory");
    r->scratch = sp_alloc(cx, (size_t)(r->tile * r->workers) * sizeof *r->scratch);
    SP_NEED(cx, r->scratch);
    return SPARTA_OK;
}

static void run_shared(shared *r, sp_pool *pool)
{
    if (r->workers > 1)
        sp_pool_run(pool, run_part, r);
    else
        run_part(r, 0);
}

/* ------------------------------------------------------------------ temporaries */
/* Each worker but the first adds to values of its own; these are added to the result in the order of workers, so that the same number of threads gives the
 * same answer. */
typedef struct privates {
    int workers, reduce;
    float **value; /* value[0] is the result */
    int64_t n;
} privates;

static void add_up(void *arg, int part)
{
    const privates *p = arg;
    const int64_t from = p->n * part / p->workers, to = p->n * (part + 1) / p->workers;
    for (int w = 1; w < p->workers; w++)
        for (int64_t i = from; i < to; i++) {
            const float a = p->value[0][i], b = p->value[w][i];
            if (p->reduce == SP_NEST_sum)
                p->value[0][i] = a + b;
            else if (a == a && !(p->reduce == SP_NEST_largest ? a > b : a < b))
                p->value[0][i] = b;
        }
}

static void free_privates(sparta_ctx *cx, privates *p, shared *r)
{
    for (int w = 1; p->value && w < p->workers; w++) sp_free(cx, p->value[w]);
    for (int w = 1; r->array && w < p->workers; w++) sp_free(cx, r->array[w]);
    sp_free(cx, p->value);
    sp_free(cx, r->array);
}

static sparta_status make_privates(const sp_special_kernel *k, privates *p, shared *r,
                                   const sparta_tensor *values, int array)
{
    sparta_ctx *cx = k->s->cx;
    p->value = sp_alloc_array(cx, (size_t)p->workers, sizeof *p->value);
    r->array = sp_alloc_array(cx, (size_t)p->workers, sizeof *r->array);
    SP_NEED(cx, p->value && r->array);
    p->value[0] = values->data;
    r->array[0] = k->array;
    for (int w = 1; w < p->workers; w++) {
        p->value[w] = sp_alloc_array(cx, (size_t)p->n + 1, sizeof **p->value);
        r->array[w] = sp_alloc_array(cx, (size_t)k->s->arrays, sizeof **r->array);
        SP_NEED(cx, p->value[w] && r->array[w]);
        for (int64_t i = 0; i < p->n; i++) p->value[w][i] = beginning(p->reduce);
        memcpy(r->array[w], k->array, (size_t)k->s->arrays * sizeof **r->array);
        r->array[w][array] = p->value[w];
    }
    return SPARTA_OK;
}

static sparta_status run_private(shared *r, sp_pool *pool)
{
    const sp_special_kernel *k = r->k;
    const sp_special_nest *n = k->s->nest[r->nest];
    const sp_special_use *t = sp_special_target(n);
    const sp_special_operand *o = &k->s->operand[t->operand];
    const sparta_tensor values = values_of(k, t->operand, t->leaf);
    privates p = {.workers = r->workers,
                  .reduce = k->s->statement[n->statement].reduce,
                  .n = sparta_tensor_elements(&values)};
    const sparta_status status = make_privates(k, &p, r, &values, sp_special_array(o, t->leaf));
    if (!status) {
        run_shared(r, pool);
        sp_pool_run(pool, add_up, &p);
    }
    free_privates(k->s->cx, &p, r);
    return status;
}

/* The first nest of a statement that writes, where it does not store every element. */
static bool begins(const sp_special *s, int nest)
{
    const int statement = s->nest[nest]->statement;
    return (!nest || s->nest[nest - 1]->statement != statement) && !s->statement[statement].adds;
}

bool sp_special_clears(const sp_special *s, int nest, int *operand)
{
    *operand = sp_special_target(s->nest[nest])->operand;
    return begins(s, nest) && (!sp_special_stores(s, nest) || empty(s, s->nest[nest]));
}

/* Nests that are one function: their results begin before any of them runs, but for what is stored by a nest that runs with others. True: there is something to
 * run. */
static bool begin(const sp_special_kernel *k, int from, int to, double *work)
{
    const sp_special *s = k->s;
    bool any = false;
    int result;
    *work = 0;
    for (int i = from; i < to; i++) { any |= !empty(s, s->nest[i]); }
    for (int i = from; i < to; i++) {
        if (sp_special_clears(s, i, &result) && !(any && sp_special_stores(s, i)))
            clear(k, result, s->statement[s->nest[i]->statement].reduce);
        *work += work_of(k, s->nest[i]);
    }
    return any;
}

/* Results of other types, a share of each by each worker: into f32 where there is something to add to or to read, and back when all is done. */
typedef struct converted {
    const sp_special_kernel *k;
    int workers;
    bool back;
} converted;

static void convert_part(void *arg, int worker)
{
    const converted *c = arg;
    for (int i = 0; i < c->k->s->operands; i++) {
        const sp_special_operand *o = &c->k->s->operand[i];
        if (!c->k->narrow[i] || (!c->back && !added_to(c->k->s, i) && !o->read)) continue;
        for (int leaf = 0; leaf < (o->stored ? o->leaves : 1); leaf++) {
            const sparta_tensor *t =
                o->stored ? &sp_packed_leaf(&c->k->packed[i], leaf)->values : &c->k->dense[i];
            const int64_t n = sparta_tensor_elements(t), from = n * worker / c->workers,
                          count = n * (worker + 1) / c->workers - from;
            float *wide = c->k->wide[sp_special_array(o, leaf)] + from;
            uint16_t *at = (uint16_t *)t->data + from;
            if (count > 0 && c->back)
                c->k->narrow[i](wide, at, (long)count);
            else if (count > 0)
                c->k->widen[i](at, wide, (long)count);
        }
    }
}

static void convert_results(const sp_special_kernel *k, sp_pool *pool, bool back)
{
    converted c = {k, pool ? sp_pool_threads(pool) : 1, back};
    bool any = false;
    for (int i = 0; i < k->s->operands; i++) any |= k->narrow[i] != NULL;
    if (any && c.workers > 1)
        sp_pool_run(pool, convert_part, &c);
    else if (any)
        convert_part(&c, 0);
}

sparta_status sp_special_run(const sp_special_kernel *k, sp_pool *pool)
{
    const sp_special *s = k->s;
    convert_results(k, pool, false);
    for (int i = 0, next; i < s->nests; i = next) {
        const bool shares = sp_special_shares(s->nest[i]);
        shared r = {.k = k, .nest = i, .workers = pool && shares ? sp_pool_threads(pool) : 1, .cuts = 1};
        double work;
        next = sp_special_group(s, i);
        if (!begin(k, i, next, &work)) continue;
        if (shares) r.cuts = 1 + (int)SP_MIN(work / MOST_STEPS / r.workers, MOST_CUTS - 1);
        SP_TRY(lend(&r));
        sparta_status status = SPARTA_OK;
        if (r.workers > 1 && sp_special_temporaries(s->nest[i]))
            status = run_private(&r, pool);
        else
            run_shared(&r, pool);
        sp_free(s->cx, r.scratch);
        SP_TRY(status);
        SP_TRY(sp_check_cancel(s->cx));
    }
    convert_results(k, pool, true);
    return SPARTA_OK;
}

sparta_status sp_special_result(const sp_special_kernel *k, int operand, sparta_tensor *out)
{
    const sp_special_operand *o = &k->s->operand[operand];
    SP_TRY(sp_tensor_alloc(k->s->cx, o->dtype, o->rank, o->dim, out));
    if (o->stored) {
        const sparta_status status = sp_store_unpack(k->s->cx, &k->packed[operand], out);
        if (status) sp_free(k->s->cx, out->data), *out = (sparta_tensor){0};
        return status;
    }
    memcpy(out->data, k->dense[operand].data,
           (size_t)sparta_tensor_elements(out) * sparta_dtype_size(o->dtype));
    return SPARTA_OK;
}

void sp_special_close(sp_special_kernel *k)
{
    sp_special *s = k->s;
    for (int i = 0; s && i < s->operands; i++) {
        if (!k->borrows || s->operand[i].stored) sp_free(s->cx, k->dense[i].data);
        if (k->borrows && !s->operand[i].written) continue;
        if (s->operand[i].like < 0) {
            if (k->packed[i].rank || k->packed[i].parts || k->packed[i].values.data)
                sp_packed_free(s->cx, &k->packed[i]);
            continue;
        }
        for (int p = 0; p < k->packed[i].parts && k->packed[i].part; p++)
            sp_free(s->cx, k->packed[i].part[p].values.data);
        if (!k->packed[i].parts) sp_free(s->cx, k->packed[i].values.data);
        sp_free(s->cx, k->packed[i].part);
    }
    for (int i = 0; s && k->wide && i < s->arrays; i++) sp_free(s->cx, k->wide[i]);
    if (k->object) sp_jit_close(k->object);
    *k = (sp_special_kernel){0};
}
