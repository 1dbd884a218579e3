/* Packages in memory: making, closing, asking for weights. */
#include "package/disk.h"
#include <string.h>

sparta_status sp_package_create(sparta_ctx *cx, sparta_package **out)
{
    sparta_package *p = sp_zalloc(cx, sizeof *p);
    SP_NEED(cx, p);
    p->cx = cx;
    p->arena = sp_arena_create(cx);
    p->by_name = p->arena ? sp_map_create(cx) : NULL;
    if (!p->by_name) {
        sparta_package_close(p);
        return sp_ctx_status(cx);
    }
    *out = p;
    return SPARTA_OK;
}

void sparta_package_close(sparta_package *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_weights; i++) {
        if (p->weight[i].owned) sp_packed_free(p->cx, &p->weight[i].pack);
        sp_unverified_free(p->weight[i].indices);
    }
    sp_index_rooms_free(p);
    sp_graph_free(p->plan);
    for (int i = 0; i < p->n_others; i++) sp_graph_free(p->other[i].plan);
    if (p->owner.object) p->owner.release(p->owner.object); /* the plan borrows from it */
    sp_map_free(p->by_name);
    if (!p->borrowed) sp_mapped_close(&p->file);
    sp_arena_free(p->arena);
    sp_free(p->cx, p);
}

sparta_status sp_package_unchanged(sparta_ctx *cx, const sparta_package *p)
{
    if (p->path) SP_TRY(sp_mapped_check(cx, &p->file, p->path));
    return p->owner.check ? p->owner.check(cx, p->owner.object) : SPARTA_OK;
}

const sp_weight *sp_package_weight(const sparta_package *p, const char *name)
{
    int64_t i;
    return sp_map_get(p->by_name, name, &i) ? &p->weight[i] : NULL;
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

static void type_of(sp_value *const *list, int n, int i, sparta_tensor *out)
{
    *out = (sparta_tensor){.rank = -1};
    if (i < 0 || i >= n) return;
    const sp_value *v = list[i];
    *out = (sparta_tensor){.dtype = v->dtype, .rank = v->dims.rank};
    for (int d = 0; d < v->dims.rank; d++)
        if (!sp_expr_is_const(v->dims.dim[d], &out->dim[d])) out->dim[d] = -1;
}

void sparta_package_input_type(const sparta_package *p, int i, sparta_tensor *out)
{
    type_of(p->plan->input, p->plan->n_inputs, i, out);
}
void sparta_package_output_type(const sparta_package *p, int i, sparta_tensor *out)
{
    type_of(p->plan->output, p->plan->n_outputs, i, out);
}

int sp_package_targets(const sparta_package *p, sp_package_target out[SP_TARGETS])
{
    sp_package_target all[SP_TARGETS] = {{0}};
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++)
        for (int c = 0; c < p->kernel[k].n_code; c++) {
            sp_package_target *t = &all[p->kernel[k].code[c].target];
            t->kernels++;
            t->unchecked |= p->kernel[k].code[c].unchecked;
        }
    for (int t = 0; t < SP_TARGETS; t++) {
        if (!all[t].kernels) continue;
        out[n] = all[t];
        out[n++].target = (sp_target)t;
    }
    return n;
}
