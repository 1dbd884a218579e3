/* The table of panel kernels and their embedded texts. */
#include "panel/panel.h"
#include <string.h>

/* The very files that the portable kernels are compiled from; make runs at the root of the tree. */
#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".hidden sparta_text_" symbol "\n.hidden sparta_text_end_" symbol "\n"                           \
            ".global sparta_text_" symbol "\n.global sparta_text_end_" symbol "\n"                           \
            "sparta_text_" symbol ":\n.incbin \"src/panel/" file "\"\n"                                      \
            "sparta_text_end_" symbol ":\n.byte 0\n.popsection\n");
EMBED("abi", "abi.h")
EMBED("vector", "vector.h")
#define SPARTA_PANEL_KERNEL(name) EMBED(#name, "kernel_" #name ".h")
#include "panel/panel.def"
#undef SPARTA_PANEL_KERNEL

extern const char sparta_text_abi[], sparta_text_end_abi[], sparta_text_vector[], sparta_text_end_vector[];
#define SPARTA_PANEL_KERNEL(name) extern const char sparta_text_##name[], sparta_text_end_##name[];
#include "panel/panel.def"
#undef SPARTA_PANEL_KERNEL

static const struct {
    const sparta_panel_kernel *kernel;
    const char *text, *end;
} table[] = {
#define SPARTA_PANEL_KERNEL(name) {&sparta_panel_##name, sparta_text_##name, sparta_text_end_##name},
#include "panel/panel.def"
#undef SPARTA_PANEL_KERNEL
};

const sparta_panel_kernel *sparta_panel_find(const char *name)
{
    for (size_t i = 0; i < SPARTA_COUNT(table); i++)
        if (!strcmp(table[i].kernel->name, name)) return table[i].kernel;
    return NULL;
}

sparta_status sparta_panel_text(const char *name, sparta_text *out)
{
    for (size_t i = 0; i < SPARTA_COUNT(table); i++)
        if (!strcmp(table[i].kernel->name, name)) {
            sparta_text_put(out, sparta_text_abi, (size_t)(sparta_text_end_abi - sparta_text_abi));
            sparta_text_put(out, sparta_text_vector, (size_t)(sparta_text_end_vector - sparta_text_vector));
            sparta_text_put(out, table[i].text, (size_t)(table[i].end - table[i].text));
            return out->status;
        }
    return sparta_fail(out->cx, SPARTA_E_INTERNAL, "panel: there is no kernel '%s'", name);
}

int sparta_act_parse(const char *name)
{
    static const char *const names[] = {"", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid"};
    for (int i = 0; i < (int)SPARTA_COUNT(names); i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}
