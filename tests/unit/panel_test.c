/* The room panel without a compiler: the tables, what kernels refuse, shares of a panel, slots, and moving tokens in and out. */
#include "panel_bed.h"
#include "panel/common.h"

/* ------------------------------------------------------------------ tables and texts */

static void finds_kernels_and_their_texts(void **state)
{
    (void)state;
    static const char *const names[] = {
#define SP_PANEL_KERNEL(name)      #name,
#define SP_PANEL_NEST(name)        /* has no template */
#define SP_PANEL_SPECIAL           SP_PANEL_KERNEL
#define SP_PANEL_TWIN(name, other) SP_PANEL_KERNEL(name)
#include "panel/panel.def"
#undef SP_PANEL_KERNEL
#undef SP_PANEL_NEST
#undef SP_PANEL_SPECIAL
#undef SP_PANEL_TWIN
    };
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const sp_panel_kernel *k = sp_panel_find(names[i]);
        char words[64];
        sp_text t;
        assert_non_null(k);
        assert_string_equal(k->name, names[i]);
        assert_true((k->portable || k->otherwise) && k->check && k->fill);
        sp_text_init(&t, cx);
        ok(sp_panel_text(names[i], &t));
        snprintf(words, sizeof words, "KERNEL void sp_kernel_%s(const void *args)", names[i]);
        assert_non_null(strstr(sp_text_str(&t), words));
        assert_non_null(strstr(sp_text_str(&t), "#ifndef SP_PANEL_ABI"));
        assert_non_null(strstr(sp_text_str(&t), "typedef float vec"));
        assert_int_equal(strlen(sp_text_str(&t)), t.size); /* no 0 in it: nothing was cut */
        sp_text_free(&t);
    }
    assert_null(sp_panel_find("lin"));
    assert_null(sp_panel_find(""));
    sp_text t;
    sp_text_init(&t, cx);
    fails_saying(SPARTA_E_INTERNAL, "no template of kernel 'lin'", sp_panel_text("lin", &t));
    sp_text_free(&t);
}

static void shares_meet_without_gaps(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 100; n++)
        for (int unit = 4; unit <= 16; unit *= 4)
            for (int parts = 1; parts <= 9; parts++) {
                int64_t at = 0, from, to;
                for (int part = 0; part < parts; part++, at = to) {
                    sp_panel_share(n, unit, &(sp_place){.part = part, .parts = parts}, &from, &to);
                    assert_true(from == at && to >= from && (to % unit == 0 || to == n));
                }
                assert_int_equal(at, n);
            }
}

/* ------------------------------------------------------------------ beds */

static sp_packed pack_weight(const bed *b, const char *text)
{
    sp_format f;
    sp_packed p;
    ok(sp_format_parse(cx, text, &f));
    ok(sp_store_pack(cx, &f, &b->in[1], NULL, &p));
    return p;
}

static bed *linear_bed(int64_t tokens, int64_t n, int64_t k, const char *act)
{
    char attrs[64];
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(tokens, k));
    float *w = bed_input(b, true, SPARTA_F32, DIMS(n, k))->data;
    for (int64_t i = 0; i < n * k; i++)
        if (i / k / 4 % 3 == 1 || (i + i / k / 4) % 5 < 3) w[i] = 0; /* one strip in three is empty */
    bed_input(b, true, SPARTA_F32, DIMS(n));
    bed_input(b, false, SPARTA_F32, DIMS(tokens, n));
    snprintf(attrs, sizeof attrs, "transposed=1, epilogue=\"bias %s add\"", act);
    bed_node(b, "sparta::Linear", attrs, DIMS(tokens, n));
    reference(b);
    return b;
}

static bed *plain_bed(const char *op, int n_in, int64_t tokens, int64_t n)
{
    bed *b = bed_make();
    for (int i = 0; i < n_in; i++) bed_input(b, false, SPARTA_F32, DIMS(tokens, n));
    bed_node(b, op, "", DIMS(tokens, n));
    reference(b);
    return b;
}

