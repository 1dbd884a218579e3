/* Sparsifiers of users: what they declare, and whether they keep to it.
 *
 *     register ---> a row beside those of sparsifiers.def, so that schedules know the name and its arguments
 *     by_user  ---> call the function: keep (n, k) of 1 and 0
 *                   - it says 0 (done), the weight is as before, every byte is 0 or 1, something stays
 *                   - whole blocks stay or go; of n:m at most n in each group of m
 *                   - no row of blocks keeps more than the bound
 *                   then the others become 0
 *
 * The function is trusted like all code of the program, its answer is not: a mistake is told with the first place where it shows.
 */
#include "prune/prune.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ register */

static sparta_status copy(sparta_ctx *cx, sp_arena *arena, const char *text, const char **out)
{
    const char *kept = text ? sp_arena_string(arena, text) : NULL;
    if (text) SP_NEED(cx, kept);
    *out = kept;
    return SPARTA_OK;
}

/* "topk?" is a parameter that may be left out. */
static sparta_status parameters(sparta_ctx *cx, sp_arena *arena, const sparta_sparsifier *s,
                                sp_sparsifier_row *row)
{
    int n = 0;
    for (; s->arguments && s->arguments[n]; n++) {
        const size_t length = strcspn(s->arguments[n], "?");
        if (n == SP_SCHEDULE_ARGS)
            return sp_fail(cx, SPARTA_E_USAGE, "sparsifier '%.60s': it has more than %d arguments", s->name,
                           SP_SCHEDULE_ARGS);
        char *name = sp_arena_bytes(arena, s->arguments[n], length);
        SP_NEED(cx, name);
        for (int i = 0; i < n; i++)
            if (!strcmp(row->parameter[i].name, name))
                return sp_fail(cx, SPARTA_E_USAGE, "sparsifier '%.60s': argument '%.60s' twice", s->name,
                               name);
        if (!sp_schedule_is_name(name) || strlen(s->arguments[n]) > length + 1)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "sparsifier '%.60s': argument '%.60s' is no name; it has letters, digits, "
                           "'_', '.', '-', and a "
                           "'?' behind it when it may be left out",
                           s->name, s->arguments[n]);
        row->parameter[n] = (sp_parameter){name, SP_PARAMETER_ANY, s->arguments[n][length] == '?', false};
    }
    return SPARTA_OK;
}

/* "mine(ratio=..., topk=...)" for messages. */
static sparta_status usage(sparta_ctx *cx, sp_arena *arena, sp_sparsifier_row *row)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "%s", row->name);
    for (int i = 0; row->parameter[i].name; i++)
        sp_text_printf(&t, "%s%s=...", i ? ", " : "(", row->parameter[i].name);
    if (row->parameter[0].name) sp_text_printf(&t, ")");
    row->usage = sp_text_keep(&t, arena);
    SP_NEED(cx, row->usage);
    return SPARTA_OK;
}

static sparta_status check_bound(sparta_ctx *cx, const sparta_sparsifier *s, const sp_sparsifier_row *row)
{
    bool known = !s->bound_argument;
    if (s->bound < 0)
        return sp_fail(cx, SPARTA_E_USAGE, "sparsifier '%.60s': the bound is %lld; 0 means none", s->name,
                       (long long)s->bound);
    for (int i = 0; row->parameter[i].name && !known; i++)
        known = !strcmp(row->parameter[i].name, s->bound_argument);
    if (!known)
        return sp_fail(cx, SPARTA_E_USAGE, "sparsifier '%.60s': it has no argument '%.60s' to set its bound",
                       s->name, s->bound_argument);
    return SPARTA_OK;
}

