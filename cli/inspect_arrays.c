/* sparta inspect, of arrays and matrices: type, shape, the pattern found, density, the formats that store it in the fewest bytes. */
#include "verbs.h"
#include "tesa/attribute.h"
#include <math.h>
#include <string.h>

enum {
    DETECT_MOST = 1 << 28, /* bytes of the bitset in which patterns of a sparse matrix are looked for */
    BEST = 3,              /* formats that are told of each */
};
#define FEW   0.0625 /* density below which the whole advice is asked for */
#define SLACK 1.02   /* a pattern holds when it stores at most this many slots for each element */

typedef struct storage { /* a format and what it takes */
    const char *format, *pattern;
    bool exact;
    double fill;
    size_t bytes;
} storage;

typedef struct look { /* at one array */
    sp_pattern pattern;
    int n; /* best formats, fewest bytes first; none where no pattern was looked for */
    storage best[BEST + 1];
} look;

typedef struct report { /* rows of a table, or of "layers" */
    cli *c;
    cli_json json;
    cli_rows rows;
    int64_t elements;
} report;

/* ------------------------------------------------------------------ one array */

static void keep(look *l, storage s)
{
    int at = SP_MIN(l->n, BEST);
    for (; at > 0 && l->best[at - 1].bytes > s.bytes; at--) l->best[at] = l->best[at - 1];
    l->best[at] = s;
    l->n = SP_MIN(l->n + 1, BEST);
}

/* Formats that need no pattern, by their arithmetic: what format advise would say, without its walk over every element. */
static void keep_plain(look *l, const sp_mask_facts *f, size_t element)
{
    const double all = (double)f->rows * (double)f->cols, there = SP_MAX((double)f->present, 1);
    keep(l, (storage){"bitmap", "", false, 1,
                      (size_t)f->present * element + (size_t)f->rows * (size_t)((f->cols + 7) / 8) +
                          ((size_t)f->rows + 1) * 4});
    keep(l, (storage){"dense", "", false, all / there, (size_t)all * element});
}

static sparta_status keep_findings(cli *c, const sp_mask_facts *facts, look *out)
{
    for (int64_t i = 0; i < facts->finding_count; i++) {
        const sp_finding *f = &facts->finding[i];
        bool known = f->missed > 0; /* it has no room for some */
        for (int k = 0; k < out->n; k++) known |= !strcmp(f->format, out->best[k].format);
        if (known) continue;
        const storage s = {sp_arena_string(c->arena, f->format), sp_arena_string(c->arena, f->name), f->exact,
                           f->fill, f->bytes};
        if (!s.format || !s.pattern) return sp_ctx_status(c->cx);
        keep(out, s);
    }
    return SPARTA_OK;
}

/* Where few elements are there coordinates are most of what is stored, and the whole advice costs little. */
static sparta_status keep_advice(cli *c, const sp_packed *p, look *out)
{
    sp_advice a;
    SP_TRY(sp_advise(c->cx, c->arena, p, &(sp_advise_request){0}, &a));
    out->n = 0;
    for (int i = 0; i < a.n && i < BEST; i++)
        keep(out, (storage){a.row[i].format, a.row[i].pattern, a.row[i].exact, a.row[i].stats.fill,
                            (size_t)a.row[i].stats.bytes});
    return SPARTA_OK;
}

static sparta_status look_at_mask(cli *c, const sp_mask *mask, const sp_packed *p, look *out)
{
    const size_t element = p->pattern ? 1 : sparta_dtype_size(p->dtype);
    SP_TRY(sp_mask_detect(c->cx, mask, SLACK, &out->pattern));
    if (out->pattern.density < FEW) return keep_advice(c, p, out);
    sp_mask_facts *facts = sp_zalloc(c->cx, sizeof *facts);
    SP_NEED(c->cx, facts);
    const sp_report_options o = {.slack = SP_ADVISE_SLACK, .element = element};
    sparta_status status = sp_mask_report(c->cx, mask, &o, facts);
    if (!status) {
        keep_plain(out, facts, element);
        status = keep_findings(c, facts, out);
    }
    sp_free(c->cx, facts);
    return status;
}

