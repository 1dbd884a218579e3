/* The table of models, and building one of them. */
#include "zoo/build.h"
#include <string.h>

static const sparta_zoo_model models[] = {
#define SPARTA_ZOO(id, name, parameters, what) {name, what, sparta_zoo_##id, parameters},
#include "zoo/zoo.def"
#undef SPARTA_ZOO
};
enum { MODELS = (int)SPARTA_COUNT(models) };

int sparta_zoo_count(void)
{
    return MODELS;
}

const sparta_zoo_model *sparta_zoo_row(int i)
{
    return i >= 0 && i < MODELS ? &models[i] : NULL;
}

static const sparta_zoo_model *find(const char *name)
{
    for (int i = 0; i < MODELS; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

static sparta_status unknown(sparta_ctx *cx, const char *name)
{
    const char *names[MODELS];
    for (int i = 0; i < MODELS; i++) names[i] = models[i].name;
    const char *near = sparta_nearest(name, names, MODELS);
    if (near)
        return sparta_fail(cx, SPARTA_E_USAGE, "zoo: there is no model \"%s\"; did you mean %s?", name, near);
    return sparta_fail(cx, SPARTA_E_USAGE, "zoo: there is no model \"%s\"; `sparta zoo` lists them", name);
}

sparta_status sparta_zoo_build(sparta_ctx *cx, const sparta_zoo_request *r, sparta_graph **out)
{
    const sparta_zoo_model *model = find(r->name);
    if (!model) return unknown(cx, r->name);
    sparta_graph *g;
    SPARTA_TRY(sparta_graph_create(cx, model->name, &g));
    sparta_status status = model->build(g, r);
    if (!status) status = sparta_graph_verify(g);
    if (status) {
        sparta_graph_free(g);
        return status;
    }
    *out = g;
    return SPARTA_OK;
}
