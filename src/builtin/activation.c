/* The activations of activation.h. */
#include "builtin/activation.h"
#include <math.h>

static double none(double x)
{
    return x;
}

static double relu(double x)
{
    return x < 0 ? 0 : x; /* NaN stays NaN */
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); /* 1 / sqrt 2 */
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); /* sqrt(2 / pi) */
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

sp_activation sp_activation_find(const char *name)
{
    static const struct {
        const char *name;
        sp_activation f;
    } table[] = {{"", none},     {"relu", relu},      {"gelu", gelu}, {"gelu_tanh", gelu_tanh},
                 {"tanh", tanh}, {"sigmoid", sigmoid}};
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].name, name)) return table[i].f;
    return NULL;
}