sparta_status sparta_sparsifier_register(sparta_ctx *cx, const sparta_sparsifier *given)
{
    sparta_sparsifier s = {0};
    sp_sparsifier_row row = {.id = SP_SPARSIFIERS};
    memcpy(&s, given, SP_MIN(given->size, sizeof s));
    if (!s.name || !s.mask)
        return sp_fail(cx, SPARTA_E_USAGE, "sparsifier: it needs its size, a name and a function");
    sp_arena *arena = sp_schedule_sparsifier_arena(cx);
    SP_NEED(cx, arena);
    sp_own_sparsifier *own = sp_arena_alloc(arena, sizeof *own);
    SP_NEED(cx, own);
    SP_TRY(copy(cx, arena, s.name, &row.name));
    SP_TRY(parameters(cx, arena, &s, &row));
    SP_TRY(usage(cx, arena, &row));
    SP_TRY(check_bound(cx, &s, &row));
    own->granularity = (sp_prune_spec){.block_n = 1, .block_m = 1};
    if (s.granularity && sp_prune_parse_pattern(cx, s.granularity, &own->granularity) != SPARTA_OK)
        return sp_fail_in(cx, "sparsifier '%.60s': granularity", s.name);
    own->is = s;
    own->is.name = row.name;
    own->is.arguments = NULL; /* the row has them */
    SP_TRY(copy(cx, arena, s.granularity, &own->is.granularity));
    SP_TRY(copy(cx, arena, s.bound_argument, &own->is.bound_argument));
    row.own = own;
    return sp_schedule_add_sparsifier(cx, &row);
}

sparta_status sp_prune_bound(sparta_ctx *cx, const sp_schedule_call *call, int64_t *out)
{
    const sp_own_sparsifier *own = call->row->own;
    const char *name = own->is.bound_argument;
    const sp_schedule_arg *a = name ? sp_schedule_arg_of(call, name) : NULL;
    int64_t bound = own->is.bound;
    if (a && (!sp_parse_int(a->text, &bound) || bound < 1))
        return sp_fail(cx, SPARTA_E_USAGE, "%s=%.60s: expected how many may stay in a row, at least 1", name,
                       a->text);
    *out = bound;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ did it keep to its word? */

typedef struct answer {
    sparta_ctx *cx;
    const sp_own_sparsifier *own;
    const uint8_t *keep; /* (n, k) */
    int64_t n, k;
    int64_t bound; /* 0: none */
} answer;

static const char *granularity_of(const answer *a)
{
    return a->own->is.granularity ? a->own->is.granularity : "1x1";
}

static sparta_status check_bytes(const answer *a)
{
    bool any = false;
    for (int64_t i = 0; i < a->n * a->k; i++) {
        any |= a->keep[i] == 1;
        if (a->keep[i] > 1)
            return sp_fail(a->cx, SPARTA_E_USAGE, "it answered %d for element (%lld, %lld); 1 stays, 0 goes",
                           a->keep[i], (long long)(i / a->k), (long long)(i % a->k));
    }
    return any ? SPARTA_OK
               : sp_fail(a->cx, SPARTA_E_USAGE,
                         "it keeps nothing of the weight; at least one element must stay");
}

/* Blocks: all or nothing. */
static sparta_status check_blocks(const answer *a, int64_t bn, int64_t bk)
{
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < a->k; j++) {
            const int64_t first = i / bn * bn * a->k + j / bk * bk;
            if (a->keep[i * a->k + j] != a->keep[first])
                return sp_fail(
                    a->cx, SPARTA_E_USAGE,
                    "it keeps a part of block (%lld, %lld), see element (%lld, %lld); its granularity is %s",
                    (long long)(i / bn), (long long)(j / bk), (long long)i, (long long)j, granularity_of(a));
        }
    return SPARTA_OK;
}

/* Groups of n:m: at most n of each m along k, or along n. */
static sparta_status check_groups(const answer *a)
{
    const sp_prune_spec *g = &a->own->granularity;
    const int64_t lines = g->along_out ? a->k : a->n, length = g->along_out ? a->n : a->k;
    const int64_t line_step = g->along_out ? 1 : a->k, step = g->along_out ? a->k : 1;
    for (int64_t l = 0; l < lines; l++)
        for (int64_t from = 0; from < length; from += g->of) {
            int kept = 0;
            for (int64_t i = from; i < SP_MIN(length, from + g->of); i++)
                kept += a->keep[l * line_step + i * step];
            if (kept > g->keep)
                return sp_fail(a->cx, SPARTA_E_USAGE,
                               "it keeps %d of elements %lld to %lld of %s %lld; its granularity is %s", kept,
                               (long long)from, (long long)(SP_MIN(length, from + g->of) - 1),
                               g->along_out ? "column" : "row", (long long)l, granularity_of(a));
        }
    return SPARTA_OK;
}

