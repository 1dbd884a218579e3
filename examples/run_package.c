/* Opens a compiled BERT and runs it: what a program that serves a model does. It needs only libsparta_rt.so.
 *
 *     sparta zoo bert-mini --prune 4x1:0.9 -o mini.onnx && sparta compile mini.onnx -o mini.sparta
 *     cc run_package.c $(pkg-config --cflags --libs sparta_rt) -o run_package
 *     ./run_package mini.sparta 2 100
 */
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 8 };

static int complain(const sparta_ctx *cx, const char *doing)
{
    fprintf(stderr, "run_package: %s: %s\n", doing, sparta_message(cx));
    return 1;
}

/* Token ids, (batch, sequence): any ids for the text, ones for the mask, zeros for the segment. */
static void fill(const char *name, int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ids[i] = strstr(name, "mask") ? 1 : strstr(name, "type") ? 0 : (i * 37 + 11) % 1000;
}

/* One line for an output: its name, its shape, its mean. */
static void print_output(const char *name, const sparta_tensor *t)
{
    const float *value = t->data;
    int64_t n = sparta_tensor_elements(t);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += value[i];
    printf("%s: %s", name, sparta_dtype_name(t->dtype));
    for (int d = 0; d < t->rank; d++) printf("%s%lld", d ? "," : "[", (long long)t->dim[d]);
    printf("] mean %.6f\n", n ? sum / (double)n : 0.0);
}

static int run(sparta_ctx *cx, sparta_session *session, const sparta_package *package, int64_t batch,
               int64_t sequence)
{
    sparta_named_tensor input[MOST_INPUTS], output = {.name = sparta_package_output_name(package, 0)};
    int64_t dim[2] = {batch, sequence};
    int n = sparta_package_inputs(package);
    if (n > MOST_INPUTS) return 1;
    int64_t *ids = calloc((size_t)n * (size_t)(batch * sequence), sizeof *ids);
    if (!ids) return 1;
    for (int i = 0; i < n; i++) {
        int64_t *mine = ids + i * batch * sequence;
        input[i].name = sparta_package_input_name(package, i);
        input[i].tensor = sparta_tensor_view(SPARTA_I64, 2, dim, mine);
        fill(input[i].name, mine, batch * sequence);
    }
    sparta_status status = sparta_session_run(cx, session, input, n, &output, 1);
    if (status == SPARTA_OK) print_output(output.name, &output.tensor);
    free(ids);
    return status == SPARTA_OK ? 0 : complain(cx, "run");
}

int main(int argc, char **argv)
{
    int64_t batch = argc > 2 ? atol(argv[2]) : 1, sequence = argc > 3 ? atol(argv[3]) : 128;
    if (argc < 2 || batch < 1 || sequence < 1 || batch > 1024 || sequence > 65536) {
        fputs("usage: run_package MODEL.sparta [BATCH [SEQUENCE]]\n", stderr);
        return 2;
    }
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sparta_package *package = NULL;
    sparta_session *session = NULL;
    int failed;
    if (!cx) return 1;
    if (sparta_package_open(cx, argv[1], &package))
        failed = complain(cx, "open");
    else if (sparta_session_create(cx, package, NULL, &session))
        failed = complain(cx, "session");
    else
        failed = run(cx, session, package, batch, sequence);
    sparta_session_free(session);
    sparta_package_close(package);
    sparta_ctx_free(cx);
    return failed;
}
