/* obey: do what a schedule says to the weights of a graph, before the passes.
 *
 *   sparsify   a copy of the weight loses elements: room prune, a mask file, or a function of the user
 *   format     pins the implement that stores the layer so (pins.c): a hand-made one, or the walker, which runs any format
 *   implement  pins the row of implements.def that runs the layer, at a point of its space: quads(RANGE=256)
 *   kernel     pins the schedule of the loops of the kernel that is generated for the format: vectorize(m1,4)
 *   quantize   its room is not there yet
 *
 * Of values that the model computes computed.c does what is said, last.
 *
 * What cannot be obeyed is E_UNSUPPORTED with the place of the clause, never ignored. What was done is told as a list of effects.
 */
#include "compile/lower.h"
#include "compile/modules.h"
#include "store/store.h"
#include "prune/prune.h"
#include <stdio.h>
#include <string.h>

typedef struct mask_file { /* the one that is open */
    const char *file;      /* NULL: none */
    sp_tesas arrays;
    sp_modules modules; /* of the graph, when first asked */
    int64_t lost;       /* weights that were not 0 and that masks removed */
} mask_file;

typedef struct job { /* one weight */
    sparta_ctx *cx;
    sp_graph *g;
    const sparta_schedule *s;
    const sp_schedule_match *m;
    const char *name;
    mask_file *masks;
} job;

sparta_status sp_lower_fail_at(sparta_ctx *cx, sp_schedule_at at)
{
    return sp_fail_in(cx, "%.200s:%d:%d", at.file, at.line, at.column);
}

static const sp_schedule_clause *clause(const job *j, sp_clause_kind kind)
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

static sparta_status look(const job *j, sp_pattern *out, uint64_t *digest)
{
    const sparta_tensor w = seen(j);
    sp_mask mask;
    SP_TRY(sp_mask_of(j->cx, &w, &mask));
    *digest = sp_mask_digest(&mask);
    sparta_status s = sp_mask_detect(j->cx, &mask, 1.02, out);
    sp_mask_free(j->cx, &mask);
    return s;
}

/* ------------------------------------------------------------------ sparsify */

/* A copy of the constant that may be changed. */
static sparta_status own(const job *j)
{
    sp_value *v = j->m->value;
    sparta_tensor *copy = sp_arena_alloc(j->g->arena, sizeof *copy);
    SP_NEED(j->cx, copy);
    SP_TRY(sp_tensor_alloc_in(j->g->arena, v->constant->dtype, v->constant->rank, v->constant->dim, copy));
    SP_TRY(sp_tensor_copy(j->cx, v->constant, copy));
    v->constant = copy;
    return SPARTA_OK;
}

/* A function for each row of sparsifiers.def. A mistake in an argument sets *at to its place. */

static sparta_status sparsify_magnitude(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    const sp_schedule_arg *pattern = sp_schedule_arg_of(call, "pattern"),
                          *sparsity = sp_schedule_arg_of(call, "sparsity");
    sp_prune_spec spec;
    *at = pattern->at;
    SP_TRY(sp_prune_parse_pattern(j->cx, pattern->text, &spec));
    if (!spec.of && !sparsity)
        return sp_fail(
            j->cx, SPARTA_E_USAGE,
            "magnitude: pattern %.60s needs a sparsity; write magnitude(pattern=%.60s, sparsity=0.9)",
            pattern->text, pattern->text);
    if (sparsity) *at = sparsity->at;
    if (spec.of && sparsity)
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "magnitude: pattern %.60s says its sparsity itself; leave out sparsity=%s",
                       pattern->text, sparsity->text);
    if (sparsity && !sp_parse_double(sparsity->text, &spec.sparsity)) return SPARTA_E_INTERNAL;
    SP_TRY(own(j));
    const sparta_tensor w = seen(j);
    sp_prune_note(j->cx, &spec, &w);
    return sp_prune(j->cx, &spec, &w, NULL);
}

/* Arguments that say how much there is of something that nobody has seen yet. */
static sparta_status no_guesses(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    static const char *const words[] = {"bound", "expect"};
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        const sp_schedule_arg *a = sp_schedule_arg_of(call, words[i]);
        if (!a) continue;
        *at = a->at;
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "%s: %s=%.60s is said of what is computed as the model runs; of a weight leave it out",
                       call->name, words[i], a->text);
    }
    return SPARTA_OK;
}

static sparta_status sparsify_topk(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    (void)call, (void)at;
    return sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                   "topk is of what is computed as the model runs (\"NODE:output\"); of a weight write "
                   "magnitude(pattern=1x1, sparsity=0.9)");
}

