/* obey: do what a schedule says to the weights of a graph, before the passes.
 *
 *   sparsify   a copy of the weight loses elements: room prune, a threshold, or a mask file
 *   format     pins the implement that stores the layer so; any other format waits for generated kernels
 *   quantize, kernel   their rooms are not there yet
 *
 * What cannot be obeyed is E_UNSUPPORTED with the place of the clause, never ignored. What was done is told as a list of effects.
 */
#include "compile/lower.h"
#include "file/file.h"
#include "format/format.h"
#include "prune/prune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct mask_file { /* the one that is open */
    const char *file;      /* NULL: none */
    sparta_arrays arrays;
} mask_file;

typedef struct job { /* one weight */
    sparta_ctx *cx;
    sparta_graph *g;
    const sparta_schedule *s;
    const sparta_schedule_match *m;
    const char *name;
    mask_file *masks;
} job;

/* Put the place of a clause before the present message. */
static sparta_status fail_at(sparta_ctx *cx, sparta_schedule_at at)
{
    return sparta_fail_in(cx, "%.200s:%d:%d", at.file, at.line, at.column);
}

static const sparta_schedule_clause *clause(const job *j, sparta_clause_kind kind)
{
    return j->m->rule[kind] ? &j->m->rule[kind]->clause[kind] : NULL;
}

/* The weight as (n, k). */
static sparta_tensor seen(const job *j)
{
    sparta_tensor w = *j->m->value->constant;
    if (!j->m->turned) return w;
    const sparta_tensor t = w;
    w.dim[0] = t.dim[1], w.dim[1] = t.dim[0];
    w.stride[0] = t.stride[1], w.stride[1] = t.stride[0];
    return w;
}

static sparta_status look(const job *j, sparta_pattern *out)
{
    const sparta_tensor w = seen(j);
    sparta_mask mask;
    SPARTA_TRY(sparta_mask_of(j->cx, &w, &mask));
    sparta_status s = sparta_mask_detect(j->cx, &mask, 1.02, out);
    sparta_mask_free(j->cx, &mask);
    return s;
}

/* ------------------------------------------------------------------ sparsify */

/* A copy of the constant that may be changed. */
static sparta_status own(const job *j)
{
    sparta_value *v = j->m->value;
    sparta_tensor *copy = sparta_arena_alloc(j->g->arena, sizeof *copy);
    SPARTA_NEED(j->cx, copy);
    SPARTA_TRY(
        sparta_tensor_alloc_in(j->g->arena, v->constant->dtype, v->constant->rank, v->constant->dim, copy));
    SPARTA_TRY(sparta_tensor_copy(j->cx, v->constant, copy));
    v->constant = copy;
    return SPARTA_OK;
}

/* Patterns that say their sparsity themselves: n:m. */
static bool says_sparsity(const char *pattern)
{
    return strchr(pattern, ':') != NULL;
}

static sparta_status magnitude(const job *j, const sparta_schedule_call *call)
{
    const char *pattern = sparta_schedule_arg_of(call, "pattern"),
               *sparsity = sparta_schedule_arg_of(call, "sparsity");
    char text[160];
    sparta_prune_spec spec;
    if (says_sparsity(pattern) && sparsity)
        return sparta_fail(
            j->cx, SPARTA_E_USAGE,
            "sparsify magnitude: pattern %.60s says its sparsity itself; leave out sparsity=%s", pattern,
            sparsity);
    snprintf(text, sizeof text, "%.100s%s%.40s", pattern, sparsity ? ":" : "", sparsity ? sparsity : "");
    SPARTA_TRY(sparta_prune_parse(j->cx, text, &spec));
    SPARTA_TRY(own(j));
    const sparta_tensor w = seen(j);
    return sparta_prune(j->cx, &spec, &w, NULL);
}

