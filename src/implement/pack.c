/* pack: rows into panels, where a kernel on panels reads what lies in rows. Compile puts it there (compile/layout.c); it takes nothing of its own accord. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    return t->conversion;
}

const sp_implement sp_implement_pack = {.name = "pack", .kernel = "pack", .match = match};
