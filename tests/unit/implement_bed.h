/* The bed of panel_bed.h for room implement: tasks, and kernels compiled for every target that fits.
 *
 * Compiled kernels are kept in a folder beside the test program, so that only the first run waits for the compiler, and loaded once a
 * program. Without a compiler the portable kernels are tested alone, and a line says so.
 */
#ifndef SP_IMPLEMENT_BED_H
#define SP_IMPLEMENT_BED_H

#include "panel_bed.h"
#include "implement/implement.h"
#include "jit/jit.h"
#include <sys/mman.h>
#include <unistd.h>

enum { KERNELS = 512 };
static struct loaded {
    char key[1024];
    const sp_object *object;
} loaded[KERNELS];
static int n_loaded, no_compiler;

/* Load `text` for `target`; NULL: there is no compiler. */
static inline const sp_object *load_text(sp_target target, const char *text)
{
    const sp_object *o = NULL;
    sparta_status s = sp_jit_get(cx, target, text, &o, NULL);
    if (s == SPARTA_E_COMPILER) {
        sp_jit_state state;
        sp_jit_describe(cx, &state);
        if (state.compiler[0]) fail_msg("%s", sparta_message(cx));
        if (!no_compiler++) print_message("no compiler: only the portable kernels are tested\n");
        return NULL;
    }
    ok(s);
    return o;
}

/* The entry of a kernel for a target. False: there is no compiler for it. */
static inline bool entry_of(sp_target target, const char *kernel, const char *parameters, sp_entry *out)
{
    char key[sizeof loaded->key], symbol[64];
    *out = NULL;
    if (target == SP_TARGET_PORTABLE) return sp_panel_find(kernel)->portable != NULL;
    if (no_compiler) return false;
    snprintf(key, sizeof key, "%s %s %s", sp_target_name(target), kernel, parameters);
    int i = 0;
    while (i < n_loaded && strcmp(loaded[i].key, key)) i++;
    if (i == n_loaded) {
        sp_text text;
        sp_text_init(&text, cx);
        ok(sp_implement_text(kernel, parameters, target, &text));
        const sp_object *o = load_text(target, sp_text_str(&text));
        sp_text_free(&text);
        if (!o) return false;
        assert_true(n_loaded < KERNELS);
        memcpy(loaded[i].key, key, sizeof key);
        loaded[n_loaded++].object = o;
    }
    snprintf(symbol, sizeof symbol, "sp_kernel_%s", kernel);
    *out = (sp_entry)(uintptr_t)sp_jit_symbol(loaded[i].object, symbol);
    assert_non_null(*out);
    return true;
}

/* What rows look at; free mask with sp_mask_free. */
static inline sp_task task_of(const bed *b, const sparta_tensor *weight, sp_mask *mask)
{
    sp_task t = {.node = b->node};
    if (!weight) return t;
    t.n = weight->dim[0], t.k = weight->dim[1];
    ok(sp_mask_of(cx, weight, mask));
    t.mask = mask;
    ok(sp_mask_detect(cx, mask, 1.02, &t.pattern));
    ok(sp_mask_fill(cx, mask, 4, 1, &t.strip_fill));
    ok(sp_mask_fill(cx, mask, 16, 1, &t.strip16_fill));
    return t;
}

static inline void parameters_of(const sp_implement *im, const sp_task *t, char *out, size_t size)
{
    sp_text text;
    sp_text_init(&text, cx);
    if (im->parameters) im->parameters(im, t, &text);
    ok(text.status);
    snprintf(out, size, "%s", sp_text_str(&text));
    sp_text_free(&text);
}

/* A copy whose last byte is the last of a page; behind it lies one that must not be touched. */
typedef struct fenced {
    char *base;
    size_t size;
    void *was;
} fenced;
static inline fenced fence(sparta_tensor *t)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 bytes = (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype),
                 whole = (bytes + page - 1) / page * page;
    fenced f = {.size = whole + page, .was = t->data};
    if (!t->data || !bytes) return (fenced){0};
    f.base = mmap(NULL, f.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.base != MAP_FAILED);
    memcpy(f.base + whole - bytes, t->data, bytes);
    assert_int_equal(mprotect(f.base + whole, page, PROT_NONE), 0);
    t->data = f.base + whole - bytes;
    return f;
}
static inline void unfence(fenced *f, sparta_tensor *t)
{
    if (!f->base) return;
    t->data = f->was;
    munmap(f->base, f->size);
}

static inline int kernels_begin(void **state)
{
    static char folder[512];
    (void)state;
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 16);
    if (n <= 0) return -1;
    folder[n] = 0;
    snprintf(strrchr(folder, '/'), 16, "/kernels");
    cx = context(folder, NULL);
    rng = sp_rng_seed(test_seed());
    print_message("TEST_SEED=%llu\n", (unsigned long long)test_seed());
    return 0;
}

static inline int kernels_end(void **state)
{
    for (int i = 0; i < n_loaded; i++) sp_jit_close(loaded[i].object);
    n_loaded = 0;
    return tear_down(state);
}

/* Every target that fits, worst first; stops where a kernel cannot be had. */
#define EACH_TARGET(t)                                                                                       \
    for (int t = SP_CPU_TARGETS - 1; t >= 0; t--)                                                            \
        if (sp_target_fits((sp_target)t))

#endif