/* Elements of a magnitude below the value go; NaN stays. */
static sparta_status threshold(const job *j, const sparta_schedule_call *call)
{
    double value = 0;
    if (!sparta_parse_double(sparta_schedule_arg_of(call, "value"), &value)) return SPARTA_E_INTERNAL;
    SPARTA_TRY(own(j));
    const sparta_tensor *w = j->m->value->constant;
    for (int64_t i = 0, n = sparta_tensor_elements(w); i < n; i++)
        if (fabs(sparta_element_get(w->dtype, w->data, i)) < value)
            sparta_element_set(w->dtype, w->data, i, 0);
    return SPARTA_OK;
}

static sparta_status no_mask(const job *j, const sparta_arrays *a, const char *file)
{
    const char *names[64];
    int n = 0;
    for (; n < a->n && n < 64; n++) names[n] = a->entry[n].name;
    const char *near = sparta_nearest(j->name, names, n);
    return sparta_fail(j->cx, SPARTA_E_USAGE, "mask \"%.100s\" has no array '%.100s'%s%.100s%s", file,
                       j->name, near ? "; did you mean '" : "; name its arrays after the weights",
                       near ? near : "", near ? "'?" : "");
}

/* The file stays open for the next weight, which most often asks for the same one. */
static sparta_status open_masks(const job *j, const char *file)
{
    mask_file *m = j->masks;
    const char *path = NULL;
    if (m->file && !strcmp(m->file, file)) return SPARTA_OK;
    if (m->file) sparta_arrays_close(&m->arrays);
    m->file = NULL;
    sparta_mapped probe;
    SPARTA_TRY(sparta_schedule_path(j->s, j->g->arena, file, &path));
    SPARTA_TRY(
        sparta_map_open_beneath(j->cx, j->s->folder, file, &probe)); /* no link leads out of the folder */
    sparta_map_close(&probe);
    SPARTA_TRY(sparta_arrays_open(j->cx, path, &m->arrays));
    m->file = file;
    return SPARTA_OK;
}

static sparta_status mask(const job *j, const sparta_schedule_call *call)
{
    const char *file = sparta_schedule_arg_of(call, "file");
    SPARTA_TRY(open_masks(j, file));
    const sparta_arrays *a = &j->masks->arrays;
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->entry[i].name, j->name) || !strcmp(a->entry[i].name, j->m->value->name))
            return sparta_compile_mask(j->cx, j->g, j->m->value, &a->entry[i].tensor);
    return no_mask(j, a, file);
}

static sparta_status sparsify(const job *j, const sparta_schedule_call *call)
{
    if (!strcmp(call->name, "magnitude")) return magnitude(j, call);
    if (!strcmp(call->name, "threshold")) return threshold(j, call);
    if (!strcmp(call->name, "mask")) return mask(j, call);
    return sparta_fail(j->cx, SPARTA_E_UNSUPPORTED, "sparsify: nothing does '%.60s' yet", call->name);
}

/* ------------------------------------------------------------------ format */

/* The same storage? Widths that the schedule does not write are the implement's choice. */
static bool stores(sparta_format asked, const sparta_format *has, bool widths)
{
    for (int i = 0; !widths && i < SPARTA_MIN(asked.n, has->n); i++) {
        asked.level[i].pos = has->level[i].pos;
        asked.level[i].crd = has->level[i].crd;
    }
    return sparta_format_equal(&asked, has);
}

/* The implement that stores a weight of this shape in this format. */
static sparta_status find_implement(const job *j, const char *text, const sparta_implement **out)
{
    const sparta_tensor w = seen(j);
    const sparta_task task = {.n = w.dim[0], .k = w.dim[1]};
    sparta_format asked, has;
    SPARTA_TRY(sparta_format_parse(j->cx, text, &asked));
    SPARTA_TRY(sparta_format_check(j->cx, &asked, 2, w.dim));
    for (int i = 0; i < sparta_implement_count(); i++) {
        const sparta_implement *im = sparta_implement_row(i);
        sparta_text stored;
        if (!im->format || !im->kernel) continue;
        sparta_text_init(&stored, j->cx);
        im->format(&task, &stored);
        sparta_status s = stored.status;
        if (s == SPARTA_OK) s = sparta_format_parse(j->cx, sparta_text_str(&stored), &has);
        sparta_text_free(&stored);
        SPARTA_TRY(s);
        if (!stores(asked, &has, strchr(text, '=') != NULL)) continue;
        *out = im;
        return SPARTA_OK;
    }
    return sparta_fail(
        j->cx, SPARTA_E_UNSUPPORTED,
        "format %.200s of '%.100s': no implement stores a layer so, and kernels generated for a "
        "format come later; strip(4) and rows(4) are there",
        text, j->name);
}

