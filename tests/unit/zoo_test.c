/* The zoo: the table says the truth, the same seed gives the same bytes, pruning touches the right layers,
 * wrong sizes are refused. */
#include "bed.h"
#include "zoo/zoo.h"
#include <math.h>

static int64_t parameters(const sp_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->constant && g->value[i]->dtype == SPARTA_F32 && g->value[i]->dims.rank > 0)
            n += sparta_tensor_elements(g->value[i]->constant);
    return n;
}

static sp_graph *build(const char *name, uint64_t seed, const sp_prune_spec *prune, int n,
                       const char *const *dim, const int64_t *value)
{
    sp_zoo_request r = {.name = name, .seed = seed, .prune = prune, .dims = {n, dim, value}};
    sp_graph *g = NULL;
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_OK);
    return g;
}

/* bert-large, gpt2-small and dlrm take half a gigabyte and more: their numbers are checked from those of one layer and two, of one row of each table and two. */
static void table_counts_parameters(void **state)
{
    (void)state;
    for (int i = 0; i < sp_zoo_count(); i++) {
        const sp_zoo_model *m = sp_zoo_row(i);
        int64_t counted;
        const bool gpt2 = !strcmp(m->name, "gpt2-small"), dlrm = !strcmp(m->name, "dlrm");
        const bool bert = !strncmp(m->name, "bert", 4);
        if (!bert && !dlrm && !gpt2) {
            sp_graph *g = build(m->name, 0, NULL, 0, NULL, NULL);
            counted = parameters(g);
            sp_graph_free(g);
        } else {
            int64_t at[2];
            const int64_t layers = dlrm                      ? 100000
                                   : strstr(m->name, "mini") ? 4
                                   : strstr(m->name, "base") ? 12
                                   : gpt2                    ? 12
                                                             : 24;
            for (int64_t n = 1; n <= 2; n++) {
                sp_graph *g = build(m->name, 0, NULL, 1, (const char *const[]){dlrm ? "rows" : "layers"}, &n);
                at[n - 1] = parameters(g);
                sp_graph_free(g);
            }
            counted = at[0] + (layers - 1) * (at[1] - at[0]);
        }
        assert_int_equal(counted, m->parameters);
    }
    assert_null(sp_zoo_row(-1));
    assert_null(sp_zoo_row(sp_zoo_count()));
}

static const char *const small_name[] = {"layers", "hidden", "heads", "ffn", "vocab", "positions"};
static const int64_t small_size[] = {2, 32, 2, 64, 50, 24};

static sp_graph *small(uint64_t seed, const sp_prune_spec *prune)
{
    return build("bert-mini", seed, prune, 6, small_name, small_size);
}

static const sparta_tensor *weight(const sp_graph *g, const char *name)
{
    const sp_value *v = sp_graph_find(g, name);
    assert_non_null(v);
    assert_non_null(v->constant);
    return v->constant;
}

static double density(const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t), kept = 0;
    for (int64_t i = 0; i < n; i++) kept += ((const float *)t->data)[i] != 0;
    return (double)kept / (double)n;
}

static uint64_t digest(const sp_graph *g)
{
    uint64_t h = 0;
    for (int i = 0; i < g->n_values; i++) {
        const sparta_tensor *t = g->value[i]->constant;
        if (t) h = sp_hash(t->data, (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype), h);
    }
    return h;
}

static void same_seed_same_bytes(void **state)
{
    (void)state;
    sp_graph *a = small(7, NULL), *b = small(7, NULL), *c = small(8, NULL);
    assert_true(digest(a) == digest(b));
    assert_true(digest(a) != digest(c));
    sp_graph_free(a);
    sp_graph_free(b);
    sp_graph_free(c);
}

/* The numbers themselves, so that another machine or compiler that makes others is found. */
static void first_weights_are_known(void **state)
{
    (void)state;
    sp_graph *g = build("mlp", 1, NULL, 0, NULL, NULL);
    const sparta_tensor *w = weight(g, "fc1.weight");
    uint64_t h = sp_hash(w->data, 512 * 784 * 4, 0);
    assert_int_equal(h, UINT64_C(0xf5b033440bfd0494));
    sp_graph_free(g);
}

static void weights_look_normal(void **state)
{
    (void)state;
    sp_graph *g =
        build("bert-mini", 3, NULL, 2, (const char *const[]){"layers", "vocab"}, (int64_t[]){1, 10});
    const sparta_tensor *t = weight(g, "encoder.layer.0.intermediate.dense.weight");
    int64_t n = sparta_tensor_elements(t), beyond = 0;
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = ((const float *)t->data)[i];
        sum += x;
        square += x * x;
        beyond += fabs(x) > 0.04;
    }
    assert_int_equal(n, 256 * 1024);
    assert_true(fabs(sum / (double)n) < 0.0002);
    assert_true(fabs(sqrt(square / (double)n) - 0.02) < 0.0002);
    assert_true(beyond > n * 3 / 100 && beyond < n * 6 / 100);
    assert_true(density(t) == 1.0);
    double gain = ((const float *)weight(g, "encoder.layer.0.output.LayerNorm.weight")->data)[0];
    assert_true(gain > 0.7 && gain < 1.3);
    sp_graph_free(g);
}

