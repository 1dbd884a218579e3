/* fuzz_package.c: libFuzzer's target for packages. Digests would stop nearly everything, so the target signs what it is given, as somebody
 * who knows the format would. An input is a whole package, or (shorter, so that the search reaches further) its texts:
 *
 *     plan "\n---\n" tables "\n---\n" weights
 *
 * Whatever is done with a package without running it must give an error or work. */
#include "compile/compile.h"
#include "run/run.h"
#include "unit/package_damage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];
static void forget(void)
{
    unlink(path);
}

static FILE *file(void)
{
    static FILE *f;
    if (f) return f;
    snprintf(path, sizeof path, "/tmp/sparta-fuzz-package-%ld", (long)getpid());
    f = fopen(path, "w+b");
    if (!f) abort();
    atexit(forget);
    return f;
}

/* ------------------------------------------------------------------ images */

static size_t part(const uint8_t **from, const uint8_t *end)
{
    static const char mark[] = "\n---\n";
    const uint8_t *found = memmem(*from, (size_t)(end - *from), mark, 5), *start = *from;
    *from = found ? found + 5 : end;
    return (size_t)((found ? found + 1 : end) - start); /* the newline belongs to the text */
}

/* A package around the texts. */
static uint8_t *build(const uint8_t *data, size_t size, size_t *out)
{
    static const int order[] = {DISK_PLAN, DISK_TABLES, DISK_WEIGHTS};
    uint8_t *image = calloc(1, HEADER_BYTES + size + 4 * 64);
    disk_header h = {.version = DISK_VERSION, .sections = DISK_SECTIONS};
    size_t at = HEADER_BYTES;
    const uint8_t *from = data;
    if (!image) abort();
    memcpy(h.magic, DISK_MAGIC, 8);
    for (int i = 0; i < 3; i++) {
        const uint8_t *start = from;
        disk_section *s = &h.section[order[i]];
        s->offset = at;
        s->size = i < 2 ? part(&from, data + size) : (size_t)(data + size - from);
        memcpy(image + at, start, s->size);
        at = (at + s->size + 63) & ~(size_t)63;
    }
    memcpy(image, &h, sizeof h);
    *out = at;
    return image;
}

/* ------------------------------------------------------------------ uses */

static void use(sparta_ctx *cx, const sparta_package *p)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_layer *layer;
    sp_graph *g = NULL;
    sparta_session *session = NULL;
    const sparta_session_options one = {.size = sizeof one, .threads = 1};
    int n = 0, code = 0;
    if (!arena) return;
    if (sparta_package_check(cx, p) == SPARTA_E_INTERNAL) abort();
    if (sp_compile_layers(cx, arena, p->plan, ":memory:", NULL, &layer, &n) == SPARTA_E_INTERNAL) abort();
    for (int i = 0; i < p->n_weights; i++) {
        sparta_tensor t;
        if (sp_compile_unpack(arena, &p->weight[i], &t) == SPARTA_E_INTERNAL) abort();
    }
    if (sp_compile_unplan(cx, p, &g) == SPARTA_OK) sp_graph_free(g);
    for (int i = 0; i < p->n_kernels; i++) code += p->kernel[i].n_code;
    if (!code && sparta_session_create(cx, p, &one, &session) == SPARTA_OK)
        sparta_session_free(session); /* foreign code is not loaded */
    sp_arena_free(arena);
}

static void open_image(const uint8_t *image, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    sparta_package *p = NULL;
    FILE *f = file();
    if (!cx || fseek(f, 0, SEEK_SET) || ftruncate(fileno(f), 0) || fwrite(image, 1, size, f) != size ||
        fflush(f))
        abort();
    const sparta_status s = sparta_package_open(cx, path, &p);
    if (s == SPARTA_E_INTERNAL || s == SPARTA_E_USAGE || s == SPARTA_E_IO) abort();
    if (s == SPARTA_OK) use(cx, p);
    sparta_package_close(p);
    /* Sums of formats stay with the context; what is lost besides them the leak sanitizer finds. */
    if (sp_ctx_memory(cx) && !sp_ctx_slot(cx, SP_SLOT_FORMATS)) abort();
    sparta_ctx_free(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *image;
    if (size >= HEADER_BYTES && !memcmp(data, DISK_MAGIC, 8)) {
        image = malloc(size);
        if (!image) abort();
        memcpy(image, data, size);
    } else {
        image = build(data, size, &size);
    }
    sign(image, size);
    open_image(image, size);
    free(image);
    return 0;
}
