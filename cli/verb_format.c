/* sparta format: formats by themselves. Packed tensors are .npz files that NumPy opens:
 *
 *   format        u8, the canonical text          p0_l{k}_pos   positions of level k, as the level has them
 *   shape         i64                             p0_l{k}_crd   its coordinates, or p0_l{k}_bits of a bitmap
 *   sparta        u8, version: the mark           p0_values                                               */
#include "verbs.h"
#include "file/file.h"
#include "format/format.h"
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, ARRAYS = 4 + 2 * SPARTA_LEVELS };

/* ------------------------------------------------------------------ reading what flags say */

static sparta_status usage(cli *c, const char *what, const char *how)
{
    return sparta_fail(c->cx, SPARTA_E_USAGE, "format %s: something is missing; sparta format %s %s", what,
                       what, how);
}

/* 4x4, 3x5x7 */
static sparta_status parse_shape(cli *c, const char *text, int *rank, int64_t dim[SPARTA_RANK])
{
    int n = 0;
    for (const char *p = text; *p && n < SPARTA_RANK; p += strcspn(p, "x"), p += *p == 'x') {
        const char *one = sparta_arena_bytes(c->arena, p, strcspn(p, "x"));
        SPARTA_NEED(c->cx, one);
        if (!sparta_parse_int(one, &dim[n]) || dim[n] < 0)
            return sparta_fail(c->cx, SPARTA_E_USAGE,
                               "format: --shape %s; give sizes with an x between them, as 4x4", text);
        n++;
    }
    *rank = n;
    return SPARTA_OK;
}

static sparta_status parse_format(cli *c, const char *text, sparta_format *out)
{
    sparta_status status = sparta_format_parse(c->cx, text, out);
    /* A wrong text is a wrong flag, whatever the parser calls it. */
    if (status == SPARTA_E_FORMAT) return sparta_fail(c->cx, SPARTA_E_USAGE, "%s", sparta_message(c->cx));
    return status;
}

/* Matrix Market: what is not there is 0. */
static sparta_status read_matrix(cli *c, const char *path, sparta_tensor *out)
{
    sparta_coo m = {0};
    SPARTA_TRY(sparta_matrix_read(c->cx, path, &m));
    const sparta_status status = sparta_coo_to_dense(c->cx, &m, out);
    sparta_coo_free(&m);
    return status;
}

/* The array in a .npy, or the only one in an .npz that is not ours. */
static sparta_status read_array(cli *c, const char *path, sparta_tensor *out)
{
    sparta_file_kind kind;
    sparta_npz z;
    size_t n = strlen(path);
    if (n > 4 && !strcmp(path + n - 4, ".mtx")) return read_matrix(c, path, out);
    SPARTA_TRY(sparta_file_kind_of(c->cx, path, &kind));
    if (kind == SPARTA_FILE_NPY) return sparta_npy_read(c->cx, path, out);
    if (kind != SPARTA_FILE_NPZ)
        return sparta_fail(c->cx, SPARTA_E_FORMAT, "%s: is no array; give a .npy, or an .npz that holds one",
                           path);
    SPARTA_TRY(sparta_npz_read(c->cx, path, &z));
    if (z.n != 1) {
        sparta_status status =
            sparta_fail(c->cx, SPARTA_E_USAGE, "%s: holds %d arrays; give a file with one", path, z.n);
        sparta_npz_free(&z);
        return status;
    }
    *out = z.entry[0].tensor;
    z.entry[0].tensor.data = NULL; /* it has a new owner */
    sparta_npz_free(&z);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the file of a packed tensor */

/* The array that holds the coordinates of level k. */
static const char *crd_name(const sparta_format *f, int k)
{
    return f->level[k].kind == SPARTA_LEVEL_BITMAP ? "bits" : "crd";
}

static sparta_status write_packed(cli *c, const char *path, const sparta_packed *p)
{
    const char *name[ARRAYS];
    sparta_tensor tensor[ARRAYS];
    uint8_t version = VERSION;
    sparta_text text;
    int n = 0;
    sparta_text_init(&text, c->cx);
    sparta_format_print(&p->format, &text);
    sparta_status status = text.status;
    name[n] = "format";
    tensor[n++] = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){(int64_t)text.size}, text.data);
    name[n] = "shape";
    tensor[n++] = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){p->rank}, (void *)p->dim);
    name[n] = "sparta";
    tensor[n++] = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){1}, &version);
    for (int k = 0; k < p->format.n; k++)
        for (int crd = 0; crd < 2; crd++) {
            const sparta_tensor *t = crd ? &p->crd[k] : &p->pos[k];
            if (t->rank == 0) continue;
            name[n] = sparta_arena_printf(c->arena, "p0_l%d_%s", k, crd ? crd_name(&p->format, k) : "pos");
            if (!name[n] && !status) status = sparta_ctx_status(c->cx);
            tensor[n++] = *t;
        }
    name[n] = "p0_values";
    tensor[n++] = p->values;
    if (!status) status = sparta_npz_write(c->cx, path, n, name, tensor);
    sparta_text_free(&text);
    return status;
}

