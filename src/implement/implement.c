/* The table of implements, their points and slots, the tasks they look at, and kernel texts from templates and parameters. */
#include "implement/generated.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sp_implement *const table[] = {
#define SP_IMPLEMENT(name) &sp_implement_##name,
#include "implement/implements.def"
#undef SP_IMPLEMENT
};

int sp_implement_count(void)
{
    return (int)SP_COUNT(table);
}
const sp_implement *sp_implement_row(int i)
{
    return table[i];
}

const sp_implement *sp_implement_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}

sparta_status sp_implement_text(const char *kernel, const char *parameters, sp_target target, sp_text *out)
{
    const sp_panel_kernel *row = sp_panel_find(kernel);
    if (row && row->generated) return sp_implement_write(kernel, parameters, target, out);
    if (row && row->otherwise) return sp_implement_write_stored(parameters, target, out);
    sp_text_printf(out, "/* sparta %s: kernel %s, target %s%s%s */\n", SPARTA_VERSION, kernel,
                   sp_target_name(target), *parameters ? ", " : "", parameters);
    sp_text_printf(out, "#define KERNEL __attribute__((visibility(\"default\")))\n");
    for (const char *p = parameters; *p;) {
        const size_t word = strcspn(p, " "), name = strcspn(p, "=");
        if (name < word)
            sp_text_printf(out, "#define %.*s %.*s\n", (int)name, p, (int)(word - name - 1), p + name + 1);
        p += word;
        p += strspn(p, " ");
    }
    return sp_panel_text(kernel, out);
}

/* Without a compiler there is no code, which is no failure. */
static sparta_status code_of(sparta_ctx *cx, sp_target target, const char *text, const sp_object **out)
{
    const sparta_status s = sp_jit_get(cx, target, text, out, NULL);
    if (s != SPARTA_E_COMPILER) return s;
    *out = NULL;
    sp_ctx_clear(cx);
    return SPARTA_OK;
}

sparta_status sp_implement_code(sparta_ctx *cx, const char *kernel, const char *parameters, sp_target target,
                                const sp_object **out)
{
    sp_text text;
    *out = NULL;
    if (target == SP_TARGET_PORTABLE) return SPARTA_OK;
    sp_text_init(&text, cx);
    sparta_status s = sp_implement_text(kernel, parameters, target, &text);
    if (s == SPARTA_OK) s = code_of(cx, target, sp_text_str(&text), out);
    sp_text_free(&text);
    return s;
}

sparta_status sp_implement_code_all(sparta_ctx *cx, sp_target target, int n, const char *const *text,
                                    const sp_object **out)
{
    for (int i = 0; i < n; i++) out[i] = NULL;
    if (target == SP_TARGET_PORTABLE) return SPARTA_OK;
    SP_TRY(sp_jit_get_all(cx, target, n, text, out));
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < n && s == SPARTA_OK; i++)
        if (!out[i]) s = code_of(cx, target, text[i], &out[i]);
    for (int i = 0; i < n && s != SPARTA_OK; i++) {
        sp_jit_close(out[i]);
        out[i] = NULL;
    }
    return s;
}

void sp_implement_epilogue(const sp_words *words, bool stat, sp_text *out)
{
    sp_text_printf(out, "EPILOGUE=");
    for (int i = words->n; i-- > 0;)
        if (words->word[i] != SP_WORD_BIAS)
            sp_text_printf(out, "word_%s(", sp_word_row(words->word[i])->name);
    sp_text_printf(out, "v");
    for (int i = 0; i < words->n; i++)
        if (words->word[i] != SP_WORD_BIAS)
            sp_text_printf(out, "%s", sp_word_row(words->word[i])->slot ? ",residual)" : ")");
    sp_text_printf(out, " STAT=%d", stat);
}

bool sp_implement_tokens(const sp_value *v)
{
    int64_t features;
    return v && v->typed && v->dims.rank >= 2 && sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &features) &&
           features > 0;
}

/* ------------------------------------------------------------------ points */

/* Where the value of a word begins; NULL: it is not there. */
static const char *word(const char *point, const char *name, size_t length)
{
    for (const char *p = point; *p; p += strspn(p, " ")) {
        if (!strncmp(p, name, length) && p[length] == '=') return p + length + 1;
        p += strcspn(p, " ");
    }
    return NULL;
}

