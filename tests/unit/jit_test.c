/* jit: the ladder, loaded objects, and a cache that somebody may have tampered with. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "jit_place.h"

/* ------------------------------------------------------------------ the ladder */

static void climbs_the_ladder(void **state)
{
    place *p = *state;
    const sp_object *held = NULL;
    struct stat st;
    char file[512];
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_CACHE); /* closed: no longer in memory */
    assert_int_equal(sp_jit_get(p->cx, SP_TARGET_PORTABLE, adds, &held, NULL), SPARTA_OK);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_MEMORY);
    assert_int_equal(use(p->cx, subs, 2), SP_JIT_COMPILED);
    sp_jit_close(held);
    assert_int_equal(kernels(p, file, sizeof file), 2);
    assert_int_equal(stat(p->cache, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(file, sizeof file, "%s/key", p->cache);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 32);
    assert_int_equal(entries(p->cache, NULL, 0), 2); /* key and kernels: nothing temporary is left */
    assert_string_equal(sparta_notes(p->cx), "");
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

/* Several texts, one of them twice and one that does not compile; what there is of them is not compiled again. */
static void several_side_by_side(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs, "int f(void) { return nonsense; }\n", adds};
    const sp_object *o[SP_COUNT(text)];
    for (int turn = 0; turn < 2; turn++) { /* by the compiler, from the cache */
        assert_int_equal(sp_jit_get_all(p->cx, SP_TARGET_PORTABLE, SP_COUNT(text), text, o), SPARTA_OK);
        assert_int_equal(((binary)sp_jit_symbol(o[0], "add"))(5, 3), 8);
        assert_int_equal(((binary)sp_jit_symbol(o[1], "add"))(5, 3), 2);
        assert_null(o[2]);
        assert_ptr_equal(o[3], turn ? o[0] : NULL); /* compiled once: sp_jit_get has the twin */
        for (size_t i = 0; i < SP_COUNT(text); i++) sp_jit_close(o[i]);
        assert_int_equal(kernels(p, NULL, 0), 2);
        assert_int_equal(entries(p->cache, NULL, 0), 2); /* key and kernels */
        assert_string_equal(sparta_notes(p->cx), "");
        assert_string_equal(sparta_message(p->cx), "");
    }
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_CACHE);
    refused(p->cx, text[2], "nonsense");
    setenv("SPARTA_CACHE", "off", 1);
    assert_int_equal(sp_jit_get_all(p->cx, SP_TARGET_PORTABLE, 2, text, o), SPARTA_OK);
    assert_int_equal(use(p->cx, subs, 2), SP_JIT_MEMORY);
    for (int i = 0; i < 2; i++) sp_jit_close(o[i]);
    unsetenv("SPARTA_CACHE");
    assert_int_equal(sp_jit_get_all(p->cx, SP_TARGET_PORTABLE, 0, NULL, NULL), SPARTA_OK);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void targets_have_their_own_code(void **state)
{
    place *p = *state;
    static const char text[] =
        VISIBLE "int add(int a, int b) {\n#ifdef __AVX512F__\nreturn 512;\n#endif\nreturn a + b; }\n";
    const sp_object *o;
    assert_int_equal(use(p->cx, text, 8), SP_JIT_COMPILED);
    if (!sp_target_fits(SP_TARGET_AVX512)) skip();
    assert_int_equal(sp_jit_get(p->cx, SP_TARGET_AVX512, text, &o, NULL), SPARTA_OK);
    assert_int_equal(((binary)sp_jit_symbol(o, "add"))(5, 3), 512);
    sp_jit_close(o);
}

static void hidden_and_missing_symbols_are_null(void **state)
{
    place *p = *state;
    const sp_object *o;
    assert_int_equal(sp_jit_get(p->cx, SP_TARGET_PORTABLE,
                                "int secret(void) { return 1; }\n" VISIBLE "int shown = 7;\n", &o, NULL),
                     SPARTA_OK);
    assert_null(sp_jit_symbol(o, "secret"));
    assert_null(sp_jit_symbol(o, "nothing"));
    assert_int_equal(*(int *)sp_jit_symbol(o, "shown"), 7);
    assert_null(sp_jit_symbol(NULL, "shown"));
    sp_jit_close(o);
    sp_jit_close(NULL);
}