/* Pattern, density and formats of a matrix; of other arrays only the share of non-zeros. */
static sparta_status look_at(cli *c, const sparta_tensor *t, look *out)
{
    *out = (look){.n = 0};
    int64_t n = sparta_tensor_elements(t), kept = 0;
    if (t->rank == 2 && n > 0) {
        sp_mask mask = {0};
        sparta_tensor own;
        SP_TRY(sp_tensor_plain_zeros(c->cx, t, &own, &t));
        const sp_packed p = sp_store_of_dense(t);
        sparta_status status = sp_mask_of(c->cx, t, &mask);
        if (!status) status = look_at_mask(c, &mask, &p, out);
        sp_mask_free(c->cx, &mask);
        sp_free(c->cx, own.data);
        return status;
    }
    for (int64_t i = 0; i < n; i++) kept += sp_element_get(t->dtype, t->data, i) != 0;
    out->pattern.density = n > 0 ? (double)kept / (double)n : 0;
    return SPARTA_OK;
}

/* Of entries: those that are stored count, zeros too. A matrix too large for a bitset has a density only. */
static sparta_status look_at_entries(cli *c, const sp_coo *m, look *out)
{
    int64_t bytes = 0;
    double all = (double)m->dim[0] * (double)m->dim[1];
    *out = (look){.pattern.density = all > 0 ? (double)m->n / all : 0};
    if (!sp_int_mul(m->dim[0], (m->dim[1] / 64 + (m->dim[1] % 64 > 0)) * 8, &bytes) || bytes > DETECT_MOST ||
        bytes == 0)
        return SPARTA_OK;
    sp_mask mask;
    SP_TRY(sp_mask_create(c->cx, m->dim[0], m->dim[1], &mask));
    for (int64_t i = 0; i < m->n; i++) sp_mask_set(&mask, m->index[0][i], m->index[1][i]);
    int64_t pos[2];
    const sp_packed p = sp_store_of_coo(m, pos);
    sparta_status status = look_at_mask(c, &mask, &p, out);
    sp_mask_free(c->cx, &mask);
    return status;
}