/* Of row i of n, which stands at input i + k - n, the inputs around that place. */
static sparta_status sparsify_bands(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    int64_t left, right;
    SP_TRY(no_guesses(j, call, at));
    if (!sp_parse_int(sp_schedule_arg_of(call, "left")->text, &left) ||
        !sp_parse_int(sp_schedule_arg_of(call, "right")->text, &right))
        return SPARTA_E_INTERNAL;
    SP_TRY(own(j));
    const sparta_tensor w = seen(j);
    for (int64_t n = 0; n < w.dim[0]; n++)
        for (int64_t k = 0; k < w.dim[1]; k++) {
            const int64_t off = k - (n + w.dim[1] - w.dim[0]);
            if (off < -left || off > right) ((float *)w.data)[n * w.stride[0] + k * w.stride[1]] = 0;
        }
    return SPARTA_OK;
}

static sparta_status sparsify_function(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    *at = sp_schedule_arg_of(call, "name")->at;
    return sp_fail(
        j->cx, SPARTA_E_UNSUPPORTED,
        "function is of what is computed as the model runs (\"NODE:output\"); of a weight register a "
        "sparsifier (sparta_sparsifier_register)");
}

static sparta_status sparsify_similarity(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    (void)call, (void)at;
    return sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                   "sparsify similarity compares the queries of an attention with its keys: name its scores, "
                   "e.g. \"/attention/Softmax:input\", not a weight");
}

static sparta_status sparsify_threshold(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    const sp_schedule_arg *a = sp_schedule_arg_of(call, "value");
    double value = 0;
    SP_TRY(no_guesses(j, call, at));
    *at = a->at;
    if (!sp_parse_double(a->text, &value)) return SPARTA_E_INTERNAL;
    SP_TRY(own(j));
    const sparta_tensor w = seen(j);
    sp_prune_threshold(&w, value);
    return SPARTA_OK;
}

static sparta_status no_mask(const job *j, const sp_tesas *a, const char *file)
{
    const char *names[64];
    char hint[SP_HINT];
    int n = 0;
    for (; n < a->n && n < 64; n++) names[n] = a->entry[n].name;
    return sp_fail(j->cx, SPARTA_E_USAGE, "mask \"%.100s\" has no array '%.100s'%s", file, j->name,
                   sp_did_you_mean(j->name, names, n, "; name its arrays after the weights", hint));
}

/* The file stays open for the next weight, which most often asks for the same one. */
static sparta_status open_masks(const job *j, const char *file)
{
    mask_file *m = j->masks;
    const char *path = NULL;
    if (m->file && !strcmp(m->file, file)) return SPARTA_OK;
    if (m->file) sp_tesas_close(&m->arrays);
    m->file = NULL;
    sp_mapped probe;
    SP_TRY(sp_schedule_path(j->s, j->g->arena, file, &path));
    SP_TRY(sp_mapped_open_beneath(j->cx, j->s->folder, file, &probe)); /* no link leads out of the folder */
    sp_mapped_close(&probe);
    SP_TRY(sp_tesas_open(j->cx, path, &m->arrays));
    m->file = file;
    return SPARTA_OK;
}

static sparta_status sparsify_mask(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    const sp_schedule_arg *file = sp_schedule_arg_of(call, "file");
    *at = file->at;
    SP_TRY(open_masks(j, file->text));
    mask_file *m = j->masks;
    const sp_tesas *a = &m->arrays;
    const sp_module_weight own = {.name = j->name, .value = j->m->value};
    sparta_tensor mask;
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->entry[i].name, j->name) && strcmp(a->entry[i].name, j->m->value->name)) continue;
        SP_TRY(sp_tesas_mask(a, i, &mask));
        return sp_compile_mask(j->cx, j->g, &own, &mask, &m->lost);
    }
    if (!m->modules.g) SP_TRY(sp_modules_find_all(j->g, &m->modules));
    for (int i = 0; i < a->n; i++) {
        const sp_module_weight *w = sp_modules_find(&m->modules, a->entry[i].name);
        if (!w || w->value != j->m->value) continue;
        SP_TRY(sp_tesas_mask(a, i, &mask));
        return sp_compile_mask(j->cx, j->g, w, &mask, &m->lost);
    }
    return no_mask(j, a, file->text);
}

static sparta_status sparsify_python(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    (void)at;
    return sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                   "python(\"%.100s\") needs Python and PyTorch: apply the schedule to the model there "
                   "(sparta.create_schedule), and compile what that leaves",
                   sp_schedule_arg_of(call, "object")->text);
}