/* ------------------------------------------------------------------ one weight */

static void describe(const job *j, sparta_clause_kind kind, const sparta_pattern *before, sparta_effect *e)
{
    const sparta_schedule_clause *c = clause(j, kind);
    const sparta_tensor w = seen(j);
    *e = (sparta_effect){.at = c->at,
                         .clause = sparta_clause_word(kind),
                         .text = c->text,
                         .glob = j->m->rule[kind]->glob,
                         .tensor = j->name,
                         .layer = j->m->node->name,
                         .n = w.dim[0],
                         .k = w.dim[1],
                         .before = before->density};
}

static sparta_status obey_one(const job *j, sparta_obeyed *out)
{
    const sparta_schedule_clause *s = clause(j, SPARTA_CLAUSE_SPARSIFY), *f = clause(j, SPARTA_CLAUSE_FORMAT);
    sparta_pattern before, after;
    SPARTA_TRY(look(j, &before));
    if (s && sparsify(j, &s->call) != SPARTA_OK) {
        sparta_fail_in(j->cx, "'%.100s'", j->name);
        return fail_at(j->cx, s->at);
    }
    SPARTA_TRY(look(j, &after));
    for (int kind = 0; kind < SPARTA_CLAUSES; kind++) {
        if (!j->m->rule[kind]) continue;
        sparta_effect *e = &out->effect[out->n];
        describe(j, (sparta_clause_kind)kind, kind == SPARTA_CLAUSE_SPARSIFY ? &before : &after, e);
        e->after = after.density;
        snprintf(e->pattern, sizeof e->pattern, "%s", after.name);
        if (kind == SPARTA_CLAUSE_FORMAT && find_implement(j, f->means, &e->implement) != SPARTA_OK)
            return fail_at(j->cx, f->at);
        out->n++;
    }
    return SPARTA_OK;
}

static sparta_status refuse_later(sparta_ctx *cx, const sparta_schedule *s)
{
    for (int i = 0; i < s->n_rules; i++)
        for (int k = SPARTA_CLAUSE_QUANTIZE; k <= SPARTA_CLAUSE_KERNEL; k++) {
            const sparta_schedule_clause *c = &s->rule[i]->clause[k];
            if (c->given)
                return sparta_fail(
                    cx, SPARTA_E_UNSUPPORTED,
                    "%.200s:%d:%d: %s %.100s: this version does not %s yet; leave the clause out", c->at.file,
                    c->at.line, c->at.column, sparta_clause_word((sparta_clause_kind)k), c->text,
                    k == SPARTA_CLAUSE_QUANTIZE ? "quantise" : "generate kernels");
        }
    return SPARTA_OK;
}

sparta_status sparta_compile_schedule(sparta_ctx *cx, sparta_graph *g, const sparta_schedule *s,
                                      sparta_obeyed *out)
{
    sparta_schedule_match *match;
    sparta_obeyed done = {0};
    int n;
    SPARTA_TRY(refuse_later(cx, s));
    SPARTA_TRY(sparta_schedule_matches(s, g, g->arena, &match, &n));
    done.effect = sparta_arena_array(g->arena, (size_t)n * SPARTA_CLAUSES + 1, sizeof *done.effect);
    SPARTA_NEED(cx, done.effect);
    mask_file masks = {0};
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < n && status == SPARTA_OK; i++) {
        const sparta_value *v = match[i].value;
        const job j = {cx, g, s, &match[i], v->origin ? v->origin : v->name, &masks};
        status = sparta_check_cancel(cx);
        if (status == SPARTA_OK) status = obey_one(&j, &done);
    }
    if (masks.file) sparta_arrays_close(&masks.arrays);
    SPARTA_TRY(status);
    *out = done;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ pins: formats that were asked for, found again after the passes */

