/* fuzz_inputs.c: libFuzzer's target for what callers give to a session. The bytes say which model of three is run and, up to four times, what with: names,
 * types, ranks, sizes, strides, missing data, contents. Memory is there for every view, as the header asks for; all else may be wrong. Each
 * run is refused with a message that leaves the outputs alone, or gives the answers of the references; afterwards a good run works. */
#include "compile/compile.h"
#include "operators.h"
#include "ops/ops.h"
#include "propagated.h"
#include "run/run.h"
#include "zoo/zoo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODELS = 3, MOST = 8, CALLS = 4, SIZES = 8, LARGEST = 1 << 16 };

/* ------------------------------------------------------------------ the models, made once */
typedef struct subject {
    const char *name, *sizes[SIZES];
    int64_t size[SIZES];
    sp_graph *truth;
    sparta_session *session;
} subject;
static subject subjects[MODELS] = {
    {"mlp", {"inputs", "hidden1", "hidden2", "classes"}, {7, 16, 5, 3}, NULL, NULL},
    {"bert-mini",
     {"layers", "hidden", "heads", "ffn", "vocab", "positions"},
     {1, 16, 2, 32, 20, 20},
     NULL,
     NULL},
    {"llama-mini",
     {"layers", "hidden", "heads", "groups", "ffn", "vocab", "positions"},
     {1, 16, 4, 2, 32, 20, 20},
     NULL,
     NULL},
};
static sparta_ctx *cx;

static sp_graph *build(const subject *s)
{
    sp_graph *g = NULL;
    int n = 0;
    while (n < SIZES && s->sizes[n]) n++;
    const sp_zoo_request r = {.name = s->name, .seed = 1, .dims = {n, (const char **)s->sizes, s->size}};
    if (sp_zoo_build(cx, &r, &g) != SPARTA_OK || sp_ops_infer(g) != SPARTA_OK)
        give_up(s->name, sparta_message(cx));
    return g;
}

static void make(subject *s, int threads)
{
    const sparta_session_options options = {.size = sizeof options, .threads = threads};
    const sp_compile_request request = {.options = {.no_measure = 1, .threads = 1, .db = ":memory:"}};
    sparta_package *p = NULL;
    s->truth = build(s);
    if (sp_compile_graph(cx, build(s), &request, &p) != SPARTA_OK ||
        sparta_session_create(cx, p, &options, &s->session) != SPARTA_OK)
        give_up(s->name, sparta_message(cx));
}

/* ------------------------------------------------------------------ one input out of the bytes */
typedef struct bytes {
    const uint8_t *at, *end;
} bytes;
static unsigned take(bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

typedef struct call {
    int n;
    sparta_named_tensor in[MOST];
    void *memory[MOST];
} call;

static int64_t take_size(bytes *b, int64_t usual)
{
    static const int64_t odd[] = {0, 1, 2, 3, 5, 17, 64, 65, 20, 21, -1, INT64_MIN};
    const unsigned k = take(b);
    return k < 128 ? usual : odd[k % SP_COUNT(odd)];
}

/* Room for every element that the view can reach, and contents from a few bytes; false: too much. */
static bool back(bytes *b, sparta_tensor *t, void **memory)
{
    const unsigned kind = take(b), seed = take(b);
    uint64_t state = seed;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n = t->dim[i] > 0 ? n * t->dim[i] : n;
    if (n > LARGEST) return false;
    for (int i = 0; i < t->rank; i++) n += t->dim[i] > 0 ? t->dim[i] * 8 : 0; /* for strides of 8 at most */
    uint8_t *data = calloc((size_t)n, sparta_dtype_size(t->dtype));
    if (!data) abort();
    for (int64_t i = 0; i < n; i++)
        sp_element_set(t->dtype, data, i,
                       !sp_dtype_is_float(t->dtype)
                           ? (kind % 8 ? (double)odd_roll(&state, 2 + kind % 20) : (double)odd_int(&state))
                       : kind % 8 ? odd_roll(&state, 33) / 16. - 1
                                  : odd_float(&state));
    *memory = data;
    t->data = kind < 250 ? data : NULL;
    return true;
}

static bool take_input(bytes *b, const sp_graph *g, int k, call *out)
{
    static const char *const odd[] = {"", "x", "logits", "input_id", "input_ids "};
    const unsigned how = take(b);
    const sp_value *v = g->input[k % g->n_inputs];
    sparta_named_tensor *in = &out->in[out->n];
    int64_t dim[SPARTA_RANK];
    const int rank = how % 16 == 1 ? (int)(take(b) % (SPARTA_RANK + 1)) : v->dims.rank;
    for (int i = 0; i < rank; i++)
        dim[i] = take_size(b, i < v->dims.rank && size_of(v, i) > 0 ? size_of(v, i) : 3);
    const sparta_dtype dtype = how % 16 == 2 ? (sparta_dtype)(take(b) % (SPARTA_I2 + 1)) : v->dtype;
    in->name = how % 16 == 3 ? odd[take(b) % SP_COUNT(odd)] : v->name;
    in->tensor = sparta_tensor_view(dtype, rank, dim, NULL);
    if (!back(b, &in->tensor, &out->memory[out->n])) return false;
    if (how % 16 == 4 && rank) in->tensor.stride[take(b) % (unsigned)rank] = take(b) % 9;
    out->n++;
    return true;
}

/* ------------------------------------------------------------------ runs */
static void check_answers(const subject *s, const call *c, const sparta_named_tensor *got)
{
    sparta_tensor want[SOUND_OUTPUTS];
    if (sp_ops_run(cx, s->truth, c->in, c->n, want, NULL, NULL) != SPARTA_OK)
        give_up("a run that the references refuse", sparta_message(cx));
    for (int i = 0; i < s->truth->n_outputs; i++)
        if (is_finite(&want[i]) && !same_output(&want[i], &got[i].tensor, 1e-3))
            give_up("answer", got[i].name);
    free_outputs(cx, s->truth, want);
}

static void run(const subject *s, const call *c)
{
    sparta_named_tensor got[SOUND_OUTPUTS];
    for (int i = 0; i < s->truth->n_outputs; i++)
        got[i] = (sparta_named_tensor){.name = s->truth->output[i]->name, .tensor = {.rank = 77}};
    sp_ctx_clear(cx);
    if (accepted(cx, sparta_session_run(cx, s->session, c->in, c->n, got, s->truth->n_outputs), "run"))
        check_answers(s, c, got);
    else if (got[0].tensor.rank != 77)
        give_up("refused", "an output was written");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes b = {data, data + size};
    if (!cx) {
        cx = small_context(8); /* not strict */
        for (int i = 0; cx && i < MODELS; i++) make(&subjects[i], 1);
    }
    if (!cx) abort();
    const subject *s = &subjects[take(&b) % MODELS];
    const int inputs = s->truth->n_inputs;
    for (int k = 0; k < CALLS && b.at < b.end; k++) {
        call c = {0};
        const unsigned some = take(&b);
        const int n = some < 200 ? inputs : (int)(some % MOST); /* too few, too many: names come again */
        bool fits = true;
        for (int i = 0; i < n && i < MOST && fits; i++) fits = take_input(&b, s->truth, i, &c);
        if (fits) run(s, &c);
        for (int i = 0; i < MOST; i++) free(c.memory[i]);
    }
    return 0;
}
