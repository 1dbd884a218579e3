/* Compiles an ONNX model into a package and opens it: the whole walk from C. It needs libsparta.so.
 *
 *     sparta zoo bert-mini --prune 4x1:0.9 -o mini.onnx
 *     cc compile_and_run.c $(pkg-config --cflags --libs sparta) -o compile_and_run
 *     ./compile_and_run mini.onnx mini.sparta
 */
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>

static int complain(const sparta_ctx *cx, const char *doing)
{
    fprintf(stderr, "compile_and_run: %s: %s\n", doing, sparta_message(cx));
    return 1;
}

/* One item of 16 tokens, the same ids for every input: enough to see an answer. */
static int run_once(sparta_ctx *cx, sparta_session *session, const sparta_package *package)
{
    static int64_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t dim[2] = {1, 16};
    sparta_named_tensor input[8], output = {.name = sparta_package_output_name(package, 0)};
    int n = sparta_package_inputs(package);
    if (n > 8) return 1;
    for (int i = 0; i < n; i++) {
        input[i].name = sparta_package_input_name(package, i);
        input[i].tensor = sparta_tensor_view(SPARTA_I64, 2, dim, ones);
    }
    if (sparta_session_run(cx, session, input, n, &output, 1)) return complain(cx, "run");
    printf("%s: %lld values, the first is %g\n", output.name,
           (long long)sparta_tensor_elements(&output.tensor), (double)*(const float *)output.tensor.data);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: compile_and_run MODEL.onnx MODEL.sparta\n", stderr);
        return 2;
    }
    sparta_compile_options options = SPARTA_OPTIONS(sparta_compile_options);
    sparta_session_options threads = SPARTA_OPTIONS(sparta_session_options);
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sparta_package *package = NULL;
    sparta_session *session = NULL;
    int failed;
    if (!cx) return 1;
    options.no_measure = 1; /* choose by the cost model: quick, for an example */
    threads.threads = 2;
    if (sparta_compile(cx, argv[1], argv[2], &options))
        failed = complain(cx, "compile");
    else if (sparta_package_open(cx, argv[2], &package))
        failed = complain(cx, "open");
    else if (sparta_session_create(cx, package, &threads, &session))
        failed = complain(cx, "session");
    else
        failed = run_once(cx, session, package);
    sparta_session_free(session);
    sparta_package_close(package);
    sparta_ctx_free(cx);
    return failed;
}
