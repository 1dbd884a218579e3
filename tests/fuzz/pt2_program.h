/* Archives for the targets that read .pt2. Bytes that begin with '{' are a program, which is put into an archive with a storage of numbers:
 *
 *     program 0 sizes 0 config        the members models/model.json, extra/sparta-sizes.json, data/weights/model_weights_config.json
 *
 * Where there is no config, three weights lie in the storage. Other bytes are an archive, whose CRCs are mended as somebody who knows the format
 * would. */
#ifndef SP_TESTS_FUZZ_PT2_PROGRAM_H
#define SP_TESTS_FUZZ_PT2_PROGRAM_H

#include "zip_mend.h"
#include "unit/pt2_archive.h"

#define STORED(name, file, sizes, strides)                                                                   \
    "'" name "':{'path_name':'" file "','use_pickle':false,'tensor_meta':{'dtype':7,'sizes':[" sizes         \
    "],'strides':[" strides "],'storage_offset':{'as_int':0}}}"
#define INT(n) "{'as_int':" #n "}"

enum { STORAGE = 1024 }; /* floats */

/* Small numbers of both signs, with zeros in slices, so that there is something to propagate; positive ones at the end, for variances. */
static inline const float *pt2_storage(void)
{
    static float w[STORAGE];
    for (int i = 0; i < STORAGE; i++)
        w[i] = i >= STORAGE - 64               ? (float)(i % 7 + 1) / 4
               : i / 8 % 4 == 3 || i % 16 == 5 ? 0
                                               : (float)(i * 37 % 64 - 31) / 16;
    return w;
}

/* The part of the bytes that begins at `from`, up to the next 0. */
static inline size_t pt2_part(const uint8_t *data, size_t size, size_t from)
{
    const uint8_t *end = from < size ? memchr(data + from, 0, size - from) : NULL;
    return end ? (size_t)(end - data) : size;
}

static inline pt2_archive pt2_around(const uint8_t *data, size_t size)
{
    const size_t program = pt2_part(data, size, 0), sizes = pt2_part(data, size, program + 1);
    pt2_archive a = {0};
    pt2_put(&a, "m/data/weights/weight_0", pt2_storage(), STORAGE * sizeof(float));
    if (sizes < size)
        pt2_put(&a, "m/data/weights/model_weights_config.json", data + sizes + 1, size - sizes - 1);
    else
        pt2_json(
            &a, "m/data/weights/model_weights_config.json",
            "{'config':{" STORED("fc.weight", "weight_0", INT(4) "," INT(8), INT(8) "," INT(1)) "," STORED(
                "fc.bias", "weight_0", INT(4), INT(1)) "," STORED("k", "weight_0", INT(4), INT(2)) "}}");
    pt2_put(&a, "m/models/model.json", data, program);
    if (sizes > program + 1)
        pt2_put(&a, "m/extra/sparta-sizes.json", data + program + 1, sizes - program - 1);
    pt2_put(&a, "m/archive_format", "pt2", 3);
    pt2_end(&a);
    return a;
}

static inline pt2_archive pt2_given(const uint8_t *data, size_t size)
{
    pt2_archive a = {0};
    if (size && *data == '{') return pt2_around(data, size);
    sparta_ctx *cx = sparta_ctx_create(NULL);
    pt2_bytes(&a, data, size);
    if (cx) mend(cx, a.data, a.size);
    sparta_ctx_free(cx);
    return a;
}

#endif