static void prunes_only_the_encoder(void **state)
{
    (void)state;
    static const char *const pruned[] = {"attention.self.query", "attention.self.key",
                                         "attention.self.value", "attention.output.dense",
                                         "intermediate.dense",   "output.dense"};
    sp_prune_spec spec;
    assert_int_equal(sp_prune_parse(cx, "4x1:0.75", &spec), SPARTA_OK);
    sp_graph *g = small(1, &spec);
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < SP_COUNT(pruned); i++) {
            char name[128];
            snprintf(name, sizeof name, "encoder.layer.%d.%s.weight", layer, pruned[i]);
            const sparta_tensor *t = weight(g, name); /* (in, out): blocks of 4 along the second dimension */
            assert_true(fabs(density(t) - 0.25) < 0.01);
            const float *w = t->data;
            for (int64_t j = 0; j < sparta_tensor_elements(t); j += 4) {
                int kept = (w[j] != 0) + (w[j + 1] != 0) + (w[j + 2] != 0) + (w[j + 3] != 0);
                assert_true(kept == 0 || kept == 4);
            }
        }
    assert_true(density(weight(g, "embeddings.word_embeddings.weight")) == 1.0);
    assert_true(density(weight(g, "encoder.layer.0.output.dense.bias")) == 1.0);
    sp_graph_free(g);
    g = build("mlp", 1, &spec, 0, NULL, NULL);
    assert_true(fabs(density(weight(g, "fc1.weight")) - 0.25) < 0.01);
    assert_true(fabs(density(weight(g, "fc2.weight")) - 0.25) < 0.01);
    assert_true(density(weight(g, "fc3.weight")) == 1.0);
    sp_graph_free(g);
}

static void prunes_all_of_dlrm_but_both_ends(void **state)
{
    (void)state;
    static const char *const pruned[] = {"bot_l.2", "bot_l.4", "top_l.0", "top_l.2", "top_l.4", "top_l.6"};
    static const char *const dense[] = {"bot_l.0", "top_l.8", "emb_l.0", "emb_l.25"};
    sp_prune_spec spec;
    char name[64];
    assert_int_equal(sp_prune_parse(cx, "16x4:0.85", &spec), SPARTA_OK);
    sp_graph *g = build("dlrm", 1, &spec, 1, (const char *const[]){"rows"}, (int64_t[]){7});
    for (size_t i = 0; i < SP_COUNT(pruned); i++) {
        snprintf(name, sizeof name, "%s.weight", pruned[i]);
        assert_true(fabs(density(weight(g, name)) - 0.15) < 0.01);
    }
    for (size_t i = 0; i < SP_COUNT(dense); i++) {
        snprintf(name, sizeof name, "%s.weight", dense[i]);
        assert_true(density(weight(g, name)) == 1.0);
    }
    assert_int_equal(weight(g, "top_l.0.weight")->dim[1], 479);
    assert_int_equal(g->n_inputs, 2);
    assert_string_equal(g->input[0]->name, "dense");
    assert_int_equal(g->input[1]->dtype, SPARTA_I64);
    assert_true(sp_expr_is(g->input[1]->dims.dim[1], 26));
    assert_string_equal(g->output[0]->name, "probability");
    sp_graph_free(g);
}

/* What torchvision's models have, counted there: parameters and running statistics. */
static void images_are_those_of_torchvision(void **state)
{
    (void)state;
    static const struct {
        const char *model, *weight;
        int64_t dim[4];
    } known[] = {{"resnet50", "conv1.weight", {64, 3, 7, 7}},
                 {"resnet50", "layer3.0.conv3.weight", {1024, 256, 1, 1}},
                 {"resnet50", "layer4.0.downsample.0.weight", {2048, 1024, 1, 1}},
                 {"mobilenet-v2", "features.0.0.weight", {32, 3, 3, 3}},
                 {"mobilenet-v2", "features.1.conv.0.0.weight", {32, 1, 3, 3}},
                 {"mobilenet-v2", "features.17.conv.2.weight", {320, 960, 1, 1}},
                 {"unet", "up1.up.weight", {512, 256, 2, 2}},
                 {"unet", "down4.maxpool_conv.1.double_conv.3.weight", {512, 512, 3, 3}},
                 {"densenet-small", "features.denseblock3.denselayer8.conv2.weight", {12, 48, 3, 3}},
                 {"densenet-small", "features.transition1.conv.weight", {60, 120, 1, 1}}};
    for (size_t i = 0; i < SP_COUNT(known); i++) {
        sp_graph *g = build(known[i].model, 1, NULL, 0, NULL, NULL);
        const sparta_tensor *t = weight(g, known[i].weight);
        assert_int_equal(t->rank, 4);
        assert_memory_equal(t->dim, known[i].dim, sizeof known[i].dim);
        sp_graph_free(g);
    }
}

