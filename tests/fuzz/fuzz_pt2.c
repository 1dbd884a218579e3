/* fuzz_pt2.c: libFuzzer's target for programs of torch.export. The bytes are an archive, whose CRCs are mended as somebody who knows the
 * format would; bytes that begin with '{' are the program alone, which is put into an archive with three weights, and what follows a
 * byte 0 names its sizes. They must give an error, or a graph that verifies, whose shapes are inferred or refused, within 64 MiB. */
#include "import/import.h"
#include "npz_file.h"
#include "ops/ops.h"
#include "unit/pt2_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STORED(name, file, sizes, strides)                                                                   \
    "'" name "':{'path_name':'" file "','use_pickle':false,'tensor_meta':{'dtype':7,'sizes':[" sizes         \
    "],'strides':[" strides "],'storage_offset':{'as_int':0}}}"
#define INT(n) "{'as_int':" #n "}"

static pt2_archive around(const uint8_t *program, size_t size)
{
    const uint8_t *end = memchr(program, 0, size);
    const size_t all = size;
    size = end ? (size_t)(end - program) : size;
    static const float w[32] = {1, 2, 3};
    pt2_archive a = {0};
    pt2_put(&a, "m/data/weights/weight_0", w, sizeof w);
    pt2_json(&a, "m/data/weights/model_weights_config.json",
             "{'config':{" STORED("fc.weight", "weight_0", INT(4) "," INT(8), INT(8) "," INT(1)) "," STORED(
                 "fc.bias", "weight_0", INT(4), INT(1)) "," STORED("k", "weight_0", INT(4), INT(2)) "}}");
    pt2_put(&a, "m/models/model.json", program, size);
    if (end) pt2_put(&a, "m/extra/sparta-sizes.json", end + 1, all - size - 1);
    pt2_put(&a, "m/archive_format", "pt2", 3);
    pt2_end(&a);
    return a;
}

static pt2_archive given(sparta_ctx *cx, const uint8_t *data, size_t size)
{
    pt2_archive a = {0};
    if (size && *data == '{') return around(data, size);
    pt2_bytes(&a, data, size);
    mend(cx, a.data, a.size);
    return a;
}

/* Whatever the shapes are: they are inferred, or it is said why not. */
static void look(sparta_ctx *cx, sp_graph *g)
{
    const sparta_status s = sp_graph_verify(g);
    if (s != SPARTA_OK && s != SPARTA_E_MEMORY) abort();
    if (sp_ops_infer(g) != SPARTA_OK && (!*sparta_message(cx) || sp_ctx_status(cx) == SPARTA_E_INTERNAL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    if (!cx) return 0;
    pt2_archive a = given(cx, data, size);
    sp_model *m = NULL;
    if (sp_model_parse(cx, a.data, a.size, NULL, &m) == SPARTA_OK)
        look(cx, m->graph);
    else if (!*sparta_message(cx) || sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    sp_model_close(m);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    free(a.data);
    return 0;
}