/* Descriptors are used again: an object must not be taken for the one that had its number before. */
static void many_objects_stay_apart(void **state)
{
    place *p = *state;
    const sp_object *o[12];
    char text[128];
    for (int i = 0; i < 12; i++) {
        snprintf(text, sizeof text, VISIBLE "int add(int a, int b) { return %d * a + b; }\n", i);
        assert_int_equal(sp_jit_get(p->cx, SP_TARGET_PORTABLE, text, &o[i], NULL), SPARTA_OK);
    }
    for (int i = 0; i < 12; i++) assert_int_equal(((binary)sp_jit_symbol(o[i], "add"))(10, 1), 10 * i + 1);
    for (int i = 0; i < 12; i++) sp_jit_close(o[i]);
}

static void loads_a_packages_bytes(void **state)
{
    place *p = *state;
    const sp_object *o, *again, *third;
    assert_int_equal(sp_jit_get(p->cx, SP_TARGET_PORTABLE, adds, &o, NULL), SPARTA_OK);
    size_t n = o->size;
    uint8_t *bytes = malloc(n), digest[32];
    memcpy(bytes, o->bytes, n);
    sp_sha256_of(bytes, n, digest);
    assert_memory_equal(o->digest, digest, 32);
    assert_int_equal(sp_jit_load(p->cx, bytes, n, &again), SPARTA_OK);
    assert_ptr_equal(again, o); /* loaded once */
    sp_jit_close(o);
    assert_int_equal(((binary)sp_jit_symbol(again, "add"))(1, 1), 2); /* still held */
    sp_jit_close(again);
    assert_int_equal(sp_jit_load(p->cx, bytes, n, &third), SPARTA_OK);
    assert_int_equal(((binary)sp_jit_symbol(third, "add"))(2, 2), 4);
    sp_jit_close(third);
    free(bytes);
}

/* Without /proc (a bare chroot) objects are loaded from a private file, which is gone afterwards. */
static void loads_without_proc(void **state)
{
    place *p = *state;
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("none", "/proc", "tmpfs", 0, NULL))
            _exit(77);
        const sp_object *o;
        if (sp_jit_get(p->cx, SP_TARGET_PORTABLE, adds, &o, NULL)) _exit(1);
        if (((binary)sp_jit_symbol(o, "add"))(5, 3) != 8) _exit(2);
        _exit(entries(p->cache, NULL, 0) == 2 ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

/* Any prefix, and bytes that are no object: an error, never a crash. */
static void refuses_what_is_no_object(void **state)
{
    place *p = *state;
    const sp_object *o, *bad = NULL;
    assert_int_equal(sp_jit_get(p->cx, SP_TARGET_PORTABLE, adds, &o, NULL), SPARTA_OK);
    size_t n = o->size;
    uint8_t *bytes = malloc(n);
    memcpy(bytes, o->bytes, n);
    sp_jit_close(o);
    size_t cuts[] = {0, 1, 4, 63, 64, 65, 200, 600, n / 8};
    for (size_t i = 0; i < SP_COUNT(cuts); i++)
        assert_int_equal(sp_jit_load(p->cx, bytes, cuts[i], &bad), SPARTA_E_FORMAT);
    bytes[18] ^= 0xff; /* machine */
    assert_int_equal(sp_jit_load(p->cx, bytes, n, &bad), SPARTA_E_FORMAT);
    memset(bytes, 0xff, n);
    assert_int_equal(sp_jit_load(p->cx, bytes, n, &bad), SPARTA_E_FORMAT);
    assert_int_equal(sp_jit_load(p->cx, NULL, 0, &bad), SPARTA_E_FORMAT);
    assert_int_equal(sp_jit_load(p->cx, bytes, SIZE_MAX, &bad), SPARTA_E_LIMIT);
    assert_null(bad);
    free(bytes);
}

static void describes_itself(void **state)
{
    place *p = *state;
    sp_jit_state s;
    sp_jit_describe(p->cx, &s);
    assert_int_equal(s.compiler[0], '/');
    assert_true(strlen(s.version) > 3);
    assert_string_equal(s.cache, p->cache);
    assert_string_equal(s.cache_problem, "");
    assert_string_equal(sparta_cache_folder(p->cx), p->cache);
    sparta_ctx *none = context("", "");
    sp_jit_describe(none, &s);
    assert_string_equal(s.compiler, "");
    assert_non_null(strstr(s.version, "switched off"));
    assert_string_equal(s.cache, "");
    assert_string_equal(s.cache_problem, "switched off");
    assert_string_equal(sparta_cache_folder(none), "");
    assert_string_equal(sparta_notes(none), ""); /* what was asked for is no remark */
    sparta_ctx_free(none);
}

/* ------------------------------------------------------------------ the cache */

static void flip(const char *path, long offset, int whence)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, whence), 0);
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static void poisoned_entries_are_compiled_again(void **state)
{
    place *p = *state;
    static const struct {
        long offset;
        int whence;
    } at[] = {{0, SEEK_SET}, {700, SEEK_SET}, {-1, SEEK_END}, {-32, SEEK_END}, {-33, SEEK_END}};
    char file[512];
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    for (size_t i = 0; i < SP_COUNT(at); i++) {
        assert_int_equal(kernels(p, file, sizeof file), 1);
        flip(file, at[i].offset, at[i].whence);
        assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
        assert_non_null(strstr(sparta_notes(p->cx), "damaged"));
        assert_int_equal(use(p->cx, adds, 8), SP_JIT_CACHE); /* healed */
    }
    for (long size = 0; size < 40; size += 13) {
        assert_int_equal(truncate(file, size), 0);
        assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    }
}