static sparta_status by_user(const job *j, const sp_schedule_call *call, sp_schedule_at *at)
{
    (void)at;
    SP_TRY(own(j));
    const sparta_tensor w = seen(j);
    return sp_prune_by_user(j->cx, call, j->name, &w);
}

static sparta_status sparsify(const job *j, const sp_schedule_clause *c)
{
    static sparta_status (*const run[])(const job *, const sp_schedule_call *, sp_schedule_at *) = {
#define SP_SPARSIFIER(id, usage, ...) [SP_SPARSIFIER_##id] = sparsify_##id,
#include "schedule/sparsifiers.def"
#undef SP_SPARSIFIER
        [SP_SPARSIFIERS] = by_user};
    sp_schedule_at at = c->at;
    if (run[c->call.row->id](j, &c->call, &at) == SPARTA_OK) return SPARTA_OK;
    sp_fail_in(j->cx, "'%.100s'", j->name);
    return sp_lower_fail_at(j->cx, at);
}

/* ------------------------------------------------------------------ format */

static sparta_status check_fit(const job *j, const sp_format *f, const sparta_tensor *w)
{
    const sp_schedule_clause *s = clause(j, SP_CLAUSE_SPARSIFY);
    if (f->rank != 2)
        return sp_fail(
            j->cx, SPARTA_E_USAGE,
            "format: %d dimensions but tensor '%.100s' has 2, (n, k) = (outputs, inputs); use one of 2",
            f->rank, j->name);
    if (sp_format_check(j->cx, f, 2, w->dim) == SPARTA_OK &&
        (!s || sp_prune_suits(j->cx, &s->call, f, w->dim[0], w->dim[1]) == SPARTA_OK))
        return SPARTA_OK;
    return sp_fail_in(j->cx, "'%.100s'", j->name);
}

/* Primitives as room special reads them: "{ split(m, m0, m1, 64); unroll(n1) }" without braces and blanks. */
static sparta_status compact(const job *j, const sp_schedule_clause *c, char **out)
{
    char *text = sp_arena_string(j->g->arena, c->means), *to = text;
    SP_NEED(j->cx, text);
    for (const char *p = text; *p; p++)
        if (!strchr("{} \t\n", *p)) *to++ = *p;
    *to = 0;
    *out = text;
    if (to - text < SP_KERNEL_TEXT) return SPARTA_OK;
    return sp_fail(j->cx, SPARTA_E_LIMIT, "'%.100s': kernel: its primitives are longer than %d bytes",
                   j->name, SP_KERNEL_TEXT - 1);
}

/* They are applied one by one, so that what is refused has a place. */
static sparta_status pin_kernel(const job *j, sp_effect *e)
{
    const sp_schedule_clause *c = clause(j, SP_CLAUSE_KERNEL);
    char *text;
    if (!sp_implement_stores_any(e->implement)) {
        sp_fail(j->cx, SPARTA_E_USAGE,
                "'%.100s': kernel: the kernel of this format is written by hand, %s; leave the clause out",
                j->name, e->implement->name);
        return sp_lower_fail_at(j->cx, c->at);
    }
    if (compact(j, c, &text) != SPARTA_OK) return sp_lower_fail_at(j->cx, c->at);
    char *end = text;
    for (int i = 0; i <= c->n; i++) { /* the first i of them */
        sp_task task = {.node = NULL};
        const char kept = *end;
        *end = 0;
        const sparta_status s =
            sp_implement_ask(j->cx, e->format, text, sp_target_best(SP_DEVICE_CPU), &task);
        *end = kept;
        if (s != SPARTA_OK) {
            sp_fail_in(j->cx, "'%.100s': kernel", j->name);
            return sp_lower_fail_at(j->cx, i ? c->step[i - 1].at : c->at);
        }
        end += *end == ';';
        end += strcspn(end, ";");
    }
    e->kernel = text;
    e->implement = &sp_implement_generated_linear;
    return SPARTA_OK;
}

/* What a format clause asks for: checked against the weight and its elements, in its canonical text, with the implement that obeys.
 * How much it may store is asked where layers are lowered, merged ones too. */