static sparta_effect *pin_named(const sparta_obeyed *o, const char *name, size_t length)
{
    for (int i = 0; i < o->n; i++) {
        sparta_effect *e = &o->effect[i];
        if (e->implement && strlen(e->tensor) == length && !memcmp(e->tensor, name, length)) return e;
    }
    return NULL;
}

/* Part `i` of a merged name a.{query,key}.b: a.query.b; false: there is no such part. */
static bool part_of(const char *name, int i, char *out, size_t size)
{
    const char *open = strchr(name, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return false;
    const char *from = open + 1;
    for (; i > 0; i--) {
        from += strcspn(from, ",}");
        if (*from != ',') return false;
        from++;
    }
    const size_t length = strcspn(from, ",}");
    return (size_t)snprintf(out, size, "%.*s%.*s%s", (int)(open - name), name, (int)length, from, close + 1) <
           size;
}

static sparta_status pin_merged(sparta_ctx *cx, const sparta_obeyed *o, const char *name,
                                const sparta_implement **out)
{
    char part[1024];
    const sparta_implement *im = NULL;
    int pinned = 0, parts = 0;
    sparta_effect *some = NULL;
    bool same = true;
    for (; part_of(name, parts, part, sizeof part); parts++) {
        sparta_effect *e = pin_named(o, part, strlen(part));
        if (!e) continue;
        same &= !im || im == e->implement;
        im = e->implement;
        some = e;
        e->used = true;
        pinned++;
    }
    if (pinned && (pinned < parts || !same)) {
        sparta_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "format %.100s of '%.100s': the layer is merged into '%.100s', which is stored as one; say the "
            "same format for all of them",
            some->text, some->tensor, name);
        return fail_at(cx, some->at);
    }
    *out = im;
    return SPARTA_OK;
}

sparta_status sparta_lower_pin(sparta_ctx *cx, const sparta_obeyed *o, const sparta_node *n,
                               const sparta_implement **out)
{
    *out = NULL;
    if (!o || n->op != SPARTA_OP_Linear) return SPARTA_OK;
    const char *name = n->in[1]->origin ? n->in[1]->origin : n->in[1]->name;
    sparta_effect *e = pin_named(o, name, strlen(name));
    if (!e) return pin_merged(cx, o, name, out);
    e->used = true;
    *out = e->implement;
    return SPARTA_OK;
}

sparta_status sparta_lower_pin_failed(sparta_ctx *cx, const sparta_obeyed *o, const lower_node *ln)
{
    const char *why = ln->pin->sparse && ln->sparse == LOWER_FORBIDDEN
                          ? "only dense implements were asked for"
                      : ln->task.strict && ln->pin->sparse ? "--strict allows no sparse product"
                      : ln->pin->sparse ? "nothing is absent from its weight, or too little"
                                        : "the layer does not fit it";
    sparta_fail(cx, SPARTA_E_UNSUPPORTED, "format of layer '%.100s': implement %s cannot run it: %s",
                ln->node->name, ln->pin->name, why);
    for (int i = 0; i < o->n; i++)
        if (o->effect[i].implement == ln->pin) return fail_at(cx, o->effect[i].at);
    return sparta_ctx_status(cx);
}

sparta_status sparta_lower_pins_used(sparta_ctx *cx, const sparta_obeyed *o)
{
    for (int i = 0; o && i < o->n; i++) {
        const sparta_effect *e = &o->effect[i];
        if (!e->implement || e->used) continue;
        sparta_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "format %.100s of '%.100s': '%.100s' did not become a linear layer, so nothing stores it so",
            e->text, e->tensor, e->layer);
        return fail_at(cx, e->at);
    }
    return SPARTA_OK;
}
