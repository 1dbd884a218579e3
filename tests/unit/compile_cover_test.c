/* Covers, executed: a mask as a sum of parts, blocks of several sizes and what is left of them. Each part is a layer of its own with its own
 * implement; their outputs together are those of the whole. */
#include "models.h"
#include "tesa/tesa.h"

enum { N = 96, K = 128 };
static const char text[] =
    "graph \"g\"\ninput x: f32[batch,128]\nconst w: f32[96,128] @\"w\"\n"
    "node t: ? = Transpose(w) {perm=[1,0]} \"t\"\nnode y: ? = MatMul(x, t) \"y\"\noutput y\n";

/* The layer with the elements of a mask only. */
static sp_graph *layer(const sp_mask *m)
{
    sp_graph *g = graph(text);
    float *w = sp_graph_find(g, "w")->constant->data;
    for (int64_t i = 0; i < N * K; i++)
        if (!sp_mask_get(m, i / K, i % K)) w[i] = 0;
    return g;
}

static results outputs_of(const sp_mask *m, const inputs *in, int threads)
{
    sparta_package *p = compile(layer(m));
    sparta_session *s = session(p, threads);
    results r = run(s, p, in);
    sparta_session_free(s);
    sparta_package_close(p);
    return r;
}

/* Blocks of 32x32 and of 4x4 here and there, an element now and then. */
static void scatter(sp_mask *m, uint64_t seed)
{
    sp_rng rng = sp_rng_seed(seed);
    static const struct {
        int64_t size;
        double share;
    } parts[] = {{32, .3}, {4, .1}, {1, .05}};
    for (size_t p = 0; p < SP_COUNT(parts); p++)
        for (int64_t i = 0; i < N; i += parts[p].size)
            for (int64_t j = 0; j < K; j += parts[p].size) {
                if (sp_rng_uniform(&rng) >= parts[p].share * (double)(seed % 3)) continue;
                for (int64_t e = 0; e < parts[p].size * parts[p].size; e++)
                    sp_mask_set(m, i + e / parts[p].size, j + e % parts[p].size);
            }
}

static void parts_add_up(void **state)
{
    (void)state;
    static const sp_cover_size sizes[] = {{32, 32, 4, 1, 8}, {4, 4, 2, 1, 4}, {1, 1, 0, 3, 0}};
    sp_graph *plain = typed(graph(text));
    inputs in = make_inputs(plain, 70, 1, 5);
    for (uint64_t seed = 0; seed < 9; seed++) { /* every third is empty */
        sp_mask m;
        sp_cover cover;
        ok(sp_mask_create(cx, N, K, &m));
        scatter(&m, seed);
        ok(sp_mask_cover(cx, &m, sizes, 3, &cover));
        results whole = outputs_of(&m, &in, 1 + (int)seed % 2), sum = {0};
        for (int p = 0; p < cover.parts; p++) {
            results part = outputs_of(&cover.part[p].mask, &in, 1);
            float *into = p ? sum.t[0].data : NULL, *from = part.t[0].data;
            for (int64_t i = 0; p && i < sparta_tensor_elements(&part.t[0]); i++) into[i] += from[i];
            if (p)
                free_results(&part);
            else
                sum = part;
        }
        close_enough(&sum, &whole, 1e-5, "a cover");
        free_results(&sum), free_results(&whole);
        sp_cover_free(cx, &cover);
        sp_mask_free(cx, &m);
    }
    free_inputs(&in);
    sp_graph_free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_add_up)};
    return cmocka_run_group_tests(tests, enter, leave);
}
