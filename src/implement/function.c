/* user_function: a Linear whose sums are computed by a function that a user registered with the context (panel/called.h).
 *
 * As the kernels of row user, functions are points of one row, FUNCTION=0, FUNCTION=1, ..., that compete on the bed and are checked there. The code that is
 * compiled ends the sums and calls whatever function a job names, so that all of them share it; the package keeps the name. Nothing tells whether
 * the function is still the one that was timed: times are not remembered. */
#include "implement/generated.h"
#include "implement/linear.h"
#include "panel/called.h"
#include <string.h>

sparta_status sp_implement_functions(sparta_ctx *cx, const sparta_tensor *w, sp_task *t)
{
    t->function = sp_called_of(cx);
    for (int i = 0; t->function && i < t->function->n; i++) {
        const sp_called_function *f = &t->function->function[i];
        bool fit =
            !f->when || f->when(f->user, t->n, t->k, t->tokens, sp_linear_present(t) / sp_linear_all(t));
        int text;
        if (sp_implement_find(f->name) || sp_implement_user_find(cx, f->name, &text) == &sp_implement_user)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "kernel %s: a kernel of ours has that name, or a C text; take another", f->name);
        if (fit) SP_TRY(sp_implement_storable(cx, f->text, w, t->mask, &fit));
        if (fit) t->functions |= 1u << i;
    }
    return SPARTA_OK;
}

static int place(const sp_task *t)
{
    return sp_implement_place(t, "FUNCTION", t->functions);
}

static bool allowed(const sp_task *t)
{
    return t->functions >> place(t) & 1;
}

static bool match(const sp_task *t)
{
    return t->functions && allowed(t) && !t->strict && sp_linear_match(t);
}

const char *sp_implement_function_name(const sp_implement *im, const sp_task *t)
{
    const bool there = im == &sp_implement_user_function && t->function && place(t) < t->function->n;
    return there ? t->function->function[place(t)].name : NULL;
}

const char *sp_implement_function_format(const sp_task *t)
{
    return t->function && place(t) < t->function->n ? t->function->function[place(t)].text : "csr";
}

static void parameters(const sp_implement *im, const sp_task *t, sp_text *out)
{
    (void)im;
    sp_linear_epilogue(t, out);
}

static const int places[SP_CALLED_MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
static const sp_knob knobs[] = {{"FUNCTION", SP_CALLED_MOST, places, NULL}};
static const sp_space space = {SP_COUNT(knobs), knobs, allowed};

const sp_implement sp_implement_user_function = {.name = "user_function",
                                                 .sparse = true,
                                                 .kernel = "called",
                                                 .match = match,
                                                 .cost = sp_implement_user_cost,
                                                 .parameters = parameters,
                                                 .format = "$FUNCTION",
                                                 .fleeting = true,
                                                 .space = &space};
