/* Any bytes as the text of a schedule. What parses must print to a text that parses and prints to the same, and must match the
 * weights and values of a small graph or say why not. Includes find nothing: their folder does not exist. A sparsifier `mine` is registered. */
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
    sp_text first, second;
    sparta_schedule *again;
    sp_text_init(&first, cx);
    sp_text_init(&second, cx);
    sp_schedule_write(s, &first);
    must(first.status == SPARTA_OK);
    must(sparta_schedule_parse(cx, sp_text_str(&first), "again", FOLDER, &again) == SPARTA_OK);
    sp_schedule_write(again, &second);
    must(!strcmp(sp_text_str(&first), sp_text_str(&second)));
    must(again->n_rules == s->n_rules);
    for (int i = 0; i < s->n_rules; i++)
        for (int k = 0; k < SP_CLAUSES; k++)
            must(!s->rule[i]->clause[k].given ||
                 !strcmp(s->rule[i]->clause[k].means, again->rule[i]->clause[k].means));
    sparta_schedule_free(again);
    sp_text_free(&first);
    sp_text_free(&second);
}

static void match(sparta_ctx *cx, const sparta_schedule *s)
{
    static const char text[] = "graph \"g\"\ninput x: f32[b,8]\nconst w: f32[8,4] @\"a.0.weight\"\n"
                               "const v: f32[8,4] @\"a.1.weight\"\nnode y: ? = MatMul(x, w) \"/a/0\"\n"
                               "node z: ? = Gemm(y, v, _) {transB=1} \"/a/1\"\noutput z\n";
    sp_arena *arena = sp_arena_create(cx);
    sp_graph *g;
    sp_schedule_match *m;
    sp_schedule_edge *e;
    int n;
    must(arena != NULL);
    must(sp_graph_parse(cx, text, fetch, NULL, &g) == SPARTA_OK);
    if (sp_schedule_matches(s, g, arena, &m, &n) == SPARTA_OK)
        must(n <= 2);
    else
        must(*sparta_message(cx) != 0);
    if (sp_schedule_edges(s, g, arena, &e, &n) == SPARTA_OK)
        must(n <= 5); /* three values, and input 0 of two nodes */
    else
        must(*sparta_message(cx) != 0);
    sp_graph_free(g);
    sp_arena_free(arena);
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
    const size_t held = sp_ctx_memory(cx);
    if (sparta_schedule_parse(cx, text, "s", FOLDER, &s) == SPARTA_OK) {
        print_and_parse(cx, s);
        match(cx, s);
        sparta_schedule_free(s);
    } else {
        must(*sparta_message(cx) != 0);
    }
    must(sp_ctx_memory(cx) == held ||
         sp_ctx_slot(cx, SP_SLOT_FORMATS)); /* sums live as long as the context */
    free(text);
    sparta_ctx_free(cx);
    return 0;
}
