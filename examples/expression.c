/* A kernel for an expression over a format of one's own: where a mask has elements, the dots of queries and keys (a sampled product),
 * then those times the values. The mask lies in bands of 4 rows, which no library has a kernel for.
 *
 *     cc -O2 expression.c -lsparta -o expression && ./expression
 */
#include <math.h>
#include <sparta.h>
#include <stdio.h>

enum { TOKENS = 96, WIDTH = 32 };
static float mask[TOKENS * TOKENS], q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH],
    y[TOKENS * WIDTH];

static sparta_named_tensor matrix(const char *name, int64_t rows, int64_t cols, float *data)
{
    const int64_t dim[] = {rows, cols};
    return (sparta_named_tensor){name, sparta_tensor_view(SPARTA_F32, 2, dim, data)};
}

/* Each token sees its own block of 4, the one before, and the first token. */
static int sees(int i, int j)
{
    return !j || (i / 4 - j / 4 >= 0 && i / 4 - j / 4 <= 1);
}

/* The same by loops over everything. */
static double largest_difference(void)
{
    double worst = 0;
    for (int i = 0; i < TOKENS; i++)
        for (int n = 0; n < WIDTH; n++) {
            double sum = 0;
            for (int j = 0; j < TOKENS; j++) {
                double dot = 0;
                for (int f = 0; f < WIDTH && sees(i, j); f++)
                    dot += (double)q[i * WIDTH + f] * k[j * WIDTH + f];
                sum += dot * v[j * WIDTH + n];
            }
            worst = fmax(worst, fabs(sum - y[i * WIDTH + n]));
        }
    return worst;
}

static sparta_status scores(sparta_ctx *cx, sparta_expression **out)
{
    static const char *const bands = "(i,j)->(i/4:dense, j:compressed, i%4:dense)";
    const sparta_expression_operand operand[] = {
        {.name = "M", .format = bands, .tensor = matrix("M", TOKENS, TOKENS, mask).tensor},
        {.name = "S", .format = bands}, /* stored as the mask is, value for value */
    };
    sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
    spec.text = "S(i,j) = M(i,j)*Q(i,f)*K(j,f)";
    spec.operand = operand;
    spec.n = 2;
    return sparta_expression_create(cx, &spec, out);
}

/* What the first one computes is read where it lies: nothing is packed again. */
static sparta_status weighted(sparta_ctx *cx, const sparta_expression *first, sparta_expression **out)
{
    const sparta_expression_operand s = {.name = "S", .packed = sparta_expression_result(first, "S")};
    sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
    spec.text = "Y(i,n) = S(i,j)*V(j,n)";
    spec.operand = &s;
    spec.n = 1;
    return sparta_expression_create(cx, &spec, out);
}

int main(void)
{
    sparta_expression *first = NULL, *second = NULL;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    if (!cx) return 1;
    for (int i = 0; i < TOKENS * TOKENS; i++) mask[i] = sees(i / TOKENS, i % TOKENS) ? 1 : 0;
    for (int i = 0; i < TOKENS * WIDTH; i++) v[i] = (float)(i % 5) - 2, k[i] = (float)(i % 7) / 8;
    sparta_status status = scores(cx, &first);
    if (!status) status = weighted(cx, first, &second);
    if (!status) printf("%s%s", sparta_expression_nest(first), sparta_expression_nest(second));
    for (int run = 0; run < 3 && !status; run++) { /* other queries, the same kernels */
        for (int i = 0; i < TOKENS * WIDTH; i++) q[i] = (float)((i + run) % 11) / 16;
        const sparta_named_tensor in[] = {matrix("Q", TOKENS, WIDTH, q), matrix("K", TOKENS, WIDTH, k)},
                                  values = matrix("V", TOKENS, WIDTH, v), out = matrix("Y", TOKENS, WIDTH, y);
        status = sparta_expression_run(first, in, 2, NULL, 0);
        if (!status) status = sparta_expression_run(second, &values, 1, &out, 1);
        if (!status && largest_difference() > 1e-3) status = SPARTA_E_DIFFER;
        if (!status) printf("run %d: within 1e-3 of loops over everything\n", run);
    }
    if (status) fprintf(stderr, "%s: %s\n", sparta_status_name(status), sparta_message(cx));
    sparta_expression_free(second);
    sparta_expression_free(first);
    sparta_ctx_free(cx);
    return status != SPARTA_OK;
}