static sparta_status not_ours(cli *c, const char *path, const char *what)
{
    return sparta_fail(c->cx, SPARTA_E_FORMAT,
                       "%s: is no packed tensor of ours (%s); make one with sparta format pack", path, what);
}

/* Views into z, which outlives *out. Their contents are checked by unpack. */
static sparta_status packed_of(cli *c, const char *path, const sparta_npz *z, sparta_packed *out)
{
    const sparta_tensor *mark = sparta_npz_find(z, "sparta"), *format = sparta_npz_find(z, "format");
    const sparta_tensor *shape = sparta_npz_find(z, "shape"), *values = sparta_npz_find(z, "p0_values");
    sparta_packed p = {0};
    if (!mark || mark->dtype != SPARTA_U8 || sparta_tensor_elements(mark) < 1)
        return not_ours(c, path, "no mark");
    if (((const uint8_t *)mark->data)[0] != VERSION) return not_ours(c, path, "another version");
    if (!format || format->dtype != SPARTA_U8 || format->rank != 1) return not_ours(c, path, "no format");
    if (!shape || shape->dtype != SPARTA_I64 || shape->rank != 1 || shape->dim[0] > SPARTA_RANK)
        return not_ours(c, path, "no shape");
    if (!values || values->rank != 1) return not_ours(c, path, "no values");
    const char *text = sparta_arena_bytes(c->arena, format->data, (size_t)format->dim[0]);
    SPARTA_NEED(c->cx, text);
    SPARTA_TRY(sparta_format_parse(c->cx, text, &p.format));
    p.rank = (int)shape->dim[0];
    for (int d = 0; d < p.rank; d++) p.dim[d] = ((const int64_t *)shape->data)[d];
    p.values = *values;
    p.dtype = values->dtype;
    for (int k = 0; k < p.format.n; k++) {
        char name[32];
        snprintf(name, sizeof name, "p0_l%d_pos", k);
        const sparta_tensor *t = sparta_npz_find(z, name);
        if (t) p.pos[k] = *t;
        snprintf(name, sizeof name, "p0_l%d_%s", k, crd_name(&p.format, k));
        t = sparta_npz_find(z, name);
        if (t) p.crd[k] = *t;
    }
    *out = p;
    return SPARTA_OK;
}