static bed *norm_bed(int64_t tokens, int64_t n)
{
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(tokens, n));
    bed_input(b, true, SPARTA_F32, DIMS(n));
    bed_input(b, true, SPARTA_F32, DIMS(n));
    bed_node(b, "LayerNormalization", "", DIMS(tokens, n));
    reference(b);
    return b;
}

static bed *embed_bed(int64_t batch, int64_t sequence, int64_t n)
{
    bed *b = bed_make();
    bed_input(b, true, SPARTA_F32, DIMS(10, n));
    sparta_tensor *ids = bed_input(b, false, SPARTA_I64, DIMS(batch, sequence));
    for (int64_t i = 0; i < batch * sequence; i++) ((int64_t *)ids->data)[i] = below(20) - 10;
    bed_input(b, true, SPARTA_F32, DIMS(5, n));
    ids = bed_input(b, false, SPARTA_I32, DIMS(1, sequence));
    for (int64_t i = 0; i < sequence; i++) ((int32_t *)ids->data)[i] = (int32_t)(i % 5);
    bed_node(b, "sparta::Embed", "", DIMS(batch, sequence, n));
    reference(b);
    return b;
}

/* ------------------------------------------------------------------ slots */

/* Operands in per-thread slots: panel p goes through slot p % 3, tokens moved in before and out after it. */
static float *run_in_slots(bed *b, const how *h)
{
    const sp_panel_kernel *kernel = sp_panel_find(h->kernel);
    sparta_tensor slots_in = b->in[0], slots_out = b->out;
    const int64_t tokens = sp_panel_tokens(&b->out), n = sp_panel_features(&b->out),
                  k = sp_panel_features(&b->in[0]);
    const bool from_rows = !in_panels(h->kernel, 0), to_rows = !strcmp(h->kernel, "to_rows");
    float *rows = sp_arena_array(b->arena, (size_t)(tokens * n), sizeof(float));
    assert_non_null(rows);
    slots_in.rank = slots_out.rank = 2; /* three panels: as many slots */
    slots_in.dim[0] = slots_out.dim[0] = 3 * SP_PANEL;
    slots_in.dim[1] = k, slots_out.dim[1] = n;
    const lain x = lay(b, &slots_in, 0), y = lay(b, &slots_out, 1), whole = lay(b, &b->out, 1);
    sp_job job;
    bind(b, h, to_rows ? NULL : &whole, &job);
    if (to_rows) job.out[0].tensor.data = rows;
    if (!from_rows) {
        job.in[0] = lain_operand(&x, &b->in[0]);
        job.in[0].slotted = true;
    }
    if (!to_rows) {
        job.out[0] = lain_operand(&y, &b->out);
        job.out[0].slotted = true;
    }
    ok(kernel->check(cx, &job));
    float *work = sp_alloc(cx, (kernel->work ? kernel->work(&job) : 0) + 64);
    for (int64_t p = 0; p < job.panels; p++) {
        const int64_t slot = p % 3 * SP_PANEL, count = SP_MIN(tokens - p * SP_PANEL, SP_PANEL);
        sp_panel_args args;
        memset(&args, 0xa5, sizeof args);
        for (int64_t t = 0; !from_rows && t < count; t++)
            for (int64_t f = 0; f < k; f++)
                *lain_at(&x, slot + t, f) = ((float *)b->in[0].data)[(p * SP_PANEL + t) * k + f];
        if (kernel->fill(&job, &(sp_place){.panel = p, .slot = (int)(p % 3), .parts = 1, .work = work},
                         &args))
            kernel->portable(&args);
        for (int64_t t = 0; !to_rows && t < count; t++)
            for (int64_t f = 0; f < n; f++) rows[(p * SP_PANEL + t) * n + f] = *lain_at(&y, slot + t, f);
    }
    sp_free(cx, work);
    return rows;
}

