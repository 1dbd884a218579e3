/* The table of panel kernels and their embedded texts. */
#include "panel/common.h"
#include <string.h>

/* The very files that the portable kernels are compiled from; make runs at the root of the tree. */
#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".hidden sp_text_" symbol "\n.hidden sp_text_end_" symbol "\n"                                   \
            ".global sp_text_" symbol "\n.global sp_text_end_" symbol "\n"                                   \
            "sp_text_" symbol ":\n.incbin \"src/panel/" file "\"\n"                                          \
            "sp_text_end_" symbol ":\n.byte 0\n.popsection\n");
EMBED("abi", "abi.h")
EMBED("nest_abi", "../kernel/abi.h")
EMBED("vector", "vector.h")
EMBED("epilogue", "epilogue.h")
#define SP_PANEL_KERNEL(name) EMBED(#name, "kernel_" #name ".h")
#define SP_PANEL_SPECIAL      SP_PANEL_KERNEL
#define SP_PANEL_NEST(name)   /* has no template */
#define SP_PANEL_TWIN(name, other)
#include "panel/panel.def"
#undef SP_PANEL_KERNEL

extern const char sp_text_abi[], sp_text_end_abi[], sp_text_nest_abi[], sp_text_end_nest_abi[],
    sp_text_vector[], sp_text_end_vector[], sp_text_epilogue[], sp_text_end_epilogue[];
#define SP_PANEL_KERNEL(name) extern const char sp_text_##name[], sp_text_end_##name[];
#include "panel/panel.def"
#undef SP_PANEL_KERNEL
#undef SP_PANEL_NEST
#undef SP_PANEL_TWIN

static const struct {
    const sp_panel_kernel *kernel;
    const char *text, *end;
} table[] = {
#define SP_PANEL_KERNEL(name)      {&sp_panel_##name, sp_text_##name, sp_text_end_##name},
#define SP_PANEL_NEST(name)        {&sp_panel_##name, NULL, NULL},
#define SP_PANEL_TWIN(name, other) {&sp_panel_##name, sp_text_##other, sp_text_end_##other},
#include "panel/panel.def"
#undef SP_PANEL_KERNEL
#undef SP_PANEL_NEST
#undef SP_PANEL_SPECIAL
#undef SP_PANEL_TWIN
};

const sp_slot *sp_panel_slot(const sp_panel_kernel *k, int n, int i)
{
    const sp_slots *s = &k->slots;
    const int tail = s->n - s->recur; /* of the last operands, where the others recur */
    if (s->recur) return i >= n - tail ? &s->in[s->n - (n - i)] : &s->in[i % s->recur];
    return i < s->n ? &s->in[i] : NULL;
}

sp_layout sp_slot_layout(const sp_slot *slot, sp_layout result)
{
    return slot->layouts >> result & 1 ? result : (sp_layout)__builtin_ctz(slot->layouts);
}

/* Input i, or result -1 - i, against its slot. */
static sparta_status fits(sparta_ctx *cx, const sp_panel_kernel *k, const sp_job *job, int i)
{
    static const sp_operand absent = {.layout = SP_LAYOUT_ABSENT};
    const sp_slot *slot = i < 0 ? &k->slots.out : sp_panel_slot(k, job->n_in, i);
    const sp_operand *o = i < 0 ? &job->out[-1 - i] : i < job->n_in ? &job->in[i] : &absent;
    char what[32];
    sp_panel_what(i, what);
    if (o->layout == SP_LAYOUT_ABSENT) {
        if (!slot || slot->maybe) return SPARTA_OK;
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: %s is missing for kernel '%s'", job->node->name, what,
                       k->name);
    }
    if (slot && slot->constant && o->layout == SP_LAYOUT_ROWS && !o->tensor.data)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: %s must be a constant for kernel '%s'", job->node->name,
                       what, k->name);
    if (slot && o->tensor.device != slot->device)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s: %s is on device %d, kernel '%s' runs on device %d",
                       job->node->name, what, o->tensor.device, k->name, slot->device);
    if (slot && slot->layouts >> o->layout & 1 && slot->dtypes >> o->tensor.dtype & 1) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "%s: %s is %s in layout %s, which kernel '%s' does not take",
                   job->node->name, what, sparta_dtype_name(o->tensor.dtype), sp_layout_name(o->layout),
                   k->name);
}

sparta_status sp_panel_prepare(sparta_ctx *cx, sp_arena *arena, const sp_panel_kernel *k, sp_job *job)
{
    const int last = k->slots.recur ? job->n_in : SP_MAX(job->n_in, k->slots.n);
    if (job->n_out != 1 && !(k->generated && job->n_out))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: kernel '%s' has one output, not %d", job->node->name,
                       k->name, job->n_out);
    for (int i = -job->n_out; i < last; i++) SP_TRY(fits(cx, k, job, i));
    if (job->stat && job->out[0].layout == SP_LAYOUT_ROWS)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: results in rows have no statistics", job->node->name);
    return k->prepare ? k->prepare(cx, arena, job) : SPARTA_OK;
}

const sp_panel_kernel *sp_panel_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].kernel->name, name)) return table[i].kernel;
    return NULL;
}

uint64_t sp_panel_abi(void)
{
    const uint64_t templates = sp_hash(sp_text_abi, (size_t)(sp_text_end_abi - sp_text_abi), 0);
    return sp_hash(sp_text_nest_abi, (size_t)(sp_text_end_nest_abi - sp_text_nest_abi), templates);
}

sparta_status sp_panel_head(sp_text *out)
{
    sp_text_put(out, sp_text_abi, (size_t)(sp_text_end_abi - sp_text_abi));
    sp_text_put(out, sp_text_vector, (size_t)(sp_text_end_vector - sp_text_vector));
    sp_text_put(out, sp_text_epilogue, (size_t)(sp_text_end_epilogue - sp_text_epilogue));
    return out->status;
}

sparta_status sp_panel_text(const char *name, sp_text *out)
{
    SP_TRY(sp_panel_head(out));
    return sp_panel_body(name, out);
}

sparta_status sp_panel_body(const char *name, sp_text *out)
{
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].kernel->name, name) && table[i].text) {
            sp_text_put(out, table[i].text, (size_t)(table[i].end - table[i].text));
            return out->status;
        }
    return sp_fail(out->cx, SPARTA_E_INTERNAL, "panel: there is no template of kernel '%s'", name);
}