static void prunes_all_filters_but_the_first(void **state)
{
    (void)state;
    sp_prune_spec spec;
    assert_int_equal(sp_prune_parse(cx, "1x1:0.75", &spec), SPARTA_OK);
    sp_graph *g = build("resnet50", 1, &spec, 1, (const char *const[]){"width"}, (int64_t[]){16});
    assert_true(density(weight(g, "conv1.weight")) == 1.0);
    assert_true(density(weight(g, "fc.weight")) == 1.0);
    assert_true(fabs(density(weight(g, "layer1.0.conv1.weight")) - 0.25) < 0.01);
    assert_true(fabs(density(weight(g, "layer4.2.conv3.weight")) - 0.25) < 0.01);
    assert_true(fabs(density(weight(g, "layer2.0.downsample.0.weight")) - 0.25) < 0.01);
    sp_graph_free(g);
    g = build("mobilenet-v2", 1, &spec, 0, NULL, NULL);
    assert_true(density(weight(g, "features.5.conv.1.0.weight")) == 1.0); /* depthwise */
    assert_true(fabs(density(weight(g, "features.5.conv.0.0.weight")) - 0.25) < 0.01);
    sp_graph_free(g);
}

static void interface_is_as_documented(void **state)
{
    (void)state;
    static const char *const inputs[] = {"input_ids", "attention_mask", "token_type_ids"};
    sp_graph *g = small(1, NULL);
    assert_int_equal(g->n_inputs, 3);
    for (int i = 0; i < 3; i++) {
        const char *symbol;
        assert_string_equal(g->input[i]->name, inputs[i]);
        assert_int_equal(g->input[i]->dtype, SPARTA_I64);
        assert_true(sp_expr_is_symbol(g->input[i]->dims.dim[0], &symbol));
        assert_string_equal(symbol, "batch");
    }
    assert_int_equal(g->n_outputs, 1);
    assert_string_equal(g->output[0]->name, "last_hidden_state");
    assert_int_equal(g->output[0]->dims.rank, 3);
    sp_graph_free(g);
    g = build("mlp", 1, NULL, 1, (const char *const[]){"batch"}, (int64_t[]){5});
    assert_true(sp_expr_is(g->input[0]->dims.dim[0], 5));
    assert_true(sp_expr_is(g->output[0]->dims.dim[1], 10));
    sp_graph_free(g);
}

static void refuse(const char *name, const char *dim, int64_t value, const char *says)
{
    sp_zoo_request r = {.name = name, .dims = {dim ? 1 : 0, &dim, &value}};
    sp_graph *g = NULL;
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_E_USAGE);
    assert_null(g);
    assert_non_null(strstr(sparta_message(cx), says));
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    refuse("bert-bsae", NULL, 0, "did you mean bert-base");
    refuse("", NULL, 0, "there is no model");
    refuse("bert-mini", "hiden", 8, "layers hidden heads");
    refuse("bert-mini", "heads", 7, "no multiple");
    refuse("bert-mini", "heads", 0, "from 1");
    refuse("bert-mini", "layers", -4, "from 1");
    refuse("bert-mini", "layers", 100000, "at most 1000");
    refuse("mlp", "sequence", 3, "no size");
    refuse("dlrm", "tables", 1001, "at most 1000");
    refuse("dlrm", "rows", 0, "from 1");
    refuse("dlrm", "hidden", 3, "rows tables columns");
    refuse("unet", "image", 40, "no multiple of 16");
    refuse("resnet50", "image", 0, "from 1");
    refuse("densenet-small", "layers", 101, "at most 100");
}

/* A model that does not fit the budget is an error, and every allocation may fail. */
static void memory_may_fail(void **state)
{
    (void)state;
    const char *name = "hidden";
    int64_t huge = INT32_MAX - INT32_MAX % 4;
    sp_zoo_request r = {.name = "bert-mini", .dims = {1, &name, &huge}};
    sp_graph *g = NULL;
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_E_MEMORY);
    r.dims = (sp_bindings){6, small_name, small_size};
    sp_prune_spec spec;
    assert_int_equal(sp_prune_parse(cx, "4x1:0.5", &spec), SPARTA_OK);
    r.prune = &spec;
    bool done = false;
    for (uint64_t n = 1; !done && n < 5000; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        sparta_status status = sp_zoo_build(cx, &r, &g);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
        done = status == SPARTA_OK;
    }
    assert_true(done);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(table_counts_parameters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(same_seed_same_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_weights_are_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weights_look_normal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prunes_only_the_encoder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prunes_all_of_dlrm_but_both_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(images_are_those_of_torchvision, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prunes_all_filters_but_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interface_is_as_documented, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_requests_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_fail, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