static void try_slots(bed *b, const char *kernel)
{
    how h = {.kernel = kernel, .parts = 1};
    sp_packed packed = {0};
    if (!strcmp(kernel, "linear") || !strcmp(kernel, "walk") || !strcmp(kernel, "pairs")) {
        packed = pack_weight(b, !strcmp(kernel, "pairs") ? "pairs(8)" : "strip(4), crd=u16");
        h.packed = &packed;
    }
    same_bits(b, run_kernel(b, &h), run_in_slots(b, &h), kernel);
    if (h.packed) sp_packed_free(cx, &packed);
    bed_free(b);
}

static void slots_give_the_same_answers(void **state)
{
    (void)state;
    try_slots(linear_bed(300, 13, 9, "gelu"), "linear");
    try_slots(linear_bed(300, 13, 9, "gelu"), "walk");
    try_slots(linear_bed(300, 13, 9, "gelu"), "pairs");
    try_slots(norm_bed(300, 13), "norm");
    try_slots(plain_bed("Add", 2, 300, 13), "map");
    try_slots(plain_bed("Relu", 1, 129, 5), "map");
    try_slots(plain_bed("Identity", 1, 300, 13), "to_lanes");
    try_slots(plain_bed("Identity", 1, 300, 13), "to_rows");
    try_slots(embed_bed(3, 100, 13), "embed");
}

/* ------------------------------------------------------------------ in and out */

static void tokens_come_back_from_panels(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 70; n += n < 20 ? 1 : 7)
        for (int64_t tokens = 1; tokens <= 130; tokens += tokens < 20 || FEWER == 1 ? 3 : 31) {
            bed *b = plain_bed("Identity", 1, tokens, n);
            const lain middle = lay(b, &b->out, 0);
            const int parts = 1 + (int)below(4);
            run_kernel(b, &(how){.kernel = "to_lanes", .parts = parts, .y = &middle});
            const float *y = run_kernel(b, &(how){.kernel = "to_rows", .parts = parts, .x = &middle});
            assert_memory_equal(y, b->in[0].data, (size_t)(n * tokens) * sizeof(float));
            bed_free(b);
        }
}

/* Values are moved, not computed: every bit of a NaN, denormals, both zeros. */
static void odd_numbers_are_moved_as_they_are(void **state)
{
    (void)state;
    bed *b = plain_bed("Identity", 1, 70, 19);
    uint32_t *x = b->in[0].data;
    for (int i = 0; i < 70 * 19; i++) x[i] = (uint32_t)sp_rng_next(&rng); /* any bits at all */
    const lain middle = lay(b, &b->out, 0);
    run_kernel(b, &(how){.kernel = "to_lanes", .parts = 2, .y = &middle});
    assert_memory_equal(run_kernel(b, &(how){.kernel = "to_rows", .parts = 3, .x = &middle}), x, 70 * 19 * 4);
    bed_free(b);
}

static void linear_works_without_a_compiler(void **state)
{
    (void)state;
    static const char *const formats[] = {"strip(4), crd=u16", "strip(4), crd=u32",
                                          "(n,k)->(n/4:dense, k:dense, n%4:dense)"};
    for (size_t i = 0; i < SP_COUNT(formats); i++) {
        bed *b = linear_bed(77, 26, 31, "tanh");
        sp_packed packed = pack_weight(b, formats[i]);
        how h = {.kernel = "linear", .packed = &packed, .parts = 1};
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 1e-5, 1e-6, formats[i]);
        for (h.parts = 2; h.parts <= 12; h.parts++)
            same_bits(b, y, run_kernel(b, &h), formats[i]); /* more parts than strips too */
        sp_packed_free(cx, &packed);
        bed_free(b);
    }
}

