/* bed.h: what unit tests stand on. A group, or each test, has a context that must end empty, and if it asks for one a folder that goes with all
 * that is in it:
 *
 *     cmocka_run_group_tests(tests, set_up, tear_down)                      cx
 *     cmocka_run_group_tests(tests, set_up_folder, tear_down_folder)        cx, root, in_root("model.onnx")
 *
 *     ok(call)                the call succeeds, else its message is shown
 *     fails(status, call)     it fails with this status
 *     says(words)             the message of the last failure has these words; fails_saying(status, words, call) is both
 */
#ifndef SP_TESTS_BED_H
#define SP_TESTS_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"

#define HELPER static inline __attribute__((unused))

static sparta_ctx *cx __attribute__((unused));

/* ------------------------------------------------------------------ the context */
HELPER sparta_ctx *context(const char *cache_dir, const char *compiler)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = cache_dir;
    o.compiler = compiler;
    sparta_ctx *made = sparta_ctx_create(&o);
    assert_non_null(made);
    return made;
}

HELPER int set_up(void **state)
{
    (void)state;
    cx = sparta_ctx_create(NULL);
    return cx ? 0 : -1;
}

/* Strict: a dense source keeps its -0.0, and a zero times an unknown is not zero. */
HELPER int set_up_strict(void **state)
{
    (void)state;
    cx = sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .strict = 1});
    return cx ? 0 : -1;
}

/* A leak fails the group. Sums of formats that were parsed and kernels of users live as long as the context. */
HELPER int tear_down(void **state)
{
    (void)state;
    const bool keeps = sp_ctx_slot(cx, SP_SLOT_FORMATS) || sp_ctx_slot(cx, SP_SLOT_KERNELS);
    const size_t held = keeps ? 0 : sp_ctx_memory(cx);
    if (held) fprintf(stderr, "%zu bytes were not given back\n", held);
    sparta_ctx_free(cx);
    return held ? -1 : 0;
}

/* ------------------------------------------------------------------ a folder */
static char root[64] __attribute__((unused));

HELPER int make_root(void)
{
    snprintf(root, sizeof root, "/tmp/sparta-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

HELPER int remove_root(void)
{
    char command[256];
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", root, root);
    return system(command);
}

/* A path in the folder; one of a few buffers that are used in turn. */
HELPER const char *in_root(const char *name)
{
    static char path[64][192];
    static int turn;
    char *p = path[turn++ % 64];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

HELPER int set_up_folder(void **state)
{
    return make_root() || set_up(state);
}

HELPER int tear_down_folder(void **state)
{
    const int held = tear_down(state);
    return remove_root() || held;
}

/* ------------------------------------------------------------------ calls */
#define ok(call)            expect(cx, SPARTA_OK, (call), #call, __FILE__, __LINE__)
#define ok_in(ctx, call)    expect((ctx), SPARTA_OK, (call), #call, __FILE__, __LINE__)
#define fails(status, call) expect(cx, (status), (call), #call, __FILE__, __LINE__)
HELPER void expect(const sparta_ctx *c, sparta_status want, sparta_status got, const char *what,
                   const char *file, int line)
{
    if (want == got) return;
    fprintf(stderr, "%s: %s, expected %s: %s\n", what, sparta_status_name(got), sparta_status_name(want),
            got ? sparta_message(c) : "");
    _assert_int_equal((uintmax_t)got, (uintmax_t)want, file, line);
}

#define fails_saying(status, words, call)                                                                    \
    do {                                                                                                     \
        fails(status, call);                                                                                 \
        says(words);                                                                                         \
    } while (0)
#define says(words) mentions(sparta_message(cx), words, __FILE__, __LINE__)
HELPER void mentions(const char *text, const char *words, const char *file, int line)
{
    if (!*words || strstr(text, words)) return;
    fprintf(stderr, "'%s' is not in '%s'\n", words, text);
    _fail(file, line);
}

#endif