int64_t sp_point_get(const char *point, const char *name, int64_t otherwise)
{
    const char *at = word(point, name, strlen(name));
    return at ? strtoll(at, NULL, 10) : otherwise;
}

int sp_implement_points(const sp_implement *im)
{
    int n = 1;
    for (int i = 0; im->space && i < im->space->n; i++) n *= im->space->knob[i].n;
    return n;
}

static bool holds(const char *when, const char *point)
{
    const size_t name = strcspn(when, "=");
    const char *at = word(point, when, name);
    return at && strtoll(at, NULL, 10) == strtoll(when + name + 1, NULL, 10);
}

bool sp_implement_point(const sp_implement *im, int k, sp_task *t)
{
    size_t used = 0;
    t->point[0] = 0;
    for (int i = 0; im->space && i < im->space->n; i++) {
        const sp_knob *knob = &im->space->knob[i];
        const int at = k % knob->n;
        k /= knob->n;
        if (knob->when && !holds(knob->when, t->point)) {
            if (at) return false; /* a knob that is not there has one position */
            continue;
        }
        used += (size_t)snprintf(t->point + used, SP_POINT - used, "%s%s=%d", used ? " " : "", knob->name,
                                 knob->value[at]);
        SP_ASSERT(used < SP_POINT);
    }
    return !im->space || !im->space->allowed || im->space->allowed(t);
}

/* ------------------------------------------------------------------ tasks */

bool sp_implement_weight(const sp_node *n, sparta_tensor *view)
{
    bool turned;
    if (!sp_node_is_fused(n) || !sp_node_takes_matrix(n, &turned)) return false;
    const sparta_tensor *w = n->in[1]->constant;
    if (!w || !w->data || w->rank != 2 || w->dtype != SPARTA_F32) return false;
    *view = *w;
    if (turned) {
        view->dim[0] = w->dim[1], view->dim[1] = w->dim[0];
        view->stride[0] = w->stride[1], view->stride[1] = w->stride[0];
    }
    return view->dim[0] > 0 && view->dim[1] > 0;
}

/* Has input i the tokens of the output, and does no kernel need others than those at hand? */
static bool same_tokens(const sp_node *n, int i)
{
    const sp_dims *a = &n->in[i]->dims, *y = &n->out[0]->dims;
    /* (B, S, heads*D) is no (tokens, heads*D): the rank says where heads are */
    if (n->op == SP_OP_RotaryEmbedding) return false;
    if (a->rank != y->rank || a->rank < 2) return false;
    for (int d = 0; d + 1 < a->rank; d++)
        if (!sp_expr_equal(a->dim[d], y->dim[d])) return false;
    for (size_t k = 0; k < SP_COUNT(table); k++) {
        const sp_panel_kernel *kernel = table[k]->kernel ? sp_panel_find(table[k]->kernel) : NULL;
        const sp_slot *slot =
            kernel && sp_panel_takes(kernel, n->op) ? sp_panel_slot(kernel, n->n_in, i) : NULL;
        if (slot && slot->beyond) return false;
    }
    return true;
}

/* The share of its elements that a value is thought to have when it runs: what the Sparsify says that makes it, seen through what leaves its lines as
 * they are; 0: nothing is known. */
static double present_in(const sp_value *v)
{
    const sp_value *from = v->producer && v->producer->n_in ? v->producer->in[0] : NULL;
    int64_t features;
    if (!from || !from->typed || !v->dims.rank || !from->dims.rank) return 0;
    const sp_expr *last = v->dims.dim[v->dims.rank - 1];
    if (SP_OP_AMONG(v->producer->op, SP_OP_Identity, SP_OP_Reshape, SP_OP_Unsqueeze, SP_OP_Squeeze) &&
        sp_expr_equal(last, from->dims.dim[from->dims.rank - 1]))
        return present_in(from);
    if (v->producer->op != SP_OP_Sparsify || !sp_expr_is_const(last, &features) || features < 1) return 0;
    const double expect = (double)sp_attr_float(&v->producer->attrs, "expect", 0);
    const int64_t keep = sp_attr_int(&v->producer->attrs, "keep", 0);
    return expect > 0 ? expect : keep > 0 && keep < features ? (double)keep / (double)features : 1;
}

