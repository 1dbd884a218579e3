/* A sparsifier of your own and a schedule made call by call. It needs libsparta.so.
 *
 *     sparta zoo bert-mini -o mini.onnx
 *     cc schedule.c $(pkg-config --cflags --libs sparta) -o schedule
 *     ./schedule mini.onnx mini.sparta
 *     sparta inspect mini.sparta
 */
#include <sparta.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest magnitudes of each row, `topk` of them, stay. */
static int largest(void *user, sparta_sparsifier_call *call)
{
    const sparta_tensor *w = &call->weight;
    const int64_t n = w->dim[0], k = w->dim[1];
    int64_t topk = 0;
    (void)user;
    for (int i = 0; i < call->n_arguments; i++)
        if (!strcmp(call->argument[i].name, "topk")) topk = atoll(call->argument[i].text);
    if (w->dtype != SPARTA_F32) {
        snprintf(call->message, sizeof call->message, "%s is no float32", call->tensor);
        return 1;
    }
    const float *data = w->data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            const float x = fabsf(data[i * w->stride[0] + j * w->stride[1]]);
            int64_t better = 0;
            for (int64_t l = 0; l < k && better < topk; l++) {
                const float y = fabsf(data[i * w->stride[0] + l * w->stride[1]]);
                better += y > x || (y == x && l < j);
            }
            call->keep[i * k + j] = better < topk;
        }
    return 0;
}

static sparta_status add_sparsifier(sparta_ctx *cx)
{
    static const char *const arguments[] = {"topk", NULL};
    sparta_sparsifier s = SPARTA_OPTIONS(sparta_sparsifier);
    s.name = "largest";
    s.mask = largest;
    s.arguments = arguments;
    s.bound_argument = "topk"; /* no row keeps more: packed[topk] holds it */
    return sparta_sparsifier_register(cx, &s);
}

static sparta_status make_rules(sparta_ctx *cx, sparta_schedule **out)
{
    sparta_schedule *s = NULL;
    sparta_schedule_rule *rule;
    sparta_status status = sparta_schedule_create(cx, NULL, &s);
    if (!status) status = sparta_schedule_tensor(s, "encoder.layer.*.intermediate.dense.weight", &rule);
    if (!status) status = sparta_schedule_sparsify(rule, "largest(topk=16)");
    if (!status) status = sparta_schedule_set_format(rule, "(n,k)->(n:dense, k:packed[16])");
    *out = s;
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: schedule MODEL.onnx MODEL.sparta\n", stderr);
        return 2;
    }
    sparta_compile_options options = SPARTA_OPTIONS(sparta_compile_options);
    sparta_schedule *rules = NULL;
    const char *text = "";
    sparta_ctx *cx = sparta_ctx_create(NULL);
    if (!cx) return 1;
    sparta_status status = add_sparsifier(cx);
    if (!status) status = make_rules(cx, &rules);
    if (!status) status = sparta_schedule_print(rules, &text);
    if (!status) {
        printf("%s", text); /* the same as a text */
        options.rules = rules;
        options.no_measure = 1;
        status = sparta_compile(cx, argv[1], argv[2], &options);
    }
    if (status) fprintf(stderr, "schedule: %s\n", sparta_message(cx));
    sparta_schedule_free(rules);
    sparta_ctx_free(cx);
    return status ? 1 : 0;
}
