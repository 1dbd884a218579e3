/* One sparse product by itself, without a model: create it once, run it from any thread.
 *
 *     cc -O2 operator.c -lsparta -o operator && ./operator
 */
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 100, N = 256, K = 512 };

int main(void)
{
    static float x[TOKENS * K], w[N * K], b[N], y[TOKENS * N];
    for (int i = 0; i < N * K; i++)
        w[i] = i / K / 4 % 10 == i % K % 10 ? 0.01f : 0; /* one block of 4x1 in ten */
    for (int i = 0; i < TOKENS * K; i++) x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < N; i++) b[i] = 0.5f;

    sparta_ctx *cx = sparta_ctx_create(NULL);
    if (!cx) return 1;
    /* Types and dims in the order of the expression; -1 is known when it runs; what has data is constant. */
    const sparta_tensor operand[] = {
        sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){-1, N}, NULL),
        sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){-1, K}, NULL),
        sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){N, K}, w),
        sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){N}, b),
    };
    sparta_operator_spec spec = SPARTA_OPTIONS(sparta_operator_spec);
    spec.expression = "y(m,n) = x(m,k)*w(n,k) + b(n)";
    spec.epilogue = "bias relu";
    spec.n = 4;
    spec.operand = operand;
    sparta_operator *op = NULL;
    if (sparta_operator_create(cx, &spec, &op) != SPARTA_OK) {
        fprintf(stderr, "%s\n", sparta_message(cx));
        sparta_ctx_free(cx);
        return 1;
    }
    printf("it runs as: %s\n", sparta_operator_reason(op));

    const sparta_tensor array[] = {sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){TOKENS, N}, y),
                                   sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){TOKENS, K}, x)};
    char message[200];
    sparta_launch launch = SPARTA_OPTIONS(sparta_launch);
    launch.workspace_bytes = sparta_operator_workspace(op, array, 2, &launch);
    launch.workspace = malloc(launch.workspace_bytes);
    const sparta_status status = sparta_operator_run(op, array, 2, &launch, message, sizeof message);
    if (status == SPARTA_OK)
        printf("y[0][0] = %g\n", (double)y[0]);
    else
        fprintf(stderr, "%s\n", message);
    free(launch.workspace);
    sparta_operator_free(op);
    sparta_ctx_free(cx);
    return status != SPARTA_OK;
}
