/* The table of models, and building one of them. */
#include "zoo/build.h"
#include <string.h>

static const sp_zoo_model models[] = {
#define SP_ZOO(id, name, parameters, what) {name, what, sp_zoo_##id, parameters},
#include "zoo/zoo.def"
#undef SP_ZOO
};
enum { MODELS = (int)SP_COUNT(models) };

int sp_zoo_count(void)
{
    return MODELS;
}

const sp_zoo_model *sp_zoo_row(int i)
{
    return i >= 0 && i < MODELS ? &models[i] : NULL;
}

static const sp_zoo_model *find(const char *name)
{
    for (int i = 0; i < MODELS; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

static sparta_status unknown(sparta_ctx *cx, const char *name)
{
    const char *names[MODELS];
    for (int i = 0; i < MODELS; i++) names[i] = models[i].name;
    const char *near = sp_nearest(name, names, MODELS);
    if (near)
        return sp_fail(cx, SPARTA_E_USAGE, "zoo: there is no model \"%s\"; did you mean %s?", name, near);
    return sp_fail(cx, SPARTA_E_USAGE, "zoo: there is no model \"%s\"; `sparta zoo` lists them", name);
}

sparta_status sp_zoo_build(sparta_ctx *cx, const sp_zoo_request *r, sp_graph **out)
{
    const sp_zoo_model *model = find(r->name);
    if (!model) return unknown(cx, r->name);
    sp_graph *g;
    SP_TRY(sp_graph_create(cx, model->name, &g));
    sparta_status status = model->build(g, r);
    if (!status) status = sp_graph_verify(g);
    if (status) {
        sp_graph_free(g);
        return status;
    }
    *out = g;
    return SPARTA_OK;
}
