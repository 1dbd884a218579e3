/* Opens a compiled model and runs it: what a program that serves a model does. It needs only libsparta_rt.so.
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

/* Small ids for text, ones for a mask, zeros for segments; floats between -1 and 1. */
static void fill(const char *name, sparta_tensor *t)
{
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++) {
        const int64_t id = strstr(name, "mask") ? 1 : strstr(name, "type") ? 0 : (i * 37 + 11) % 1000;
        if (t->dtype == SPARTA_F32)
            ((float *)t->data)[i] = (float)(id % 200) / 100 - 1;
        else
            ((int64_t *)t->data)[i] = id;
    }
}

/* Memory for input i: what the model leaves open is `batch` in front and `sequence` further on. */
static int make_input(const sparta_package *package, int i, int64_t batch, int64_t sequence,
                      sparta_named_tensor *out)
{
    sparta_tensor t;
    sparta_package_input_type(package, i, &t);
    for (int d = 0; d < t.rank; d++)
        if (t.dim[d] < 0) t.dim[d] = d ? sequence : batch;
    if (t.dtype != SPARTA_F32 && t.dtype != SPARTA_I64) return 1; /* this example knows ids and floats */
    out->name = sparta_package_input_name(package, i);
    out->tensor = sparta_tensor_view(t.dtype, t.rank, t.dim, NULL);
    out->tensor.data = calloc((size_t)sparta_tensor_elements(&out->tensor) + 1, sparta_dtype_size(t.dtype));
    if (!out->tensor.data) return 1;
    fill(out->name, &out->tensor);
    return 0;
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
    sparta_named_tensor input[MOST_INPUTS] = {{0}}, output = {.name = sparta_package_output_name(package, 0)};
    const int n = sparta_package_inputs(package);
    int failed = n > MOST_INPUTS;
    for (int i = 0; i < n && !failed; i++) failed = make_input(package, i, batch, sequence, &input[i]);
    if (!failed && sparta_session_run(cx, session, input, n, &output, 1))
        failed = complain(cx, "run");
    else if (!failed)
        print_output(output.name, &output.tensor);
    for (int i = 0; i < n && i < MOST_INPUTS; i++) free(input[i].tensor.data);
    return failed;
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
