/* fuzz_safetensors.c: libFuzzer's target for safetensors. Any bytes must give an error, or tensors that can be read whole and
 * that, written again, read back the same. */
#include "arrays/arrays.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const sparta_tensor *find(const sp_safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].name, name)) return &s->entry[i].tensor;
    return NULL;
}

static char path[64];
static void forget(void)
{
    unlink(path);
}

static size_t bytes_of(const sparta_tensor *t)
{
    return (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype);
}

static void write_again(sparta_ctx *cx, const sp_safetensors *s)
{
    const char **names = calloc((size_t)s->n + 1, sizeof *names);
    sparta_tensor *t = calloc((size_t)s->n + 1, sizeof *t);
    sp_safetensors back;
    if (!names || !t) abort();
    for (int i = 0; i < s->n; i++) names[i] = s->entry[i].name, t[i] = s->entry[i].tensor;
    if (sp_safetensors_write(cx, path, s->n, names, t, s->n_metadata, s->metadata)) abort();
    if (sp_safetensors_open(cx, path, &back)) abort();
    if (back.n != s->n || back.n_metadata != s->n_metadata) abort();
    for (int i = 0; i < s->n; i++) {
        const sparta_tensor *x = find(&back, names[i]);
        if (!x || !sp_tensor_same_shape(x, &t[i]) || x->dtype != t[i].dtype) abort();
        if (bytes_of(x) && memcmp(x->data, t[i].data, bytes_of(x))) abort();
    }
    sp_safetensors_close(&back);
    free(names);
    free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned rounds;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    if (!path[0]) {
        snprintf(path, sizeof path, "/tmp/sparta-fuzz-safetensors-%ld", (long)getpid());
        atexit(forget);
    }
    sparta_ctx *cx = sparta_ctx_create(&options);
    uint8_t *copy =
        malloc(size + 1); /* exactly as long as the input, one byte off: the reader must not mind */
    sp_safetensors s = {0};
    if (!cx || !copy) return 0;
    uint8_t *bytes = copy + 1;
    memcpy(bytes, data, size);
    if (sp_safetensors_parse(cx, bytes, size, &s) == SPARTA_OK) {
        volatile double sum = 0;
        for (int i = 0; i < s.n; i++)
            for (int64_t k = 0; k < sparta_tensor_elements(&s.entry[i].tensor); k++)
                sum += sp_element_get(s.entry[i].tensor.dtype, s.entry[i].tensor.data, k);
        if (rounds++ % 64 == 0 || size < 64) write_again(cx, &s); /* writing syncs a file, which is slow */
    } else if (sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    sp_safetensors_close(&s);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    free(copy);
    return 0;
}
