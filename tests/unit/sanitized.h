/* sanitized.h: generated code under the sanitizers that the test itself is built with (BUILD=asan). Contexts get a compiler that adds them: a script in the
 * folder of the test. Kernels are linked with nothing, so they find the sanitizers of the process: gcc's are shared libraries, clang's are not, and tsan would
 * want to know all threads from the start. */
#ifndef SP_TESTS_SANITIZED_H
#define SP_TESTS_SANITIZED_H

#include "bed.h"
#include <sys/stat.h>

#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* After make_root. A context with a cache of its own; NULL where it cannot be made. -O1: the code is the same, and the compiler takes a third of the time. */
HELPER sparta_ctx *sanitizing_context(const char *cache_dir)
{
    const char *path = in_root("cc-sanitizing");
    FILE *f = fopen(path, "w");
    if (!f) return NULL;
    fprintf(
        f,
        "#!/bin/sh\nexec /usr/bin/gcc \"$@\" -O1 -fsanitize=address,undefined -fno-sanitize-recover=all\n");
    if (fclose(f) || chmod(path, 0755)) return NULL;
    return context(cache_dir, path);
}

#endif