static sparta_status unpacked(cli *c, const char *path, sparta_tensor *out)
{
    sparta_npz z;
    sparta_packed p;
    sparta_tensor t = {0};
    sparta_file_kind kind;
    SPARTA_TRY(sparta_file_kind_of(c->cx, path, &kind));
    if (kind != SPARTA_FILE_NPZ) return not_ours(c, path, "not an .npz");
    SPARTA_TRY(sparta_npz_read(c->cx, path, &z));
    sparta_status status = packed_of(c, path, &z, &p);
    if (!status) status = sparta_format_check(c->cx, &p.format, p.rank, p.dim);
    if (!status) status = sparta_packed_verify(c->cx, &p);
    if (!status) status = sparta_tensor_alloc(c->cx, p.dtype, p.rank, p.dim, &t);
    if (!status) status = sparta_format_unpack(c->cx, &p, &t);
    sparta_npz_free(&z);
    if (status) {
        sparta_free(c->cx, t.data);
        return status;
    }
    *out = t;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ packing */

static sparta_status measured(cli *c, const sparta_format *f, const sparta_tensor *t,
                              sparta_format_stats *out)
{
    SPARTA_TRY(sparta_format_check(c->cx, f, t->rank, t->dim));
    return sparta_format_measure(c->cx, f, t, NULL, out);
}

static sparta_status within(cli *c, const sparta_format *f, const sparta_format_stats *stats)
{
    sparta_status status = sparta_format_within(c->cx, f, stats, cli_real(c, CLI_LIMIT, SPARTA_FORMAT_LIMIT));
    if (status != SPARTA_E_LIMIT) return status;
    return sparta_fail(c->cx, status, "%s with --limit %.0f", sparta_message(c->cx), stats->fill + 1);
}

static void report_parts(cli_json *j, const sparta_format *f, const sparta_format_stats *s)
{
    cli_json_int(j, "pos_bytes", (int64_t)s->pos_bytes);
    cli_json_int(j, "crd_bytes", (int64_t)s->crd_bytes);
    cli_json_int(j, "value_bytes", (int64_t)s->value_bytes);
    cli_json_open(j, "levels", '[');
    for (int l = 0; l < f->n; l++) {
        cli_json_open(j, NULL, '{');
        cli_json_int(j, "segments", s->segments[l]);
        cli_json_int(j, "longest", s->longest[l]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static sparta_status report(cli *c, const sparta_format *f, const sparta_tensor *t,
                            const sparta_format_stats *s, const char *path)
{
    sparta_text text;
    sparta_text_init(&text, c->cx);
    sparta_format_print(f, &text);
    sparta_status status = text.status;
    if (cli_wants_json(c)) {
        cli_json j = cli_json_begin(c, "format");
        cli_json_text(&j, "format", sparta_text_str(&text));
        cli_tensor_json(&j, t);
        cli_json_int(&j, "elements", s->elements);
        cli_json_int(&j, "slots", s->slots);
        cli_json_int(&j, "bytes", (int64_t)s->bytes);
        cli_json_real(&j, "fill", s->fill);
        report_parts(&j, f, s);
        cli_json_text(&j, "output", path);
        cli_json_end(c, &j);
    } else if (cli_has(c, CLI_TABLE)) {
        static const char *const names[] = {"format", "elements", "slots", "bytes", "fill"};
        cli_table table = cli_table_begin(c, 5, names);
        cli_table_text(&table, sparta_text_str(&text));
        cli_table_int(&table, s->elements);
        cli_table_int(&table, s->slots);
        cli_table_int(&table, (int64_t)s->bytes);
        cli_table_real(&table, 4, s->fill);
        if (!status) status = cli_table_end(&table);
    } else {
        cli_say(
            c,
            "%s%s%s: %lld elements in %lld slots, %zu bytes (positions %zu, coordinates %zu, values %zu), "
            "fill %.3f\n",
            path ? path : "", path ? ": " : "", sparta_text_str(&text), (long long)s->elements,
            (long long)s->slots, s->bytes, s->pos_bytes, s->crd_bytes, s->value_bytes, s->fill);
    }
    sparta_text_free(&text);
    return status;
}

static sparta_status pack_tensor(cli *c, const sparta_tensor *t, const char *text, const char *path)
{
    sparta_format f;
    sparta_format_stats stats;
    sparta_packed p;
    SPARTA_TRY(parse_format(c, text, &f));
    SPARTA_TRY(measured(c, &f, t, &stats));
    if (path || cli_has(c, CLI_LIMIT)) SPARTA_TRY(within(c, &f, &stats)); /* stats only tells, unless asked */
    if (path) {
        SPARTA_TRY(sparta_format_pack(c->cx, &f, t, NULL, &p));
        sparta_status status = write_packed(c, path, &p);
        sparta_packed_free(c->cx, &p);
        SPARTA_TRY(status);
    }
    return report(c, &f, t, &stats, path);
}

/* ------------------------------------------------------------------ the words after `format` */

static sparta_status check(cli *c, const char *text)
{
    sparta_format f;
    sparta_text canonical;
    int rank = 0;
    int64_t dim[SPARTA_RANK] = {0};
    SPARTA_TRY(parse_format(c, text, &f));
    if (cli_has(c, CLI_SHAPE)) {
        SPARTA_TRY(parse_shape(c, cli_text(c, CLI_SHAPE, ""), &rank, dim));
        sparta_status fits = sparta_format_check(c->cx, &f, rank, dim);
        if (fits == SPARTA_E_SHAPE) return sparta_fail(c->cx, SPARTA_E_USAGE, "%s", sparta_message(c->cx));
        SPARTA_TRY(fits);
    }
    sparta_text_init(&canonical, c->cx);
    sparta_format_print(&f, &canonical);
    sparta_status status = canonical.status;
    if (cli_wants_json(c)) {
        cli_json j = cli_json_begin(c, "format");
        cli_json_text(&j, "format", sparta_text_str(&canonical));
        cli_json_end(c, &j);
    } else {
        sparta_text_printf(&c->out, "%s\n", sparta_text_str(&canonical));
    }
    sparta_text_free(&canonical);
    return status;
}

static sparta_status pack(cli *c, const char *in, bool only_stats)
{
    const char *text = cli_text(c, CLI_FORMAT, NULL), *path = cli_text(c, CLI_OUTPUT, NULL);
    sparta_tensor t;
    if (!text || (!path && !only_stats))
        return only_stats ? usage(c, "stats", "IN --format TEXT")
                          : usage(c, "pack", "IN --format TEXT -o OUT.npz");
    SPARTA_TRY(read_array(c, in, &t));
    sparta_status status = pack_tensor(c, &t, text, only_stats ? NULL : path);
    sparta_free(c->cx, t.data);
    return status;
}

static sparta_status say_array(cli *c, const sparta_tensor *t, const char *path)
{
    if (cli_wants_json(c)) {
        cli_json j = cli_json_begin(c, "format");
        cli_tensor_json(&j, t);
        cli_json_text(&j, "output", path);
        cli_json_end(c, &j);
        return SPARTA_OK;
    }
    sparta_text shape;
    sparta_text_init(&shape, c->cx);
    sparta_tensor_print_shape(t, &shape);
    cli_say(c, "%s: %s %s\n", path, sparta_dtype_name(t->dtype), sparta_text_str(&shape));
    sparta_text_free(&shape);
    return SPARTA_OK;
}

static sparta_status unpack(cli *c, const char *in)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sparta_tensor t;
    if (!path) return usage(c, "unpack", "OUT.npz -o F.npy");
    size_t n = strlen(path);
    if (n > 4 && !strcmp(path + n - 4, ".mtx"))
        return sparta_fail(c->cx, SPARTA_E_UNSUPPORTED,
                           "%s: format unpack writes .npy only; give such a name", path);
    SPARTA_TRY(unpacked(c, in, &t));
    sparta_status status = sparta_npy_write(c->cx, path, &t);
    if (!status) status = say_array(c, &t, path);
    sparta_free(c->cx, t.data);
    return status;
}

static sparta_status convert(cli *c, const char *in)
{
    const char *text = cli_text(c, CLI_TO, NULL), *path = cli_text(c, CLI_OUTPUT, NULL);
    sparta_tensor t;
    if (!text || !path) return usage(c, "convert", "OUT.npz --to TEXT -o OUT2.npz");
    SPARTA_TRY(unpacked(c, in, &t));
    sparta_status status = pack_tensor(c, &t, text, path);
    sparta_free(c->cx, t.data);
    return status;
}

static const struct word {
    const char *name, *how;
} words[] = {
    {"check", "TEXT [--shape 4x4]"}, {"pack", "IN --format TEXT -o OUT.npz"},
    {"unpack", "OUT.npz -o F.npy"},  {"convert", "OUT.npz --to TEXT -o OUT2.npz"},
    {"stats", "IN --format TEXT"},   {"advise", "IN"},
};

static sparta_status find_word(cli *c, const char *what, const struct word **out)
{
    const char *names[SPARTA_COUNT(words)];
    for (size_t i = 0; i < SPARTA_COUNT(words); i++) {
        names[i] = words[i].name;
        if (strcmp(what, names[i])) continue;
        *out = &words[i];
        return SPARTA_OK;
    }
    const char *near = sparta_nearest(what, names, (int)SPARTA_COUNT(words));
    return sparta_fail(c->cx, SPARTA_E_USAGE, "format: there is no \"%s\"; %s%s", what,
                       near ? "did you mean " : "sparta format --help lists them", near ? near : "");
}

sparta_status cli_verb_format(cli *c)
{
    const char *what = c->operand[0], *in = c->n_operands > 1 ? c->operand[1] : NULL;
    const struct word *word = NULL;
    SPARTA_TRY(find_word(c, what, &word));
    if (!strcmp(what, "advise"))
        return sparta_fail(
            c->cx, SPARTA_E_UNSUPPORTED,
            "format: advise is not in this version yet; `sparta inspect` shows the patterns of arrays");
    if (!in) return usage(c, what, word->how);
    if (!strcmp(what, "check")) return check(c, in);
    if (!strcmp(what, "unpack")) return unpack(c, in);
    if (!strcmp(what, "convert")) return convert(c, in);
    return pack(c, in, !strcmp(what, "stats"));
}
