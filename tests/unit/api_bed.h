/* What the tests of the C interface share: they see sparta.h and nothing else of the library, as a program outside does. */
#ifndef TESTS_API_BED_H
#define TESTS_API_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELPER static inline __attribute__((unused))
#define MLP    "tests/fixtures/mlp-script-4x1.onnx"

static char root[64];
static sparta_ctx *cx;

/* A path in the test's own folder; one of a few buffers that are used in turn. */
HELPER const char *in_root(const char *name)
{
    static char path[16][160];
    static int turn;
    char *p = path[turn++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

HELPER int enter(void **state)
{
    (void)state;
    unsetenv("SPARTA_TARGET");
    snprintf(root, sizeof root, "/tmp/sparta-api-XXXXXX");
    if (!mkdtemp(root)) return -1;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = in_root("cache");
    cx = sparta_ctx_create(&o);
    return cx ? 0 : -1;
}

HELPER int leave(void **state)
{
    char command[128];
    (void)state;
    sparta_ctx_free(cx);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

HELPER void ok(sparta_status status)
{
    if (status != SPARTA_OK) fail_msg("%s", sparta_message(cx));
}

/* The status that is wanted, with these words in its message. */
HELPER void refused(sparta_status status, sparta_status wanted, const char *words)
{
    if (status != wanted)
        fail_msg("%s instead of %s: %s", sparta_status_name(status), sparta_status_name(wanted),
                 sparta_message(cx));
    if (!strstr(sparta_message(cx), words)) fail_msg("'%s' does not say '%s'", sparta_message(cx), words);
}

/* Quick: chosen by the cost model. */
HELPER sparta_compile_options quick(void)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.no_measure = 1;
    return o;
}

/* The small perceptron, compiled and opened: input x (batch, 24) f32, output (batch, 7). */
HELPER sparta_package *mlp(void)
{
    sparta_package *p = NULL;
    const sparta_compile_options o = quick();
    ok(sparta_compile(cx, MLP, in_root("mlp.sparta"), &o));
    ok(sparta_package_open(cx, in_root("mlp.sparta"), &p));
    return p;
}

enum { MLP_IN = 24, MLP_OUT = 7 };
/* Its input at a batch, in memory that the next call uses again. */
HELPER sparta_named_tensor mlp_input(const sparta_package *p, int64_t batch)
{
    static float data[64 * MLP_IN];
    const int64_t dim[2] = {batch, MLP_IN};
    for (int i = 0; i < 64 * MLP_IN; i++) data[i] = (float)(i * 7 % 23) / 11 - 1;
    return (sparta_named_tensor){sparta_package_input_name(p, 0),
                                 sparta_tensor_view(SPARTA_F32, 2, dim, data)};
}

#endif
