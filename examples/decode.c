/* Greedy decoding with a cache: a prompt at once, then one token at a time.
 *
 *     sparta zoo llama-decode -o llama.onnx && sparta compile llama.onnx --tokens 1 -o llama.sparta
 *     cc -O2 decode.c $(pkg-config --cflags --libs sparta_rt) -o decode
 *     ./decode llama.sparta 40
 *
 * The model takes tokens, their positions and, for each layer, the keys and values of the tokens before them; it gives logits, and keys and values with
 * those of the new tokens behind. We keep each of them in one place with room for all that is to come, and say so to both sides: past is a view of what is
 * there, present of that and a little more, at the same address. So a step writes what is new, and nothing is ever moved.
 *
 *     [head 0: k k k k k . . .] [head 1: k k k k k . . .]        past: 4 keys of each head      present: 5      room: 8
 *
 * At the end the whole text goes through the model once more, in one run without a cache: the same tokens must come out. */
#include <inttypes.h>
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PROMPT = 8,
    MOST_TOKENS = 100000,
    IDS = 0,
    PLACES = 1,
    PASTS = 2 /* inputs */,
    LOGITS = 0,
    PRESENTS = 1
};

typedef struct decoder {
    sparta_ctx *cx;
    sparta_package *package;
    sparta_session *session;
    int caches;               /* keys and values of every layer */
    int64_t heads, each;      /* of a cache: (1, heads, tokens, each) */
    int64_t vocab, room;      /* tokens that there is room for */
    int64_t *text, *place;    /* [room] tokens and their positions */
    float *logits;            /* [room][vocab] */
    float *cache;             /* [caches][heads][room][each] */
    sparta_named_tensor *in;  /* input_ids, position_ids, caches */
    sparta_named_tensor *out; /* logits, caches */
} decoder;

