/* What tests of generated code share, whichever room writes it. */
#ifndef CODE_BED_H
#define CODE_BED_H

#include "sanitized.h"

/* Before and after a test: a context `cx` with a folder and a cache of its own. Where the test is built with sanitizers, so are its kernels. */
HELPER int enter(void **state)
{
    if (make_root()) return -1;
    if (!SANITIZED) return set_up(state);
    cx = sanitizing_context(in_root("cache"));
    return cx ? 0 : -1;
}
HELPER int leave(void **state)
{
    return tear_down_folder(state);
}

HELPER void must(sparta_status s, const char *what)
{
    if (s) fail_msg("%s: %s", what, sparta_message(cx));
}

#endif