/* Any storage: levels, sums (reading one leaves it with the context: one of its own), opaque ones; more parts than rows. */
static void walk_runs_every_storage(void **state)
{
    static const char *const formats[] = {
        "csc",
        "bsr(3,5)",
        "ell",
        "dense",
        "quads(8)",
        "pairs(8)",
        "groups",
        "sum{rownnz<=3 -> csr; rest -> coo}",
        "sum{colpart(3) -> dcsr}",
        "sum{first(2) -> ell; rest -> sum{blockdensity>=0.5 -> bsr(4,2); rest -> quads(16)}}"};
    sparta_ctx *mine = cx;
    context_begin(state);
    for (size_t i = 0; i < SP_COUNT(formats); i++) {
        bed *b = linear_bed(77, 26, 31, "tanh");
        float *w = b->in[1].data;
        for (int k = 0; k < 26 * 31; k++) w[k] = sp_hash(&k, sizeof k, i) % 3 && k / 31 != 7 ? 0 : w[k];
        reference(b);
        sp_packed packed = pack_weight(b, formats[i]);
        how h = {.kernel = "walk", .packed = &packed, .parts = 1};
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 1e-5, 1e-6, formats[i]);
        for (h.parts = 2; h.parts <= 40; h.parts += 3) same_bits(b, y, run_kernel(b, &h), formats[i]);
        sp_packed_free(cx, &packed);
        bed_free(b);
    }
    sparta_ctx_free(cx);
    cx = mine;
}

/* ------------------------------------------------------------------ embed and its ids */

static sparta_status embed_ready(int64_t id, int table)
{
    bed *b = embed_bed(2, 40, 8);
    sp_job job;
    const lain y = lay(b, &b->out, 0);
    bind(b, &(how){.kernel = "embed", .parts = 1}, &y, &job);
    sp_element_set_int(b->in[2 * table + 1].dtype, b->in[2 * table + 1].data, 33, id);
    sparta_status s = sp_panel_embed.ready(cx, &job);
    bed_free(b);
    return s;
}

static void ids_are_checked_before_a_run(void **state)
{
    (void)state;
    ok(embed_ready(9, 0));
    ok(embed_ready(-10, 0));
    ok(embed_ready(4, 1));
    fails_saying(SPARTA_E_RANGE, "id 10 is outside of the table's 10 rows", embed_ready(10, 0));
    fails_saying(SPARTA_E_RANGE, "id -11 is outside", embed_ready(-11, 0));
    fails_saying(SPARTA_E_RANGE, "id 5 is outside of the table's 5 rows", embed_ready(5, 1));
    fails_saying(SPARTA_E_RANGE, "id -6", embed_ready(-6, 1));
    fails_saying(SPARTA_E_RANGE, "id 9223372036854775807", embed_ready(INT64_MAX, 0));
    fails_saying(SPARTA_E_RANGE, "id -9223372036854775808", embed_ready(INT64_MIN, 0));
}

static void ids_may_repeat(void **state)
{
    (void)state;
    bed *b = embed_bed(3, 50, 21); /* (3,50) and (1,50), negative ones among them */
    how h = {.kernel = "embed", .parts = 1};
    const float *y = run_kernel(b, &h);
    close_enough(b, y, NULL, 1e-6, 0, "embed");
    for (h.parts = 2; h.parts <= 4; h.parts++) same_bits(b, y, run_kernel(b, &h), "embed");
    bed_free(b);
}

/* ------------------------------------------------------------------ what kernels refuse */

typedef void (*spoil)(sp_job *job);
static sparta_status refuse(bed *b, const char *kernel, const sp_packed *packed, spoil how_to)
{
    const sp_panel_kernel *k = sp_panel_find(kernel);
    const how h = {.kernel = kernel, .packed = packed, .parts = 1};
    sp_job job = {.node = b->node, .n_in = b->n_in, .n_out = 1, .tokens = sp_panel_tokens(&b->out)};
    const lain y = lay(b, &b->out, 0);
    bind_inputs(b, &h, &job);
    job.out[0] = !strcmp(kernel, "to_rows") ? (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = b->out}
                                            : lain_operand(&y, &b->out);
    if (how_to) how_to(&job);
    sparta_status s = sp_panel_prepare(cx, b->arena, k, &job);
    return s == SPARTA_OK ? k->check(cx, &job) : s;
}

