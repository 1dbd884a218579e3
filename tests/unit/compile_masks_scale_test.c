/* Files of very many masks: the time grows with their number, not with its square. */
#include "models.h"
#include "arrays/arrays.h"
#include <time.h>

/* Processor seconds to apply n masks to n weights. */
static double seconds(int n)
{
    sp_text t;
    sp_graph *g = NULL;
    float one = 1;
    const sparta_tensor mask = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){1}, &one);
    sparta_tensor *masks = calloc((size_t)n, sizeof *masks);
    char(*text)[16] = calloc((size_t)n, sizeof *text);
    const char **name = calloc((size_t)n, sizeof *name);
    assert_true(masks && text && name);
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"g\"\ninput x: f32[1]\n");
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "weight%d", i);
        name[i] = text[i];
        masks[i] = mask;
        sp_text_printf(&t, "const %s: f32[1] = [2]\n", name[i]);
    }
    sp_text_printf(&t, "output x\n");
    assert_int_equal(sp_graph_parse(cx, sp_text_str(&t), NULL, NULL, &g), SPARTA_OK);
    assert_int_equal(sp_npz_write(cx, in_root("m.npz"), n, name, masks), SPARTA_OK);
    const clock_t start = clock();
    assert_int_equal(sp_compile_masks(cx, g, in_root("m.npz"), NULL), SPARTA_OK);
    const double taken = (double)(clock() - start) / CLOCKS_PER_SEC;
    sp_graph_free(g);
    sp_text_free(&t);
    free(masks);
    free(text);
    free(name);
    return taken;
}

static void many_masks(void **state)
{
    (void)state;
    const double some = seconds(12000), more = seconds(48000);
    if (more > 8 * some + 0.2) fail_msg("%.2f s for 12,000 masks and %.2f s for 48,000", some, more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_masks)};
    return cmocka_run_group_tests(tests, enter, leave);
}
