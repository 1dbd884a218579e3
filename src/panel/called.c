/* called: y = w x and its epilogue, the sums by a function that the caller registered under the name that job->text has. in: x, w (packed), bias?, residual?
 *
 * It trusts its arrays as generated code does, so they are followed once before (sp_panel_leaves), and the weight is in the very format that it was
 * registered for: a package that says otherwise reaches no function. A panel is shared out among threads by its vectors of tokens. */
#include "format/walk.h"
#include "panel/called.h"
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_called.h"
#include <ctype.h>
#include <string.h>

_Static_assert(SP_COUNT(((sparta_product_part *)0)->pos) == SP_LEVELS, "sparta.h has room for every level");

/* ------------------------------------------------------------------ registering */
const sp_called_functions *sp_called_of(const sparta_ctx *cx)
{
    return sp_ctx_slot(cx, SP_SLOT_CALLED);
}

int sp_called_place(const sparta_ctx *cx, const char *name)
{
    const sp_called_functions *all = sp_called_of(cx);
    for (int i = 0; all && i < all->n; i++)
        if (!strcmp(all->function[i].name, name)) return i;
    return -1;
}

bool sp_called_is_name(const char *p)
{
    const size_t n = p ? strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
    return n && n < SP_CALLED_NAME && !p[n] && !isdigit((unsigned char)*p);
}

static void forget(sparta_ctx *cx, void *thing)
{
    sp_called_functions *all = thing;
    for (int i = 0; i < all->n; i++) sp_free(cx, all->function[i].text);
    sp_free(cx, all);
}

static sparta_status check(sparta_ctx *cx, const sparta_kernel_function *f, sp_format *format)
{
    if (!sp_called_is_name(f->name))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "kernel: its name is \"%.40s\"; give letters, digits and _, at most %d",
                       f->name ? f->name : "", SP_CALLED_NAME - 1);
    if (!f->product || !f->format)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: give its %s", f->name,
                       f->product ? "format" : "function");
    if (sp_format_parse(cx, f->format, format)) return sp_fail_in(cx, "kernel %s", f->name);
    if (format->opaque || (!format->sum && format->rank != 2))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "kernel %s: %.100s is no format of levels of a matrix",
                       f->name, f->format);
    if (sp_called_place(cx, f->name) >= 0)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: there is one of that name", f->name);
    return SPARTA_OK;
}

sparta_status sparta_kernel_function_register(sparta_ctx *cx, const sparta_kernel_function *function)
{
    sparta_kernel_function f;
    sp_format format;
    sp_called_functions *all = sp_ctx_slot(cx, SP_SLOT_CALLED);
    SP_TRY(sp_options(cx, "kernel function", function, &f, sizeof f));
    SP_TRY(check(cx, &f, &format));
    if (all && all->n == SP_CALLED_MOST)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: a context has %d of them at most", f.name,
                       SP_CALLED_MOST);
    all = sp_ctx_make_slot(cx, SP_SLOT_CALLED, sizeof *all, forget);
    SP_NEED(cx, all);
    sp_called_function *to = &all->function[all->n];
    to->text = sp_alloc(cx, strlen(f.format) + 1);
    SP_NEED(cx, to->text);
    memcpy(to->text, f.format, strlen(f.format) + 1);
    to->format = format;
    memcpy(to->name, f.name, strlen(f.name) + 1);
    to->product = f.product, to->when = f.when, to->user = f.user;
    all->n++;
    return SPARTA_OK;
}

bool sp_called_takes(const sparta_ctx *cx, const char *name, const sp_format *format)
{
    const int place = name ? sp_called_place(cx, name) : -1;
    return place >= 0 && sp_format_equal(&sp_called_of(cx)->function[place].format, format);
}

/* ------------------------------------------------------------------ the kernel */
struct sp_called {
    const sp_called_function *function;
    long n, k;
    const sparta_product_part *part;
};

static void sums(const struct sp_called *what, const float *x, float *y, long tokens)
{
    what->function->product(what->function->user,
                            &(sparta_product){x, y, what->n, what->k, tokens, what->part});
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    if (!sp_called_takes(cx, job->text, &w->format))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "%s: there is no function '%.40s' for such weights with this context; register it "
                       "(sparta_kernel_function_register) first",
                       job->node->name, job->text ? job->text : "");
    SP_TRY(sp_panel_leaves(cx, arena, job));
    struct sp_called *c = sp_arena_array(arena, 1, sizeof *c);
    sparta_product_part *part = sp_arena_array(arena, (size_t)sp_packed_leaves(w), sizeof *part);
    if (!c || !part) return sp_ctx_status(cx);
    for (int i = 0; i < sp_packed_leaves(w); i++) {
        const struct sp_stored_leaf *leaf = &job->stored[i];
        part[i].w = leaf->w;
        for (int l = 0; l < SP_LEVELS; l++)
            part[i].pos[l] = leaf->pos[l], part[i].crd[l] = leaf->crd[l], part[i].size[l] = leaf->size[l];
    }
    *c = (struct sp_called){&sp_called_of(cx)->function[sp_called_place(cx, job->text)], (long)w->dim[0],
                            (long)w->dim[1], part};
    job->called = c;
    return sp_panel_end_prepare(cx, arena, job);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_called_args *a = &out->called;
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->sums = sums;
    a->what = job->called;
    a->n = job->called->n;
    return sp_panel_share_vectors(job, at, &a->vector0, &a->vectors);
}

const sp_panel_kernel sp_panel_called = {.name = "called",
                                         .portable = sp_kernel_called,
                                         .op = SP_OP_Linear,
                                         .prepare = prepare,
                                         .check = sp_panel_product_check,
                                         .fill = fill,
                                         .slots = SP_PRODUCT_SLOTS};