/* A good entry under the name of another kernel is not that kernel. */
static void swapped_entries_are_found_out(void **state)
{
    place *p = *state;
    char a[512], b[512], command[2400];
    use(p->cx, adds, 8);
    kernels(p, a, sizeof a);
    use(p->cx, subs, 2);
    kernels(p, b, sizeof b);
    if (!strcmp(a, b)) { /* the order of a folder is its own: find the other one */
        snprintf(command, sizeof command, "ls %s/kernels/*.so | grep -v %s", p->cache, strrchr(a, '/') + 1);
        FILE *f = popen(command, "r");
        assert_non_null(fgets(b, sizeof b, f));
        b[strcspn(b, "\n")] = 0;
        pclose(f);
    }
    snprintf(command, sizeof command, "cp %s %s/x && cp %s %s && cp %s/x %s", a, p->root, b, a, p->root, b);
    assert_int_equal(system(command), 0);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(p->cx, subs, 2), SP_JIT_COMPILED);
}

static void entries_of_another_key_are_not_ours(void **state)
{
    place *p = *state;
    char key[128];
    use(p->cx, adds, 8);
    snprintf(key, sizeof key, "%s/key", p->cache);
    flip(key, 3, SEEK_SET);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(chmod(key, 0644), 0); /* somebody may have read it */
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_non_null(strstr(sparta_notes(p->cx), "not private"));
    assert_int_equal(unlink(key), 0);
    assert_int_equal(mkfifo(key, 0600), 0); /* and nobody waits for it */
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
}

static void entry_that_is_a_link_or_a_pipe(void **state)
{
    place *p = *state;
    char file[512], aside[256];
    use(p->cx, adds, 8);
    kernels(p, file, sizeof file);
    snprintf(aside, sizeof aside, "%s/aside", p->root);
    assert_int_equal(rename(file, aside), 0);
    assert_int_equal(symlink(aside, file), 0);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_CACHE);
}

/* The folder is not used, one note says why, kernels are compiled all the same, nothing is written into it.
 */
static void without_cache(place *p, const char *cache, const char *why)
{
    sparta_ctx *cx = context(cache, NULL);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    if (!strstr(sparta_notes(cx), why)) fail_msg("no '%s' in: %s", why, sparta_notes(cx));
    assert_null(strchr(sparta_notes(cx), '\n'));
    assert_string_equal(sparta_cache_folder(cx), "");
    (void)p;
    sparta_ctx_free(cx);
}