static void wider_input(sp_job *j)
{
    j->in[0].tensor.dim[1]++;
}
static void more_tokens(sp_job *j)
{
    j->in[0].tensor.dim[0]++;
}
static void input_in_rows(sp_job *j)
{
    j->in[0].layout = SP_LAYOUT_ROWS;
}
static void input_in_panels(sp_job *j)
{
    j->in[0].layout = SP_LAYOUT_PANEL;
}
static void input_of_ints(sp_job *j)
{
    j->in[0].tensor.dtype = SPARTA_I32;
}
static void input_with_gaps(sp_job *j)
{
    j->in[0].tensor.stride[0]++;
}
static void wider_output(sp_job *j)
{
    j->out[0].tensor.dim[j->out[0].tensor.rank - 1]++;
}
static void output_with_gaps(sp_job *j)
{
    j->out[0].tensor.stride[0]++;
}
static void weight_in_rows(sp_job *j)
{
    j->in[1].layout = SP_LAYOUT_ROWS;
}
static void short_vector(sp_job *j)
{
    j->in[2].tensor.dim[0]--;
}
static void vector_without_data(sp_job *j)
{
    j->in[2].tensor.data = NULL;
}
static void vector_of_doubles(sp_job *j)
{
    j->in[2].tensor.dtype = SPARTA_F64;
}
static void wider_residual(sp_job *j)
{
    j->in[3].tensor.dim[1]++;
}
static void no_input(sp_job *j)
{
    j->in[0].layout = SP_LAYOUT_ABSENT;
}
static void one_input(sp_job *j)
{
    j->n_in = 1;
}
static void two_outputs(sp_job *j)
{
    j->n_out = 2;
}
static void output_elsewhere(sp_job *j)
{
    j->out[0].tensor.device = 1;
}
static void fewer_seconds(sp_job *j)
{
    j->in[1].tensor.dim[0]--;
}
static void gain_in_panels(sp_job *j)
{
    j->in[1].layout = SP_LAYOUT_PANEL;
}
static void odd_inputs(sp_job *j)
{
    j->n_in--;
}
static void ids_of_floats(sp_job *j)
{
    j->in[1].tensor.dtype = SPARTA_F32;
}
static void longer_ids(sp_job *j)
{
    j->in[1].tensor.dim[1]++;
}
static void narrow_table(sp_job *j)
{
    j->in[0].tensor.dim[1]--;
}

