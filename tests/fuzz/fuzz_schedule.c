/* Any bytes as the text of a schedule. What parses must print to a text that parses and prints to the same, and must match the
 * weights of a small graph or say why not. Includes find nothing: their folder does not exist. A sparsifier `mine` is registered. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "schedule/schedule.h"

#define FOLDER "/nonexistent/schedules"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) abort();
}

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    static float numbers[64];
    (void)arg, (void)name;
    out->data = numbers;
    return SPARTA_OK;
}

static void print_and_parse(sparta_ctx *cx, const sparta_schedule *s)
{
    sparta_text first, second;
    sparta_schedule *again;
    sparta_text_init(&first, cx);
    sparta_text_init(&second, cx);
    sparta_schedule_write(s, &first);
    must(first.status == SPARTA_OK);
    must(sparta_schedule_parse(cx, sparta_text_str(&first), "again", FOLDER, &again) == SPARTA_OK);
    sparta_schedule_write(again, &second);
    must(!strcmp(sparta_text_str(&first), sparta_text_str(&second)));
    must(again->n_rules == s->n_rules);
    for (int i = 0; i < s->n_rules; i++)
        for (int k = 0; k < SPARTA_CLAUSES; k++)
            must(!s->rule[i]->clause[k].given ||
                 !strcmp(s->rule[i]->clause[k].means, again->rule[i]->clause[k].means));
    sparta_schedule_free(again);
    sparta_text_free(&first);
    sparta_text_free(&second);
}

static void match(sparta_ctx *cx, const sparta_schedule *s)
{
    static const char text[] = "graph \"g\"\ninput x: f32[b,8]\nconst w: f32[8,4] @\"a.0.weight\"\n"
                               "const v: f32[8,4] @\"a.1.weight\"\nnode y: ? = MatMul(x, w) \"/a/0\"\n"
                               "node z: ? = Gemm(y, v, _) {transB=1} \"/a/1\"\noutput z\n";
    sparta_arena *arena = sparta_arena_create(cx);
    sparta_graph *g;
    sparta_schedule_match *m;
    int n;
    must(arena != NULL);
    must(sparta_graph_parse(cx, text, fetch, NULL, &g) == SPARTA_OK);
    if (sparta_schedule_matches(s, g, arena, &m, &n) == SPARTA_OK)
        must(n <= 2);
    else
        must(*sparta_message(cx) != 0);
    sparta_graph_free(g);
    sparta_arena_free(arena);
}

static int all(void *user, sparta_sparsifier_call *call)
{
    (void)user, (void)call;
    return 0;
}

static void add_mine(sparta_ctx *cx)
{
    static const char *const arguments[] = {"ratio", "topk?", NULL};
    const sparta_sparsifier s = {
        .size = sizeof s, .name = "mine", .mask = all, .arguments = arguments, .bound_argument = "topk"};
    must(sparta_sparsifier_register(cx, &s) == SPARTA_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx *cx =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 16 << 20});
    char *text = malloc(size + 1);
    sparta_schedule *s;
    if (!cx || !text || size > 1 << 16) {
        free(text);
        sparta_ctx_free(cx);
        return 0;
    }
    if (size) memcpy(text, data, size);
    text[size] = 0;
    add_mine(cx);
    const size_t held = sparta_ctx_memory(cx);
    if (sparta_schedule_parse(cx, text, "s", FOLDER, &s) == SPARTA_OK) {
        print_and_parse(cx, s);
        match(cx, s);
        sparta_schedule_free(s);
    } else {
        must(*sparta_message(cx) != 0);
    }
    must(sparta_ctx_memory(cx) == held ||
         sparta_ctx_slot(cx, SPARTA_SLOT_FORMATS)); /* sums live as long as the context */
    free(text);
    sparta_ctx_free(cx);
    return 0;
}
