/* unpack: panels into rows, where somebody reads rows of what lies in panels. Compile puts it there (compile/layout.c); it takes nothing of its own accord. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    return t->conversion;
}

const sp_implement sp_implement_unpack = {.name = "unpack", .kernel = "unpack", .match = match};
