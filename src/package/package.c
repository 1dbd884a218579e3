/* Packages in memory: making, closing, asking for weights. */
#include "package/package.h"
#include <string.h>

sparta_status sparta_package_create(sparta_ctx *cx, sparta_package **out)
{
    sparta_package *p = sparta_zalloc(cx, sizeof *p);
    SPARTA_NEED(cx, p);
    p->cx = cx;
    p->arena = sparta_arena_create(cx);
    p->by_name = p->arena ? sparta_map_create(cx) : NULL;
    if (!p->by_name) {
        sparta_package_close(p);
        return sparta_ctx_status(cx);
    }
    *out = p;
    return SPARTA_OK;
}

void sparta_package_close(sparta_package *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_weights; i++)
        if (p->weight[i].owned) sparta_packed_free(p->cx, &p->weight[i].pack);
    if (p->owner.object)
        p->owner.release(p->owner.object); /* the plan is part of it */
    else
        sparta_graph_free(p->plan);
    sparta_map_free(p->by_name);
    sparta_map_close(&p->file);
    sparta_arena_free(p->arena);
    sparta_free(p->cx, p);
}

sparta_status sparta_package_unchanged(sparta_ctx *cx, const sparta_package *p)
{
    if (p->path) SPARTA_TRY(sparta_map_check(cx, &p->file, p->path));
    return p->owner.check ? p->owner.check(cx, p->owner.object) : SPARTA_OK;
}

const sparta_weight *sparta_package_weight(const sparta_package *p, const char *name)
{
    int64_t i;
    return sparta_map_get(p->by_name, name, &i) ? &p->weight[i] : NULL;
}

sparta_status sparta_package_fetch(sparta_arena *arena, const sparta_weight *w, sparta_tensor *out)
{
    if (!w->packed) {
        *out = w->tensor;
        return SPARTA_OK;
    }
    const sparta_packed *p = &w->pack;
    const int64_t dim[2] = {p->dim[w->swapped], p->dim[!w->swapped]};
    sparta_tensor t;
    SPARTA_TRY(sparta_tensor_alloc_in(arena, p->dtype, 2, dim, &t));
    sparta_tensor as_packed = t;
    if (w->swapped) {
        as_packed.dim[0] = t.dim[1], as_packed.dim[1] = t.dim[0];
        as_packed.stride[0] = t.stride[1], as_packed.stride[1] = t.stride[0];
    }
    SPARTA_TRY(sparta_format_unpack(sparta_arena_ctx(arena), p, &as_packed));
    *out = t;
    return SPARTA_OK;
}

const char *sparta_package_note(const sparta_package *p)
{
    return p->note ? p->note : "";
}

int sparta_package_inputs(const sparta_package *p)
{
    return p->plan->n_inputs;
}
int sparta_package_outputs(const sparta_package *p)
{
    return p->plan->n_outputs;
}
const char *sparta_package_input_name(const sparta_package *p, int i)
{
    return i >= 0 && i < p->plan->n_inputs ? p->plan->input[i]->name : NULL;
}
const char *sparta_package_output_name(const sparta_package *p, int i)
{
    return i >= 0 && i < p->plan->n_outputs ? p->plan->output[i]->name : NULL;
}

void sparta_package_input_type(const sparta_package *p, int i, sparta_tensor *out)
{
    *out = (sparta_tensor){.rank = -1};
    if (i < 0 || i >= p->plan->n_inputs) return;
    const sparta_value *v = p->plan->input[i];
    *out = (sparta_tensor){.dtype = v->dtype, .rank = v->dims.rank};
    for (int d = 0; d < v->dims.rank; d++)
        if (!sparta_expr_is_const(v->dims.dim[d], &out->dim[d])) out->dim[d] = -1;
}

int sparta_package_targets(const sparta_package *p, sparta_package_target out[SPARTA_TARGETS])
{
    sparta_package_target all[SPARTA_TARGETS] = {{0}};
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++)
        for (int c = 0; c < p->kernel[k].n_code; c++) {
            sparta_package_target *t = &all[p->kernel[k].code[c].target];
            t->kernels++;
            t->unchecked |= p->kernel[k].code[c].unchecked;
        }
    for (int t = 0; t < SPARTA_TARGETS; t++) {
        if (!all[t].kernels) continue;
        out[n] = all[t];
        out[n++].target = (sparta_target)t;
    }
    return n;
}
