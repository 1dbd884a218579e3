/* A sparsifier of your own for the program, as a plugin. It needs nothing to be linked with: the program has the functions of sparta.h.
 *
 *     cc -shared -fPIC plugin.c $(pkg-config --cflags sparta) -o plugin.so
 *     sparta zoo bert-mini -o mini.onnx
 *     printf 'tensor "encoder.*.weight" { sparsify stripes(every=4) }\n' > mini.sched
 *     sparta compile mini.onnx --schedule mini.sched --plugin ./plugin.so -o mini.sparta
 *     sparta inspect mini.sparta
 */
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of every `every` inputs one stays, in rows of four outputs the same. */
static int stripes(void *user, sparta_sparsifier_call *call)
{
    const int64_t n = call->weight.dim[0], k = call->weight.dim[1];
    int64_t every = 0;
    (void)user;
    for (int i = 0; i < call->n_arguments; i++)
        if (!strcmp(call->argument[i].name, "every")) every = atoll(call->argument[i].text);
    if (every < 1) {
        snprintf(call->message, sizeof call->message, "every must be at least 1");
        return 1;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) call->keep[i * k + j] = (i / 4 + j) % every == 0;
    return 0;
}

sparta_status sparta_plugin(sparta_ctx *cx)
{
    static const char *const arguments[] = {"every", NULL};
    const sparta_sparsifier s = {
        .size = sizeof s, .name = "stripes", .mask = stripes, .arguments = arguments};
    return sparta_sparsifier_register(cx, &s);
}