static void linear_refuses_what_does_not_fit(void **state)
{
    (void)state;
    bed *b = linear_bed(10, 6, 5, "relu");
    sp_packed strips = pack_weight(b, "strip(4), crd=u16"), csr = pack_weight(b, "csr"),
              eight = pack_weight(b, "strip(8), crd=u16");
    sp_packed wide = pack_weight(b, "strip(4), crd=u16, pos=i64"), bytes = pack_weight(b, "strip(4), crd=u8"),
              bits = pack_weight(b, "(n,k)->(n/4:dense, k:bitmap, n%4:dense)");
    ok(refuse(b, "linear", &strips, NULL));
    fails_saying(SPARTA_E_FORMAT, "strips of 4", refuse(b, "linear", &csr, NULL));
    fails_saying(SPARTA_E_FORMAT, "strips of 4", refuse(b, "linear", &eight, NULL));
    fails_saying(SPARTA_E_FORMAT, "strips of 4", refuse(b, "linear", &wide, NULL));
    fails_saying(SPARTA_E_FORMAT, "strips of 4", refuse(b, "linear", &bytes, NULL));
    fails_saying(SPARTA_E_FORMAT, "strips of 4", refuse(b, "linear", &bits, NULL));
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32 in layout rows",
                 refuse(b, "linear", &strips, weight_in_rows));
    fails_saying(SPARTA_E_FORMAT, "not stored in pairs of rows", refuse(b, "pairs", &strips, NULL));
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32 in layout rows",
                 refuse(b, "pairs", &strips, weight_in_rows));
    fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, "linear", &strips, wider_input));
    fails_saying(SPARTA_E_SHAPE, "input 0 has 11 tokens", refuse(b, "linear", &strips, more_tokens));
    fails_saying(SPARTA_E_FORMAT, "input 0 is f32 in layout rows, which",
                 refuse(b, "linear", &strips, input_in_rows));
    fails_saying(SPARTA_E_FORMAT, "input 0 is i32 in layout panel",
                 refuse(b, "linear", &strips, input_of_ints));
    fails_saying(SPARTA_E_SHAPE, "the output has", refuse(b, "linear", &strips, wider_output));
    fails_saying(SPARTA_E_SHAPE, "input 3 has", refuse(b, "linear", &strips, wider_residual));
    fails_saying(SPARTA_E_FORMAT, "a vector of 6", refuse(b, "linear", &strips, short_vector));
    fails_saying(SPARTA_E_FORMAT, "input 2 must be a constant for kernel 'linear'",
                 refuse(b, "linear", &strips, vector_without_data));
    fails_saying(SPARTA_E_FORMAT, "input 2 is f64", refuse(b, "linear", &strips, vector_of_doubles));
    fails_saying(SPARTA_E_FORMAT, "input 0 is missing for kernel 'linear'",
                 refuse(b, "linear", &strips, no_input));
    fails_saying(SPARTA_E_FORMAT, "input 1 is missing", refuse(b, "linear", &strips, one_input));
    fails_saying(SPARTA_E_FORMAT, "one output, not 2", refuse(b, "linear", &strips, two_outputs));
    fails_saying(SPARTA_E_UNSUPPORTED, "the output is on device 1, kernel 'linear' runs on device 0",
                 refuse(b, "linear", &strips, output_elsewhere));
    sp_packed *all[] = {&strips, &csr, &eight, &wide, &bytes, &bits};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_packed_free(cx, all[i]);
    bed_free(b);
}

static void walk_refuses_what_does_not_fit(void **state)
{
    (void)state;
    bed *b = linear_bed(10, 6, 5, "relu");
    sp_packed csr = pack_weight(b, "csr"), bad, other;
    int32_t crd[64], far[64];
    for (int i = 0; i < 2; i++) {
        const char *const kernel = i ? "stored" : "walk";
        bad = other = csr;
        ok(refuse(b, kernel, &csr, NULL));
        fails_saying(SPARTA_E_FORMAT, "in layout rows", refuse(b, kernel, &csr, weight_in_rows));
        fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, kernel, &csr, wider_input));
        fails_saying(SPARTA_E_SHAPE, "the output has", refuse(b, kernel, &csr, wider_output));
        fails_saying(SPARTA_E_SHAPE, "input 3 has", refuse(b, kernel, &csr, wider_residual));
        fails_saying(SPARTA_E_FORMAT, "a vector of 6", refuse(b, kernel, &csr, short_vector));
        memcpy(crd, csr.crd[1].data, sizeof *crd * (size_t)csr.crd[1].dim[0]);
        memcpy(far, crd, sizeof far);
        far[3] = 5; /* one past the last input */
        bad.crd[1].data = far;
        fails_saying(SPARTA_E_FORMAT, "bed: packed: ", refuse(b, kernel, &bad, NULL));
        other.dtype = SPARTA_I32;
        fails_saying(SPARTA_E_FORMAT, "no f32 matrix", refuse(b, kernel, &other, NULL));
    }
    sp_packed_free(cx, &csr);
    bed_free(b);
}

