/* A folder, a cache and a context of its own for every test of jit, and what both of its files use. */
#ifndef SP_JIT_PLACE_H
#define SP_JIT_PLACE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "jit/jit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VISIBLE "__attribute__((visibility(\"default\"))) "
static const char adds[] __attribute__((unused)) = VISIBLE "int add(int a, int b) { return a + b; }\n";
static const char subs[] __attribute__((unused)) = VISIBLE "int add(int a, int b) { return a - b; }\n";
typedef int (*binary)(int, int);

typedef struct place { /* a folder of its own for every test */
    char root[48], cache[64];
    sparta_ctx *cx;
} place;

static inline sparta_ctx *context(const char *cache, const char *compiler)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = cache;
    o.compiler = compiler;
    sparta_ctx *cx = sparta_ctx_create(&o);
    assert_non_null(cx);
    return cx;
}

static inline int enter(void **state)
{
    unsetenv("SPARTA_CACHE"); /* a test that failed may have left them */
    unsetenv("SPARTA_CC_TIMEOUT");
    place *p = calloc(1, sizeof *p);
    snprintf(p->root, sizeof p->root, "/tmp/sparta-jit-test-XXXXXX");
    if (!mkdtemp(p->root)) return -1;
    snprintf(p->cache, sizeof p->cache, "%s/cache", p->root);
    p->cx = context(p->cache, NULL);
    *state = p;
    return 0;
}

static inline int leave(void **state)
{
    place *p = *state;
    char command[256];
    sparta_ctx_free(p->cx);
    snprintf(command, sizeof command, "chmod -R u+rwx %s 2>/dev/null; rm -rf %s 2>/dev/null", p->root,
             p->root);
    /* A compiler whose parent was killed goes on for a moment and writes into the folder while it is removed.
     */
    int rc = system(command);
    for (int i = 0; rc && i < 50; i++) {
        usleep(100000);
        rc = system(command);
    }
    free(p);
    return rc;
}

/* Compile (or find) and call; returns the rung. */
static inline sp_jit_rung use(sparta_ctx *cx, const char *text, int expected)
{
    const sp_object *o = NULL;
    sp_jit_rung rung = (sp_jit_rung)-1;
    sparta_status status = sp_jit_get(cx, SP_TARGET_PORTABLE, text, &o, &rung);
    if (status) fail_msg("%s", sparta_message(cx));
    binary f = (binary)sp_jit_symbol(o, "add");
    assert_non_null(f);
    assert_int_equal(f(5, 3), expected);
    sp_jit_close(o);
    return rung;
}

static inline void refused(sparta_ctx *cx, const char *text, const char *message)
{
    const sp_object *o = (const sp_object *)&o;
    sp_jit_rung rung = SP_JIT_CACHE;
    assert_int_equal(sp_jit_get(cx, SP_TARGET_PORTABLE, text, &o, &rung), SPARTA_E_COMPILER);
    if (!strstr(sparta_message(cx), message)) fail_msg("no '%s' in: %s", message, sparta_message(cx));
    assert_ptr_equal(o, &o); /* outputs are untouched */
    assert_int_equal(rung, SP_JIT_CACHE);
    assert_non_null(strstr(sparta_notes(cx), "compiler:"));
}

/* The number of files in a folder; *last is the path of one of them. */
static inline int entries(const char *folder, char *last, size_t size)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (last) snprintf(last, size, "%s/%s", folder, e->d_name);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static inline int kernels(const place *p, char *last, size_t size)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s/kernels", p->cache);
    return entries(folder, last, size);
}

static inline void write_script(const char *path, const char *body)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* A context whose compiler is a script that knows its version. */
static inline sparta_ctx *with_script(const place *p, const char *name, const char *body)
{
    char path[128], text[1024];
    snprintf(path, sizeof path, "%s/%s", p->root, name);
    snprintf(text, sizeof text, "[ \"$1\" = --version ] && { echo 'script 1.0'; exit 0; }\n%s", body);
    write_script(path, text);
    return context(p->cache, path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

#endif
