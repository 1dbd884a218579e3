/* Functions of callers by name (functions.h): a list in a slot of the context. */
#include "builtin/functions.h"
#include <string.h>

enum { MOST = 64, NAME = 64 };

struct sp_line_function {
    char name[NAME];
    int (*keep)(void *user, const float *line, int64_t n, uint8_t *keep);
    void *user;
};

typedef struct functions { /* of a context: SP_SLOT_FUNCTIONS */
    int n;
    sp_line_function function[MOST];
} functions;

static const sp_line_function *find(const functions *all, const char *name)
{
    for (int i = 0; all && i < all->n; i++)
        if (!strcmp(all->function[i].name, name)) return &all->function[i];
    return NULL;
}

sparta_status sp_line_function_find(sparta_ctx *cx, const char *name, const sp_line_function **out)
{
    *out = find(sp_ctx_slot(cx, SP_SLOT_FUNCTIONS), name);
    if (*out) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE,
                   "Sparsify: there is no function '%.60s' with this context; register it "
                   "(sparta_line_function_register) before the model runs",
                   name);
}

sparta_status sp_line_function_call(sparta_ctx *cx, const sp_line_function *f, const float *line, int64_t n,
                                    uint8_t *keep)
{
    const int failed = f->keep(f->user, line, n, keep);
    return failed ? sp_fail(cx, SPARTA_E_USAGE, "Sparsify: function '%s' failed (%d)", f->name, failed)
                  : SPARTA_OK;
}

sparta_status sparta_line_function_register(sparta_ctx *cx, const sparta_line_function *function)
{
    sparta_line_function f;
    functions *all = sp_ctx_slot(cx, SP_SLOT_FUNCTIONS);
    SP_TRY(sp_options(cx, "line function", function, &f, sizeof f));
    if (!f.name || !*f.name || strlen(f.name) >= NAME || !f.keep)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "line function: give a name of at most %d characters and a function", NAME - 1);
    if (find(all, f.name))
        return sp_fail(cx, SPARTA_E_USAGE, "line function: there is a '%s' already; take another name",
                       f.name);
    if (all && all->n == MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "line function: a context has %d of them at most", MOST);
    all = sp_ctx_make_slot(cx, SP_SLOT_FUNCTIONS, sizeof *all, sp_free);
    SP_NEED(cx, all);
    sp_line_function *to = &all->function[all->n++];
    memcpy(to->name, f.name, strlen(f.name) + 1);
    to->keep = f.keep, to->user = f.user;
    return SPARTA_OK;
}