/* Blocks that stay in each row of blocks. */
static sparta_status check_bound_kept(const answer *a, int64_t bn, int64_t bk)
{
    for (int64_t i = 0; i < a->n && a->bound; i += bn) {
        int64_t kept = 0;
        for (int64_t j = 0; j < a->k; j += bk) kept += a->keep[i * a->k + j];
        if (kept > a->bound)
            return sp_fail(a->cx, SPARTA_E_USAGE, "it keeps %lld %s in row %lld of them; its bound is %lld",
                           (long long)kept, bn == 1 && bk == 1 ? "elements" : "blocks", (long long)(i / bn),
                           (long long)a->bound);
    }
    return SPARTA_OK;
}

static sparta_status check_answer(const answer *a)
{
    const sp_prune_spec *g = &a->own->granularity;
    const int64_t bn = g->block_n ? g->block_n : a->n, bk = g->block_m ? g->block_m : a->k;
    SP_TRY(check_bytes(a));
    SP_TRY(sp_check_cancel(a->cx));
    SP_TRY(g->of ? check_groups(a) : check_blocks(a, bn, bk));
    return check_bound_kept(a, bn, bk);
}

/* ------------------------------------------------------------------ ask, check, apply */

/* Of all that lies between the first and the last element: strides count from 0 up. */
static uint64_t digest(const sparta_tensor *w)
{
    const int64_t last = (w->dim[0] - 1) * w->stride[0] + (w->dim[1] - 1) * w->stride[1];
    return sp_hash(w->data, (size_t)(last + 1) * sparta_dtype_size(w->dtype), 0);
}

static sparta_status ask(const answer *a, const sp_schedule_call *call, const char *tensor,
                         const sparta_tensor *w, uint8_t *keep)
{
    sparta_sparsifier_argument argument[SP_SCHEDULE_ARGS];
    sparta_sparsifier_call c = {
        .tensor = tensor, .weight = *w, .n_arguments = call->n, .argument = argument, .keep = keep};
    for (int i = 0; i < call->n; i++)
        argument[i] = (sparta_sparsifier_argument){call->arg[i].name, call->arg[i].text};
    memset(keep, 1, (size_t)(a->n * a->k));
    const uint64_t before = digest(w);
    const int failed = a->own->is.mask(a->own->is.user, &c);
    c.message[sizeof c.message - 1] = 0;
    if (failed)
        return sp_fail(a->cx, SPARTA_E_USAGE, "it failed (%d)%s%s", failed, *c.message ? ": " : "",
                       c.message);
    if (digest(w) != before)
        return sp_fail(a->cx, SPARTA_E_USAGE, "it changed the weight; it may only write `keep`");
    return SPARTA_OK;
}

static void apply(const answer *a, const sparta_tensor *w)
{
    const size_t size = sparta_dtype_size(w->dtype);
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < a->k; j++)
            if (!a->keep[i * a->k + j])
                memset((char *)w->data + (i * w->stride[0] + j * w->stride[1]) * (int64_t)size, 0, size);
}

sparta_status sp_prune_by_user(sparta_ctx *cx, const sp_schedule_call *call, const char *tensor,
                               const sparta_tensor *w)
{
    answer a = {.cx = cx, .own = call->row->own, .n = w->dim[0], .k = w->dim[1]};
    size_t size;
    if (!sp_size_mul((size_t)a.n, (size_t)a.k, &size))
        return sp_fail(cx, SPARTA_E_MEMORY, "sparsifier '%s': the weight is too large", call->name);
    SP_TRY(sp_prune_bound(cx, call, &a.bound));
    uint8_t *keep = sp_alloc(cx, size);
    SP_NEED(cx, keep);
    a.keep = keep;
    sparta_status s = ask(&a, call, tensor, w, keep);
    if (s == SPARTA_OK) s = check_answer(&a);
    if (s == SPARTA_OK) apply(&a, w);
    sp_free(cx, keep);
    return s == SPARTA_OK ? SPARTA_OK : sp_fail_in(cx, "sparsifier '%.60s'", call->name);
}