static sparta_status pin(const job *j, const sp_schedule_clause *c, sp_effect *e)
{
    const sparta_tensor w = seen(j);
    sp_format asked;
    sp_store_stats stats;
    sp_text canonical;
    SP_TRY(sp_format_parse(j->cx, c->means, &asked));
    SP_TRY(check_fit(j, &asked, &w));
    SP_TRY(sp_implement_for_format(j->cx, &asked, sp_schedule_says_widths(c->means), w.dim[0], w.dim[1],
                                   &e->implement));
    if (!e->implement)
        return sp_fail(j->cx, SPARTA_E_UNSUPPORTED, "format %.200s of '%.100s': no implement stores it so",
                       c->text, j->name);
    if (sp_implement_stores_any(e->implement) &&
        sp_store_measure(j->cx, &asked, &w, NULL, &stats) != SPARTA_OK)
        return sp_fail_in(j->cx, "'%.100s'", j->name);
    sp_text_init(&canonical, j->cx);
    sp_format_print(&asked, &canonical);
    e->format = sp_text_keep(&canonical, j->g->arena);
    SP_NEED(j->cx, e->format);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ implement */

static bool runs_layers(const sp_implement *im)
{
    return im->kernel && !sp_implement_stores_any(im) && sp_panel_multiplies(sp_panel_find(im->kernel)) &&
           !sp_implement_is_user(im); /* its kernels have names of their own */
}

static sparta_status unknown_implement(const job *j, const char *name)
{
    const char *names[64];
    int n = 0;
    sp_text known;
    sp_text_init(&known, j->cx);
    for (int i = 0; i < sp_implement_count() && n < (int)SP_COUNT(names); i++) {
        if (!runs_layers(sp_implement_row(i))) continue;
        names[n] = sp_implement_row(i)->name;
        sp_text_printf(&known, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    const char *near = sp_nearest(name, names, n);
    const sparta_status s =
        sp_fail(j->cx, SPARTA_E_USAGE,
                "implement %.60s: there is none of that name that runs a layer%s%s%s; there are %s", name,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", sp_text_str(&known));
    sp_text_free(&known);
    return s;
}

/* What an implement clause asks for: a row, and words of a point, "RANGE=256 CL=2"; or a kernel of a user's. */
static sparta_status pin_implement(const job *j, const sp_schedule_clause *c, sp_effect *e)
{
    const sp_implement *im = sp_implement_find(c->call.name);
    sp_text words;
    if (clause(j, SP_CLAUSE_FORMAT))
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "'%.100s': format and implement both say what runs the layer; leave one out", j->name);
    int place = 0;
    const sp_implement *user = sp_implement_user_find(j->cx, c->call.name, &place);
    if (user) im = user;
    if (!user && (!im || !runs_layers(im))) return unknown_implement(j, c->call.name);
    sp_text_init(&words, j->cx);
    if (user) sp_text_printf(&words, c->call.n ? "%s=%d " : "%s=%d", user->space->knob[0].name, place);
    for (int i = 0; i < c->call.n; i++) {
        const sp_schedule_arg *a = &c->call.arg[i];
        sp_text_printf(&words, "%s%s%s%s", i ? " " : "", a->name ? a->name : "", a->name ? "=" : "", a->text);
    }
    sparta_status s = words.status;
    if (s == SPARTA_OK) s = sp_implement_has_point(j->cx, im, sp_text_str(&words), e->n, e->k);
    e->implement = im;
    e->point = s == SPARTA_OK ? sp_arena_string(j->g->arena, sp_text_str(&words)) : NULL;
    sp_text_free(&words);
    return s == SPARTA_OK && !e->point ? sp_ctx_status(j->cx) : s;
}

/* ------------------------------------------------------------------ one weight */

static sparta_status describe(const job *j, sp_clause_kind kind, const sp_pattern *before, sp_effect *e)
{
    const sp_schedule_clause *c = clause(j, kind);
    const sparta_tensor w = seen(j);
    *e = (sp_effect){.at = c->at,
                     .clause = sp_clause_word(kind),
                     .text = c->text,
                     .glob = j->m->rule[kind]->glob,
                     .tensor = j->name,
                     .known = sp_schedule_known_as(j->g->arena, j->m->value, j->m->node),
                     .layer = j->m->node->name,
                     .n = w.dim[0],
                     .k = w.dim[1],
                     .point = "",
                     .before = before->density};
    return e->known ? SPARTA_OK : sp_ctx_status(j->cx);
}

static sparta_status obey_one(const job *j, sp_obeyed *out)
{
    const sp_schedule_clause *s = clause(j, SP_CLAUSE_SPARSIFY), *f = clause(j, SP_CLAUSE_FORMAT),
                             *im = clause(j, SP_CLAUSE_IMPLEMENT);
    sp_pattern before, after;
    uint64_t digest;
    SP_TRY(look(j, &before, &digest));
    if (s) SP_TRY(sparsify(j, s));
    SP_TRY(look(j, &after, &digest));
    for (int kind = 0; kind < SP_CLAUSES; kind++) {
        if (!j->m->rule[kind]) continue;
        sp_effect *e = &out->effect[out->n];
        SP_TRY(describe(j, (sp_clause_kind)kind, kind == SP_CLAUSE_SPARSIFY ? &before : &after, e));
        e->after = after.density;
        e->digest = digest;
        snprintf(e->pattern, sizeof e->pattern, "%s", after.name);
        if (kind == SP_CLAUSE_FORMAT && pin(j, f, e) != SPARTA_OK) return sp_lower_fail_at(j->cx, f->at);
        if (kind == SP_CLAUSE_FORMAT && clause(j, SP_CLAUSE_KERNEL)) SP_TRY(pin_kernel(j, e));
        if (kind == SP_CLAUSE_KERNEL && !f) {
            sp_fail(
                j->cx, SPARTA_E_USAGE,
                "'%.100s': kernel: it schedules the loops of the kernel of a format; say which, e.g. format "
                "bsr(4,4)",
                j->name);
            return sp_lower_fail_at(j->cx, clause(j, SP_CLAUSE_KERNEL)->at);
        }
        if (kind == SP_CLAUSE_IMPLEMENT && pin_implement(j, im, e) != SPARTA_OK)
            return sp_lower_fail_at(j->cx, im->at);
        out->n++;
    }
    return SPARTA_OK;
}

static sparta_status check_target(sparta_ctx *cx, const sparta_schedule *s)
{
    const char *names[SP_CPU_TARGETS];
    char hint[SP_HINT];
    sp_text known;
    sp_target target;
    const bool is = s->target && sp_target_parse(s->target, &target);
    if (!s->target || (is && sp_target_device(target) == SP_DEVICE_CPU)) return SPARTA_OK;
    sp_text_init(&known, cx);
    for (int t = 0; t < SP_CPU_TARGETS; t++) {
        names[t] = sp_target_name((sp_target)t);
        sp_text_printf(&known, "%s%s", t ? ", " : "", names[t]);
    }
    if (is)
        sp_fail(cx, SPARTA_E_USAGE, "target %s: packages run on the CPU; give %s", s->target,
                sp_text_str(&known));
    else
        sp_fail(cx, SPARTA_E_USAGE, "target %.60s: unknown; this build knows %s%s", s->target,
                sp_text_str(&known), sp_did_you_mean(s->target, names, SP_CPU_TARGETS, "", hint));
    sp_text_free(&known);
    return sp_lower_fail_at(cx, s->target_at);
}

static sparta_status refuse_later(sparta_ctx *cx, const sparta_schedule *s)
{
    for (int i = 0; i < s->n_rules; i++) {
        const sp_schedule_clause *c = &s->rule[i]->clause[SP_CLAUSE_QUANTIZE];
        if (c->given)
            return sp_fail(
                cx, SPARTA_E_UNSUPPORTED,
                "%.200s:%d:%d: quantize %.100s: this version does not quantise yet; leave the clause out",
                c->at.file, c->at.line, c->at.column, c->text);
    }
    return SPARTA_OK;
}

sparta_status sp_compile_schedule(sparta_ctx *cx, sp_graph *g, const sparta_schedule *s, sp_obeyed *out)
{
    sp_schedule_match *match;
    sp_obeyed done = {0};
    int n;
    SP_TRY(check_target(cx, s));
    SP_TRY(refuse_later(cx, s));
    SP_TRY(sp_schedule_matches(s, g, g->arena, &match, &n));
    done.effect = sp_arena_array(g->arena, (size_t)n * SP_CLAUSES + 1, sizeof *done.effect);
    SP_NEED(cx, done.effect);
    mask_file masks = {0};
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < n && status == SPARTA_OK; i++) {
        const sp_value *v = match[i].value;
        const job j = {cx, g, s, &match[i], v->origin ? v->origin : v->name, &masks};
        status = sp_check_cancel(cx);
        if (status == SPARTA_OK) status = obey_one(&j, &done);
    }
    if (masks.file) sp_tesas_close(&masks.arrays);
    sp_modules_free(&masks.modules);
    SP_TRY(status);
    done.masked_nonzero = masks.lost;
    SP_TRY(sp_lower_computed(cx, g, s, &done));
    *out = done;
    return SPARTA_OK;
}
