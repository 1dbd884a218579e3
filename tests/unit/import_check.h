/* import_check.h: the context, and what the tests of the room import say often. */
#ifndef TESTS_IMPORT_CHECK_H
#define TESTS_IMPORT_CHECK_H

#include "bed.h"
#include "onnx_builder.h"

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
static inline void said(const char *words)
{
    if (!strstr(sparta_message(cx), words)) print_error("'%s' is not in: %s\n", words, sparta_message(cx));
    assert_non_null(strstr(sparta_message(cx), words));
}

/* The model must be refused like this; `m` is used up. It is parsed from a block of its very size, for the
 * sanitizer. */
static inline void refused(bytes m, sparta_status status, const char *words)
{
    sp_model *model = NULL;
    uint8_t *exact = malloc(m.size ? m.size : 1);
    memcpy(exact, m.data, m.size);
    sparta_status got = sp_model_parse(cx, exact, m.size, NULL, &model);
    if (got != status) print_error("%s (%s)\n", sparta_status_name(got), sparta_message(cx));
    assert_int_equal(got, status);
    assert_null(model);
    said(words);
    free(exact);
    free(m.data);
}

/* The text of the graph that the model becomes; `m` is used up. */
static inline void becomes(bytes m, const char *expected)
{
    sp_model *model = NULL;
    sp_text t;
    ok(sp_model_parse(cx, m.data, m.size, NULL, &model));
    sp_text_init(&t, cx);
    sp_graph_print(model->graph, &t);
    assert_int_equal(t.status, SPARTA_OK);
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
    sp_model_close(model);
    free(m.data);
}

#endif