static void formats_json(cli_json *j, const look *l)
{
    cli_json_open(j, "formats", '[');
    for (int i = 0; i < l->n; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "format", l->best[i].format);
        cli_json_text(j, "pattern", *l->best[i].pattern ? l->best[i].pattern : NULL);
        cli_json_bool(j, "exact", l->best[i].exact);
        cli_json_real(j, "fill", l->best[i].fill);
        cli_json_int(j, "bytes", (int64_t)l->best[i].bytes);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* Every row begins and ends alike. */
static void begin_row(report *r, const char *name)
{
    cli_rows_next(&r->rows);
    cli_rows_text(&r->rows, "name", name);
    cli_json_text(&r->json, "op", NULL);
}

static void end_row(report *r, const look *l)
{
    const sp_pattern *p = &l->pattern;
    cli_json_text(&r->json, "block",
                  strchr(p->name, 'x') ? sp_arena_printf(r->c->arena, "%dx%d", p->block_n, p->block_m) : "");
    formats_json(&r->json, l);
    cli_json_text(&r->json, "implement", NULL);
    cli_json_text(&r->json, "reason", "an array by itself: nothing runs it");
}

static void say_pattern(report *r, const char *type, const char *shape, const look *l)
{
    cli_table_text(&r->rows.table, type);
    cli_table_text(&r->rows.table, shape);
    cli_rows_text(&r->rows, "pattern", l->pattern.name);
    cli_rows_real(&r->rows, "density", 4, l->pattern.density);
    cli_table_text(&r->rows.table, l->n ? l->best[0].format : "");
    cli_table_real(&r->rows.table, 0, l->n ? (double)l->best[0].bytes : NAN);
}

/* entries: how many a sparse matrix stores; -1: it is dense. */
static void row(report *r, const char *name, const sparta_tensor *x, const look *l, int64_t entries)
{
    cli_json *j = &r->json;
    sp_text shape;
    r->elements += entries >= 0 ? entries : sparta_tensor_elements(x);
    begin_row(r, name);
    cli_tensor_json(j, x);
    sp_text_init(&shape, r->c->cx);
    sp_tensor_print_shape(x, &shape);
    say_pattern(r, sparta_dtype_name(x->dtype), sp_text_str(&shape), l);
    sp_text_free(&shape);
    if (entries >= 0) cli_json_int(j, "entries", entries);
    end_row(r, l);
}

/* ------------------------------------------------------------------ a file of them */

static void begin(cli *c, const char *kind, report *r)
{
    static const char *const names[] = {"array",   "dtype",        "shape", "pattern",
                                        "density", "fewest bytes", "bytes"};
    *r = (report){.c = c, .json = cli_json_begin(c, "inspect")};
    cli_json_text(&r->json, "name", c->operand[0]);
    cli_json_text(&r->json, "kind", kind);
    r->rows = cli_rows_begin(c, &r->json, "layers", (int)SP_COUNT(names), names);
}

/* `head` is what the first line says after the file's name. */
static sparta_status end(report *r, const char *head)
{
    size_t bytes = 0;
    cli_json *j = &r->json;
    SP_TRY(cli_file_size(r->c, r->c->operand[0], &bytes));
    cli_say(r->c, "%s: %s, %lld elements, %zu bytes\n\n", r->c->operand[0], head, (long long)r->elements,
            bytes);
    SP_TRY(cli_rows_end(&r->rows));
    cli_json_int(j, "nodes", 0);
    cli_json_int(j, "parameters", r->elements);
    cli_json_int(j, "bytes", (int64_t)bytes);
    cli_json_ints(j, "symbols", 0, NULL);
    cli_json_end(r->c, j);
    return SPARTA_OK;
}

/* What the first line says: how many, and of a packed tensor its format, as far as it can be shown. */
static const char *head_of(cli *c, int n, const sparta_tensor *format)
{
    const char *arrays = sp_arena_printf(c->arena, "%d array%s", n, n == 1 ? "" : "s");
    if (!arrays || !format) return arrays;
    char *text = sp_arena_bytes(c->arena, format->data, (size_t)SP_MIN(format->dim[0], 400));
    for (char *p = text; p && *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e) *p = '?';
    return text ? sp_arena_printf(c->arena, "a packed tensor, %s, in %s", text, arrays) : NULL;
}

/* format: the text of a packed tensor; NULL: they are any arrays. */
static sparta_status show_arrays(cli *c, int n, const sp_npz_entry *entry, const sparta_tensor *format)
{
    report r;
    begin(c, format ? "packed" : "arrays", &r);
    for (int i = 0; i < n; i++) {
        look l;
        SP_TRY(sp_check_cancel(c->cx));
        SP_TRY(look_at(c, &entry[i].tensor, &l));
        row(&r, entry[i].name, &entry[i].tensor, &l, -1);
    }
    const char *head = head_of(c, n, format);
    SP_NEED(c->cx, head);
    return end(&r, head);
}

/* What exists of a value is looked at where it differs: along the other axes it is alike. */
static sparta_status show_tesa(cli *c, report *r, const sp_named_tesa *e)
{
    look l = {.pattern = {.density = 1, .dense = true, .name = "dense"}};
    sparta_tesa_facts f;
    SP_TRY(sp_tesa_facts(c->arena, &e->tesa, &f));
    if (f.has.data) SP_TRY(look_at(c, &f.has, &l));
    l.n = 0; /* nobody stores an attribute */
    double zeros, constants;
    sp_tesa_shares(&e->tesa, &zeros, &constants);
    cli_json *j = &r->json;
    begin_row(r, e->name);
    cli_json_text(j, "dtype", f.precision);
    cli_json_open(j, "shape", '[');
    for (int d = 0; d < e->tesa.dims.rank; d++) {
        int64_t size;
        if (sp_expr_is_const(e->tesa.dims.dim[d], &size))
            cli_json_int(j, NULL, size);
        else
            cli_json_text(j, NULL, NULL); /* what it is called is in dims */
    }
    cli_json_close(j, ']');
    cli_json_text(j, "dims", f.dims);
    cli_json_text(j, "precision", f.precision);
    say_pattern(r, f.precision, f.dims, &l);
    cli_json_real(j, "zeros", zeros);
    cli_json_real(j, "constants", constants);
    end_row(r, &l);
    return SPARTA_OK;
}

/* A file that has attributes: those, and the arrays that belong to none. */
static sparta_status show_tesas(cli *c, const sp_tesas *f)
{
    int attributes = 0;
    report r;
    begin(c, "tesa", &r);
    for (int i = 0; i < f->n; i++) {
        const sp_named_tesa *e = &f->entry[i];
        look l;
        SP_TRY(sp_check_cancel(c->cx));
        if (e->array) {
            SP_TRY(look_at(c, e->array, &l));
            row(&r, e->name, e->array, &l, -1);
            continue;
        }
        SP_TRY(show_tesa(c, &r, e));
        attributes++;
    }
    const char *head = sp_arena_printf(c->arena, "%d attribute%s", attributes, attributes == 1 ? "" : "s");
    SP_NEED(c->cx, head);
    return end(&r, head);
}

static sparta_status inspect_tesas(cli *c)
{
    sp_tesas f;
    SP_TRY(sp_tesas_open(c->cx, c->operand[0], &f));
    sparta_status status = show_tesas(c, &f);
    sp_tesas_close(&f);
    return status;
}

static sparta_status show_matrix(cli *c, const sp_coo *m)
{
    look l;
    sparta_dtype dtype = m->values.data ? m->values.dtype : SPARTA_BOOL;
    sparta_tensor shape = sparta_tensor_view(dtype, 2, m->dim, NULL);
    if (m->dense)
        SP_TRY(look_at(c, &m->values, &l));
    else
        SP_TRY(look_at_entries(c, m, &l));
    report r;
    begin(c, "matrix", &r);
    row(&r, c->operand[0], &shape, &l, m->dense ? -1 : m->n);
    return end(&r, m->dense         ? "a dense matrix"
                   : m->values.data ? "a sparse matrix"
                                    : "the pattern of a sparse matrix");
}

static sparta_status inspect_matrix(cli *c)
{
    sp_coo m;
    SP_TRY(sp_matrix_read(c->cx, c->operand[0], &m));
    sparta_status status = show_matrix(c, &m);
    sp_coo_free(&m);
    return status;
}

static sparta_status inspect_scipy(cli *c, const sp_npz *z)
{
    sp_coo m;
    if (sp_scipy_matrix(c->cx, z, &m)) return sp_fail_in(c->cx, "%s", c->operand[0]);
    sparta_status status = show_matrix(c, &m);
    sp_coo_free(&m);
    return status;
}

/* ------------------------------------------------------------------ the kinds of files */

sparta_status cli_holds_arrays(cli *c, bool *out)
{
    sp_holds holds = SP_HOLDS_OTHER;
    SP_TRY(sp_file_holds(c->cx, c->operand[0], &holds));
    bool program = false; /* of torch.export: an archive, too */
    if (holds == SP_HOLDS_NPZ) SP_TRY(sp_import_is_program(c->cx, c->operand[0], &program));
    *out = holds != SP_HOLDS_OTHER && !program;
    return SPARTA_OK;
}

sparta_status cli_inspect_npy(cli *c)
{
    sp_npz_entry entry = {.name = (char *)c->operand[0]};
    SP_TRY(sp_npy_read(c->cx, c->operand[0], &entry.tensor));
    sparta_status status = show_arrays(c, 1, &entry, NULL);
    sp_free(c->cx, entry.tensor.data);
    return status;
}

sparta_status cli_inspect_arrays(cli *c)
{
    sp_holds holds = SP_HOLDS_OTHER;
    sp_arrays a;
    SP_TRY(sp_file_holds(c->cx, c->operand[0], &holds));
    if (holds == SP_HOLDS_MTX || holds == SP_HOLDS_SMTX) return inspect_matrix(c);
    SP_TRY(sp_arrays_open(c->cx, c->operand[0], &a));
    bool attributes = false;
    for (int i = 0; i < a.n; i++) attributes |= sp_tesa_is_array(a.entry[i].name);
    if (attributes) {
        sp_arrays_close(&a);
        return inspect_tesas(c);
    }
    const sparta_tensor *format = sp_store_is_packed(&a.npz) ? sp_npz_find(&a.npz, "format") : NULL;
    if (format && (format->rank != 1 || format->dtype != SPARTA_U8)) format = NULL;
    sparta_status status =
        sp_npz_is_scipy(&a.npz) ? inspect_scipy(c, &a.npz) : show_arrays(c, a.n, a.entry, format);
    sp_arrays_close(&a);
    return status;
}