static void folders_that_are_not_safe(void **state)
{
    place *p = *state;
    char path[128];
    struct stat st;
    assert_int_equal(mkdir(p->cache, 0700), 0);
    assert_int_equal(chmod(p->cache, 0755), 0);
    without_cache(p, p->cache, "mode 0755");
    assert_int_equal(stat(p->cache, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755); /* left as it was */
    assert_int_equal(entries(p->cache, NULL, 0), 0);
    assert_int_equal(chmod(p->cache, 0700), 0);
    snprintf(path, sizeof path, "%s/link", p->root);
    assert_int_equal(symlink(p->cache, path), 0);
    without_cache(p, path, "is a link");
    strcat(path, "/"); /* a slash at the end does not help */
    without_cache(p, path, "is a link");
    assert_int_equal(entries(p->cache, NULL, 0), 0);
    snprintf(path, sizeof path, "%s/file", p->root);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    without_cache(p, path, "is a link or no folder");
    without_cache(p, "relative/folder", "no absolute path");
    without_cache(p, "/proc/nothing/here", "cannot be made");
    char *deep = malloc(5000);
    memset(deep, 'a', 4999);
    deep[0] = '/';
    deep[4999] = 0;
    without_cache(p, deep, "longer than");
    free(deep);
    if (geteuid()) return;
    assert_int_equal(chown(p->cache, 1000, 1000), 0);
    without_cache(p, p->cache, "is not ours (owner 1000)");
    assert_int_equal(entries(p->cache, NULL, 0), 0);
}

/* An ordinary user whose folder cannot be written. Root writes everywhere: become somebody else for it. */
static void unwritable_folder(void **state)
{
    place *p = *state;
    assert_int_equal(mkdir(p->cache, 0700), 0);
    assert_int_equal(chmod(p->root, 0755), 0);
    if (!geteuid()) assert_int_equal(chown(p->cache, 65534, 65534), 0);
    assert_int_equal(chmod(p->cache, 0500), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (!geteuid() && setresuid(65534, 65534, 65534)) _exit(3);
        sparta_ctx *cx = context(p->cache, NULL);
        const sp_object *o;
        if (sp_jit_get(cx, SP_TARGET_PORTABLE, adds, &o, NULL)) _exit(4);
        _exit(strstr(sparta_notes(cx), "cannot be written") ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void cache_can_be_switched_off(void **state)
{
    place *p = *state;
    setenv("SPARTA_CACHE", "off", 1);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED);
    unsetenv("SPARTA_CACHE");
    assert_int_equal(access(p->cache, F_OK), -1);
    sparta_ctx *cx = context("", NULL);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    assert_string_equal(sparta_notes(cx), "");
    sparta_ctx_free(cx);
}

static void default_folder_follows_xdg(void **state)
{
    place *p = *state;
    char expected[128], *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    sparta_ctx *cx = context(NULL, NULL);
    setenv("XDG_CACHE_HOME", p->root, 1);
    snprintf(expected, sizeof expected, "%s/sparta", p->root);
    assert_string_equal(sparta_cache_folder(cx), expected);
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", p->root, 1);
    snprintf(expected, sizeof expected, "%s/.cache/sparta", p->root);
    assert_string_equal(sparta_cache_folder(cx), expected);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_string_equal(sparta_cache_folder(cx), "");
    assert_non_null(strstr(sparta_notes(cx), "HOME"));
    if (home) setenv("HOME", home, 1);
    free(home);
    sparta_ctx_free(cx);
}

static void old_leftovers_are_swept(void **state)
{
    place *p = *state;
    char folder[128], file[160];
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    use(p->cx, adds, 8);
    snprintf(folder, sizeof folder, "%s/tmp-killed", p->cache);
    snprintf(file, sizeof file, "%s/kernel.c", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);
    use(p->cx, subs, 2);
    assert_int_equal(access(file, F_OK), 0); /* young: somebody may be at work */
    assert_int_equal(utimensat(AT_FDCWD, folder, old, 0), 0);
    use(p->cx, VISIBLE "int add(int a, int b) { return a * b; }\n", 15);
    assert_int_equal(access(folder, F_OK), -1);
}

int main(void)
{
    unsetenv("SPARTA_TARGET");
    const struct CMUnitTest tests[] = {
        TEST(climbs_the_ladder),
        TEST(several_side_by_side),
        TEST(targets_have_their_own_code),
        TEST(hidden_and_missing_symbols_are_null),
        TEST(many_objects_stay_apart),
        TEST(loads_a_packages_bytes),
        TEST(loads_without_proc),
        TEST(refuses_what_is_no_object),
        TEST(describes_itself),
        TEST(poisoned_entries_are_compiled_again),
        TEST(swapped_entries_are_found_out),
        TEST(entries_of_another_key_are_not_ours),
        TEST(entry_that_is_a_link_or_a_pipe),
        TEST(folders_that_are_not_safe),
        TEST(unwritable_folder),
        TEST(cache_can_be_switched_off),
        TEST(default_folder_follows_xdg),
        TEST(old_leftovers_are_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