static int complain(const char *doing, const char *what)
{
    fprintf(stderr, "decode: %s: %s\n", doing, what);
    return 1;
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------ opening */

/* Is the model what this program is for? Its sizes are read off the types of its first cache and its logits. */
static int look(decoder *d)
{
    sparta_tensor cache, logits;
    d->caches = sparta_package_inputs(d->package) - PASTS;
    if (d->caches < 2 || sparta_package_outputs(d->package) != d->caches + PRESENTS)
        return complain("model", "it has no cache; `sparta zoo llama-decode` has");
    sparta_package_output_type(d->package, LOGITS, &logits);
    sparta_package_input_type(d->package, PASTS, &cache);
    if (cache.rank != 4 || cache.dtype != SPARTA_F32 || cache.dim[1] < 1 || cache.dim[3] < 1 ||
        logits.rank != 3 || logits.dtype != SPARTA_F32 || logits.dim[2] < PROMPT)
        return complain("model", "its caches are not (batch, heads, tokens, columns), or it has no logits");
    d->heads = cache.dim[1];
    d->each = cache.dim[3];
    d->vocab = logits.dim[2];
    return 0;
}

static int make_room(decoder *d)
{
    d->text = calloc((size_t)d->room, sizeof *d->text);
    d->place = calloc((size_t)d->room, sizeof *d->place);
    d->logits = calloc((size_t)d->room, (size_t)d->vocab * sizeof *d->logits);
    d->cache = calloc((size_t)d->caches * (size_t)d->heads, (size_t)(d->room * d->each) * sizeof *d->cache);
    d->in = calloc((size_t)(d->caches + PASTS), sizeof *d->in);
    d->out = calloc((size_t)(d->caches + PRESENTS), sizeof *d->out);
    if (!d->text || !d->place || !d->logits || !d->cache || !d->in || !d->out)
        return complain("memory", "there is not enough");
    for (int64_t i = 0; i < d->room; i++) d->place[i] = i;
    for (int i = 0; i < d->caches + PASTS; i++) d->in[i].name = sparta_package_input_name(d->package, i);
    for (int i = 0; i < d->caches + PRESENTS; i++) d->out[i].name = sparta_package_output_name(d->package, i);
    return 0;
}

static int open_model(decoder *d, const char *path)
{
    d->cx = sparta_ctx_create(NULL);
    if (!d->cx) return complain("memory", "there is not enough");
    if (sparta_package_open(d->cx, path, &d->package)) return complain("open", sparta_message(d->cx));
    if (sparta_session_create(d->cx, d->package, NULL, &d->session))
        return complain("session", sparta_message(d->cx));
    return look(d) || make_room(d);
}

static void close_model(decoder *d)
{
    free(d->text), free(d->place), free(d->logits), free(d->cache), free(d->in), free(d->out);
    sparta_session_free(d->session);
    sparta_package_close(d->package);
    sparta_ctx_free(d->cx);
}

/* ------------------------------------------------------------------ running */

/* The first `tokens` tokens of cache i, where they lie. */
static sparta_tensor cached(const decoder *d, int i, int64_t tokens)
{
    const int64_t dim[4] = {1, d->heads, tokens, d->each};
    sparta_tensor t =
        sparta_tensor_view(SPARTA_F32, 4, dim, d->cache + (int64_t)i * d->heads * d->room * d->each);
    t.stride[1] = d->room * d->each; /* heads lie as far apart as there is room */
    t.stride[0] = d->heads * t.stride[1];
    return t;
}

/* Tokens [past, past + n) of the text through the model, whose caches hold those before them. */
static int run(decoder *d, int64_t past, int64_t n)
{
    const int64_t tokens[2] = {1, n}, logits[3] = {1, n, d->vocab};
    d->in[IDS].tensor = sparta_tensor_view(SPARTA_I64, 2, tokens, d->text + past);
    d->in[PLACES].tensor = sparta_tensor_view(SPARTA_I64, 2, tokens, d->place + past);
    d->out[LOGITS].tensor = sparta_tensor_view(SPARTA_F32, 3, logits, d->logits);
    for (int i = 0; i < d->caches; i++) {
        d->in[PASTS + i].tensor = cached(d, i, past);
        d->out[PRESENTS + i].tensor = cached(d, i, past + n);
    }
    if (sparta_session_run_into(d->cx, d->session, d->in, d->caches + PASTS, d->out, d->caches + PRESENTS))
        return complain("run", sparta_message(d->cx));
    return 0;
}

/* The likeliest token after token i of the last run. */
static int64_t likeliest(const decoder *d, int64_t i)
{
    const float *row = d->logits + i * d->vocab;
    int64_t best = 0;
    for (int64_t k = 1; k < d->vocab; k++)
        if (row[k] > row[best]) best = k;
    return best;
}

/* The prompt at once, then token by token until there is no room. */
static int decode(decoder *d)
{
    for (int64_t i = 0; i < PROMPT; i++) d->text[i] = (i * 37 + 11) % d->vocab;
    if (run(d, 0, PROMPT)) return 1;
    d->text[PROMPT] = likeliest(d, PROMPT - 1);
    const double start = now();
    for (int64_t i = PROMPT; i + 1 < d->room; i++) {
        if (run(d, i, 1)) return 1;
        d->text[i + 1] = likeliest(d, 0);
    }
    const double seconds = now() - start;
    for (int64_t i = PROMPT; i < d->room; i++)
        printf("%" PRId64 "%c", d->text[i], i + 1 < d->room ? ' ' : '\n');
    printf("%.0f tokens a second\n", (double)(d->room - PROMPT - 1) / seconds);
    return 0;
}

/* All at once: after each token the same one must be the likeliest. */
static int check(decoder *d)
{
    if (run(d, 0, d->room - 1)) return 1;
    for (int64_t i = PROMPT; i < d->room; i++)
        if (likeliest(d, i - 1) != d->text[i])
            return complain("check", "the whole text at once gives other tokens than one at a time");
    puts("the whole text at once gives the same tokens");
    return 0;
}

int main(int argc, char **argv)
{
    const long tokens = argc > 2 ? atol(argv[2]) : 40;
    if (argc < 2 || argc > 3 || tokens < 2 || tokens > MOST_TOKENS) {
        fputs("usage: decode MODEL.sparta [TOKENS]        2 tokens at least\n", stderr);
        return 2;
    }
    decoder d = {.room = PROMPT + tokens};
    const int failed = open_model(&d, argv[1]) || decode(&d) || check(&d);
    close_model(&d);
    return failed;
}