static void others_refuse_what_does_not_fit(void **state)
{
    (void)state;
    bed *b = norm_bed(10, 6);
    ok(refuse(b, "norm", NULL, NULL));
    fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, "norm", NULL, wider_input));
    fails_saying(SPARTA_E_SHAPE, "the output has", refuse(b, "norm", NULL, wider_output));
    fails_saying(SPARTA_E_FORMAT, "a vector of 6", refuse(b, "norm", NULL, short_vector));
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32 in layout panel", refuse(b, "norm", NULL, gain_in_panels));
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32 in layout rows", refuse(b, "map", NULL, NULL));
    bed_free(b);
    b = plain_bed("Add", 2, 10, 6);
    ok(refuse(b, "map", NULL, NULL));
    fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, "map", NULL, wider_input));
    fails_saying(SPARTA_E_SHAPE, "input 1 has", refuse(b, "map", NULL, fewer_seconds));
    fails_saying(SPARTA_E_FORMAT, "not an operator of kernel map", refuse(b, "map", NULL, one_input));
    bed_free(b);
    b = plain_bed("Identity", 1, 10, 6);
    ok(refuse(b, "to_lanes", NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "in layout panel", refuse(b, "to_lanes", NULL, input_in_panels));
    fails_saying(SPARTA_E_INTERNAL, "input 0 has gaps", refuse(b, "to_lanes", NULL, input_with_gaps));
    fails_saying(SPARTA_E_FORMAT, "input 0 is i32", refuse(b, "to_lanes", NULL, input_of_ints));
    fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, "to_lanes", NULL, wider_output));
    ok(refuse(b, "to_rows", NULL, NULL));
    fails_saying(SPARTA_E_INTERNAL, "the output has gaps", refuse(b, "to_rows", NULL, output_with_gaps));
    fails_saying(SPARTA_E_SHAPE, "input 0 has", refuse(b, "to_rows", NULL, wider_input));
    bed_free(b);
    b = embed_bed(2, 5, 6);
    ok(refuse(b, "embed", NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "pairs", refuse(b, "embed", NULL, odd_inputs));
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32", refuse(b, "embed", NULL, ids_of_floats));
    fails_saying(SPARTA_E_SHAPE, "", refuse(b, "embed", NULL, longer_ids));
    fails_saying(SPARTA_E_SHAPE, "table 0", refuse(b, "embed", NULL, narrow_table));
    fails_saying(SPARTA_E_SHAPE, "table 0", refuse(b, "embed", NULL, wider_output));
    bed_free(b);
}

static void a_lack_of_memory_is_said(void **state)
{
    (void)state;
    bed *b = linear_bed(10, 4000, 3, ""); /* a bias that no chunk of the arena has room for */
    sp_packed strips = pack_weight(b, "strip(4), crd=u16");
    sp_arena *arena = sp_arena_create(cx);
    sp_job job = {.node = b->node, .n_in = 4, .n_out = 1, .tokens = 10};
    bind_inputs(b, &(how){.kernel = "linear", .packed = &strips}, &job);
    int tries = 0;
    sparta_status s;
    do {
        job.e.bias = NULL;
        sp_ctx_fail_alloc(cx, (uint64_t)++tries, true);
        s = sp_panel_linear.prepare(cx, arena, &job);
        sp_ctx_fail_alloc(cx, 0, false);
        if (s) assert_int_equal(s, SPARTA_E_MEMORY);
        if (s) assert_null(job.e.bias);
    } while (s && tries < 10);
    assert_true(tries > 1);
    ok(s);
    sp_arena_free(arena);
    sp_packed_free(cx, &strips);
    bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_kernels_and_their_texts),
        cmocka_unit_test(shares_meet_without_gaps),
        cmocka_unit_test(slots_give_the_same_answers),
        cmocka_unit_test(tokens_come_back_from_panels),
        cmocka_unit_test(odd_numbers_are_moved_as_they_are),
        cmocka_unit_test(linear_works_without_a_compiler),
        cmocka_unit_test(ids_are_checked_before_a_run),
        cmocka_unit_test(ids_may_repeat),
        cmocka_unit_test(walk_runs_every_storage),
        cmocka_unit_test(linear_refuses_what_does_not_fit),
        cmocka_unit_test(walk_refuses_what_does_not_fit),
        cmocka_unit_test(others_refuse_what_does_not_fit),
        cmocka_unit_test(a_lack_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, context_begin, tear_down);
}