double sp_implement_present(const sp_node *n)
{
    sparta_tensor w;
    const bool product =
        sp_implement_weight(n, &w) || (n->op == SP_OP_MatMul && n->in[0]->dtype == SPARTA_F32);
    return product ? present_in(n->in[0]) : 0;
}

static sparta_status look_at_weight(sparta_ctx *cx, const sparta_tensor *w, sp_task *t)
{
    t->n = w->dim[0], t->k = w->dim[1];
    t->mask = sp_zalloc(cx, sizeof *t->mask);
    SP_NEED(cx, t->mask);
    SP_TRY(sp_mask_of(cx, w, t->mask));
    SP_TRY(sp_mask_detect(cx, t->mask, 1.02, &t->pattern));
    if (sp_implement_few(t)) SP_TRY(sp_mask_fill(cx, t->mask, 16, 1, &t->strip16_fill));
    return sp_mask_fill(cx, t->mask, 4, 1, &t->strip_fill);
}

sparta_status sp_implement_task(sparta_ctx *cx, const sp_node *n, sp_target target, int64_t tokens,
                                sp_task *out)
{
    sparta_tensor w;
    sp_task t = {.node = n, .tokens = tokens, .strict = sp_ctx_strict(cx), .each = n->n_out == 1};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant) t.each = t.each && same_tokens(n, i);
    if (target != SP_TARGET_PORTABLE) SP_TRY(sp_implement_layouts(cx, n, &t.generated));
    t.each = t.each && !t.generated; /* a nest says all axes, and is timed with them */
    const bool weight = sp_implement_weight(n, &w);
    t.present = sp_implement_present(n);
    sparta_status s = weight ? look_at_weight(cx, &w, &t) : SPARTA_OK;
    if (weight && s == SPARTA_OK) s = sp_implement_users(cx, &w, &t);
    t.library = t.mask && sp_implement_library(target);
    if (s == SPARTA_OK)
        *out = t;
    else
        sp_implement_task_free(cx, &t);
    return s;
}

void sp_implement_task_free(sparta_ctx *cx, sp_task *t)
{
    if (t->mask) sp_mask_free(cx, t->mask);
    sp_free(cx, t->mask);
    t->mask = NULL;
}

/* ------------------------------------------------------------------ slots */

static const sp_slot anything = {.layouts = SP_IN(ROWS), .dtypes = ~0u};

const sp_slot *sp_implement_slot(const sp_implement *im, const sp_node *n, int i)
{
    return im->kernel ? sp_panel_slot(sp_panel_find(im->kernel), n->n_in, i) : &anything;
}

sp_layout sp_implement_layout(const sp_implement *im)
{
    return sp_slot_layout(im->kernel ? &sp_panel_find(im->kernel)->slots.out : &anything, SP_LAYOUTS);
}

sp_layout sp_implement_takes(const sp_implement *im, const sp_node *n, int i, sp_layout result)
{
    const sp_slot *slot = sp_implement_slot(im, n, i);
    if (!slot || (n->in[i] && n->in[i]->constant && slot->layouts & SP_IN(ROWS))) return SP_LAYOUT_ROWS;
    return sp_slot_layout(slot, result);
}

static bool fits(const sp_slot *s, const sp_value *v)
{
    if (!s || !v->typed || !(s->dtypes >> v->dtype & 1) || (s->constant && !v->constant)) return false;
    if (v->constant && s->layouts & SP_IN(ROWS)) return true;
    return !(s->layouts & SP_IN_LANES) || sp_implement_tokens(v);
}

bool sp_implement_matches(const sp_implement *im, const sp_task *t)
{
    const sp_node *n = t->node;
    const sp_panel_kernel *kernel = im->kernel ? sp_panel_find(im->kernel) : NULL;
    if (!kernel) return im->match(t);
    if (!sp_panel_takes(kernel, n->op) || n->n_in > SP_OPERANDS || n->n_out != 1) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !fits(sp_panel_slot(kernel, n->n_in, i), n->in[i])) return false;
    return fits(&kernel->slots.out, n->out[0]) && im->match(t);
}
