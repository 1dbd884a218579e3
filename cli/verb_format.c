/* sparta format: formats by themselves. Any file that holds a tensor (source.c) is packed into any format, without a
 * dense copy on the way; packed tensors are .npz files that NumPy opens (format/format.h, docs/files.md).
 *
 *   text --check--> canonical text        IN --stats--> what a format would store
 *   IN --pack--> OUT.npz --convert--> OUT2.npz --unpack--> .npy, .mtx        IN --advise--> formats that fit (advise.c)
 */
#include "verbs.h"
#include <string.h>
#include <strings.h>

static sparta_status usage(cli *c); /* as the word's row says it */

/* ------------------------------------------------------------------ what flags say */

/* 4x4, 3x5x7 */
static sparta_status parse_shape(cli *c, const char *text, int *rank, int64_t dim[SPARTA_RANK])
{
    int n = 0;
    for (const char *p = text;; p++) {
        const char *one = sp_arena_bytes(c->arena, p, strcspn(p, "x"));
        SP_NEED(c->cx, one);
        if (n == SPARTA_RANK || !sp_parse_int(one, &dim[n]) || dim[n] < 0)
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "format: --shape %s; give at most %d sizes with an x between them, as 4x4", text,
                           SPARTA_RANK);
        n++;
        p += strlen(one);
        if (!*p) break;
    }
    *rank = n;
    return SPARTA_OK;
}

/* A wrong text is a wrong flag, whatever the parser calls it. */
static sparta_status parse_format(cli *c, const char *text, sp_format *out)
{
    sparta_status status = sp_format_parse(c->cx, text, out);
    if (status == SPARTA_E_FORMAT) return sp_fail(c->cx, SPARTA_E_USAGE, "%s", sparta_message(c->cx));
    return status;
}

static sparta_status fits(cli *c, const sp_format *f, int rank, const int64_t *dim)
{
    sparta_status status = sp_format_check(c->cx, f, rank, dim);
    if (status == SPARTA_E_SHAPE) return sp_fail(c->cx, SPARTA_E_USAGE, "%s", sparta_message(c->cx));
    return status;
}

static sparta_status within(cli *c, const sp_format *f, const sp_store_stats *stats)
{
    sparta_status status = sp_store_within(c->cx, f, stats, cli_real(c, CLI_LIMIT, SP_STORE_LIMIT));
    if (status != SPARTA_E_LIMIT) return status;
    return sp_fail(c->cx, status, "%s with --limit %.0f", sparta_message(c->cx), stats->fill + 1);
}

/* Storage that is followed only now may turn out to be damaged: say which file. */
static sparta_status blame(cli *c, const char *path, sparta_status status)
{
    if (status != SPARTA_E_FORMAT || strstr(sparta_message(c->cx), path)) return status;
    return sp_fail_in(c->cx, "%s", path);
}

/* ------------------------------------------------------------------ what is said about storage */

const char *cli_format_text(cli *c, const sp_format *f)
{
    sp_text text;
    sp_text_init(&text, c->cx);
    sp_format_print(f, &text);
    return sp_text_keep(&text, c->arena);
}

void cli_stats(cli_rows *r, const sp_format *f, const sp_store_stats *s)
{
    cli_rows_int(r, "elements", s->elements);
    cli_rows_int(r, "slots", s->slots);
    cli_rows_int(r, "bytes", (int64_t)s->bytes);
    cli_rows_int(r, "pos_bytes", (int64_t)s->pos_bytes);
    cli_rows_int(r, "crd_bytes", (int64_t)s->crd_bytes);
    cli_rows_int(r, "value_bytes", (int64_t)s->value_bytes);
    cli_rows_real(r, "fill", 4, s->fill);
    cli_json_open(r->json, "levels", '[');
    for (int l = 0; l < f->n; l++) {
        cli_json_open(r->json, NULL, '{');
        cli_json_int(r->json, "segments", s->segments[l]);
        cli_json_int(r->json, "longest", s->longest[l]);
        cli_json_close(r->json, '}');
    }
    cli_json_close(r->json, ']');
}

/* The parts of a sum, as they are stored. */
static sparta_status parts_json(cli *c, cli_json *j, const sp_packed *p)
{
    cli_json_open(j, "parts", '[');
    for (int i = 0; i < p->parts; i++) {
        const sp_packed *part = &p->part[i];
        sp_store_stats s;
        const char *text = cli_format_text(c, &part->format);
        SP_NEED(c->cx, text);
        SP_TRY(sp_store_measure_packed(c->cx, part, &s));
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "format", text);
        cli_stats(&(cli_rows){.json = j}, &part->format, &s);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    return SPARTA_OK;
}

typedef struct told { /* what a report is about */
    const sp_format *format;
    const sp_packed *tensor; /* for its type and shape */
    const sp_packed *stored; /* NULL: nothing is stored yet */
    const sp_store_stats *stats;
    const char *path; /* NULL: nothing was written */
} told;

static sparta_status report(cli *c, const told *t)
{
    static const char *const names[] = {"format",    "elements",  "slots",       "bytes",
                                        "pos_bytes", "crd_bytes", "value_bytes", "fill"};
    const sp_store_stats *s = t->stats;
    const sparta_tensor shape = sparta_tensor_view(t->tensor->dtype, t->tensor->rank, t->tensor->dim, NULL);
    const char *text = cli_format_text(c, t->format);
    SP_NEED(c->cx, text);
    cli_json j = cli_json_begin(c, "format");
    cli_rows r = cli_rows_begin(c, &j, NULL, (int)SP_COUNT(names), names);
    cli_rows_text(&r, "format", text);
    cli_tensor_json(&j, &shape);
    cli_json_bool(&j, "pattern", t->tensor->pattern);
    cli_stats(&r, t->format, s);
    if (t->stored && cli_wants_json(c)) SP_TRY(parts_json(c, &j, t->stored));
    cli_json_text(&j, "output", t->path);
    cli_json_end(c, &j);
    cli_say(c,
            "%s%s%s: %lld elements in %lld slots, %zu bytes (positions %zu, coordinates %zu, values %zu), "
            "fill %.3f\n",
            t->path ? t->path : "", t->path ? ": " : "", text, (long long)s->elements, (long long)s->slots,
            s->bytes, s->pos_bytes, s->crd_bytes, s->value_bytes, s->fill);
    return cli_has(c, CLI_TABLE) ? cli_rows_end(&r) : SPARTA_OK;
}

/* ------------------------------------------------------------------ check */

static sparta_status check(cli *c, const char *in)
{
    sp_format f;
    int rank = 0;
    int64_t dim[SPARTA_RANK] = {0};
    SP_TRY(parse_format(c, in, &f));
    if (cli_has(c, CLI_SHAPE)) {
        SP_TRY(parse_shape(c, cli_text(c, CLI_SHAPE, ""), &rank, dim));
        SP_TRY(fits(c, &f, rank, dim));
    }
    const char *text = cli_format_text(c, &f);
    SP_NEED(c->cx, text);
    cli_json j = cli_json_begin(c, "format");
    cli_json_text(&j, "format", text);
    cli_json_end(c, &j);
    if (!cli_wants_json(c)) sp_text_printf(&c->out, "%s\n", text);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ pack, convert, stats */

static sparta_status step(cli *c, int done, const char *what)
{
    cli_progress_show(c, done, 4, what);
    return sp_check_cancel(c->cx);
}

/* Is there a slot for each element and none besides, whatever the tensor? Then no limit can be passed. */
static bool only_elements(const sp_format *f)
{
    if (f->n == 0) return false;
    const sp_level *last = &f->level[f->n - 1], *above = last - 1;
    return last->kind == SP_LEVEL_COMPRESSED || last->kind == SP_LEVEL_LOOSE ||
           last->kind == SP_LEVEL_BITMAP ||
           (last->kind == SP_LEVEL_SINGLETON && f->n == 2 && above->properties & SP_PROP_NONUNIQUE);
}

/* counted: what it stores; NULL: not known before. */
static sparta_status convert_and_write(cli *c, const sp_packed *from, const sp_format *to, const char *path,
                                       const sp_store_stats *counted)
{
    sp_packed p;
    sp_store_stats stats = {0};
    SP_TRY(step(c, 2, "packing"));
    sp_pool *pool = sp_pool_create(c->cx, (int)cli_int(c, CLI_THREADS, 0));
    SP_NEED(c->cx, pool);
    sparta_status status = sp_store_convert(c->cx, from, to, pool, &p);
    sp_pool_free(pool);
    SP_TRY(status);
    status = step(c, 3, "writing");
    if (!status) status = sp_store_write(c->cx, path, &p);
    if (!status && !counted) status = sp_store_measure_packed(c->cx, &p, &stats);
    if (!status) status = report(c, &(told){to, &p, &p, counted ? counted : &stats, path});
    sp_packed_free(c->cx, &p);
    return status;
}

/* path NULL: tell the numbers only. */
static sparta_status store(cli *c, const cli_source *s, const char *text, const char *path)
{
    const sp_packed *from = &s->packed;
    sp_format f;
    sp_store_stats stats;
    SP_TRY(step(c, 1, "counting"));
    SP_TRY(parse_format(c, text, &f));
    SP_TRY(fits(c, &f, from->rank, from->dim));
    if (path && only_elements(&f)) return convert_and_write(c, from, &f, path, NULL);
    SP_TRY(sp_store_measure_converted(c->cx, from, &f, &stats));
    if (path || cli_has(c, CLI_LIMIT)) SP_TRY(within(c, &f, &stats)); /* stats only tells, unless asked */
    return path ? convert_and_write(c, from, &f, path, &stats)
                : report(c, &(told){&f, from, NULL, &stats, NULL});
}

/* What a packed file stores. */
static sparta_status stored_stats(cli *c, const cli_source *s)
{
    sp_store_stats stats;
    SP_TRY(sp_store_measure_packed(c->cx, &s->packed, &stats));
    if (cli_has(c, CLI_LIMIT)) SP_TRY(within(c, &s->packed.format, &stats));
    return report(c, &(told){&s->packed.format, &s->packed, &s->packed, &stats, NULL});
}

static sparta_status stats(cli *c, const char *in)
{
    const char *text = cli_text(c, CLI_FORMAT, NULL);
    cli_source s;
    SP_TRY(step(c, 0, "reading"));
    SP_TRY(cli_source_read(c, in, &s));
    sparta_status status = text ? store(c, &s, text, NULL) : s.stored ? stored_stats(c, &s) : usage(c);
    status = blame(c, in, status);
    cli_source_free(c, &s);
    return status;
}

/* A file, into the format that a flag says. */
static sparta_status repack(cli *c, const char *in, cli_option_id flag,
                            sparta_status (*read)(cli *c, const char *path, cli_source *out))
{
    const char *text = cli_text(c, flag, NULL), *path = cli_text(c, CLI_OUTPUT, NULL);
    cli_source s;
    if (!text || !path) return usage(c);
    SP_TRY(cli_writable(c, path));
    SP_TRY(step(c, 0, "reading"));
    SP_TRY(read(c, in, &s));
    sparta_status status = blame(c, in, store(c, &s, text, path));
    cli_source_free(c, &s);
    return status;
}

static sparta_status pack(cli *c, const char *in)
{
    return repack(c, in, CLI_FORMAT, cli_source_read);
}

static sparta_status convert(cli *c, const char *in)
{
    return repack(c, in, CLI_TO, cli_source_read_packed);
}

/* ------------------------------------------------------------------ unpack */

static void say_array(cli *c, const sp_packed *p, const char *path)
{
    const sparta_tensor t = sparta_tensor_view(p->dtype, p->rank, p->dim, NULL);
    cli_json j = cli_json_begin(c, "format");
    cli_tensor_json(&j, &t);
    cli_json_bool(&j, "pattern", p->pattern);
    cli_json_text(&j, "output", path);
    cli_json_end(c, &j);
    sp_text shape;
    sp_text_init(&shape, c->cx);
    sp_tensor_print_shape(&t, &shape);
    cli_say(c, "%s: %s %s\n", path, p->pattern ? "pattern" : sparta_dtype_name(p->dtype),
            sp_text_str(&shape));
    sp_text_free(&shape);
}

static sparta_status unpack_dense(cli *c, const sp_packed *p, const char *path)
{
    sparta_tensor t;
    sparta_status status = sp_tensor_alloc(c->cx, p->dtype, p->rank, p->dim, &t);
    if (status == SPARTA_E_MEMORY)
        return sp_fail(c->cx, status,
                       "%s: the dense array does not fit in the memory budget; unpack to an .mtx, which "
                       "stays sparse, or raise --max-memory",
                       path);
    SP_TRY(status);
    status = sp_store_unpack(c->cx, p, &t);
    if (!status) status = step(c, 3, "writing");
    if (!status) status = sp_npy_write(c->cx, path, &t);
    sp_free(c->cx, t.data);
    return status;
}

static sparta_status unpack_entries(cli *c, const sp_packed *p, const char *path)
{
    sp_coo entries;
    if (p->rank != 2)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "%s: Matrix Market holds matrices, this tensor has %d dimensions; unpack to a .npy",
                       path, p->rank);
    SP_TRY(sp_store_to_coo(c->cx, p, &entries));
    sparta_status status = step(c, 3, "writing");
    if (!status) status = sp_mtx_write(c->cx, path, &entries);
    sp_coo_free(&entries);
    return status;
}

static bool ends(const char *path, const char *with)
{
    size_t n = strlen(path), k = strlen(with);
    return n > k && !strcasecmp(path + n - k, with);
}

static sparta_status unpack(cli *c, const char *in)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    cli_source s;
    if (!path) return usage(c);
    const bool entries = ends(path, ".mtx");
    if (!entries && !ends(path, ".npy"))
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: unpack writes .npy and .mtx; give such a name", path);
    SP_TRY(cli_writable(c, path));
    SP_TRY(step(c, 0, "reading"));
    SP_TRY(cli_source_read_packed(c, in, &s));
    sparta_status status = step(c, 2, "unpacking");
    if (!status)
        status =
            blame(c, in, entries ? unpack_entries(c, &s.packed, path) : unpack_dense(c, &s.packed, path));
    if (!status) say_array(c, &s.packed, path);
    cli_source_free(c, &s);
    return status;
}

/* ------------------------------------------------------------------ the words after `format` */

static const struct word {
    const char *name, *how;
    sparta_status (*run)(cli *c, const char *in);
} words[] = {
    {"check", "TEXT [--shape 4x4]", check},
    {"pack", "IN --format TEXT -o OUT.npz", pack},
    {"unpack", "OUT.npz -o F.npy or F.mtx", unpack},
    {"convert", "OUT.npz --to TEXT -o OUT2.npz", convert},
    {"stats", "IN --format TEXT (a packed file needs no --format)", stats},
    {"advise", "IN", cli_format_advise},
};

static sparta_status find_word(cli *c, const char *what, const struct word **out)
{
    const char *names[SP_COUNT(words)];
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        names[i] = words[i].name;
        if (strcmp(what, names[i])) continue;
        *out = &words[i];
        return SPARTA_OK;
    }
    const char *near = sp_nearest(what, names, (int)SP_COUNT(words));
    return sp_fail(c->cx, SPARTA_E_USAGE, "format: there is no \"%s\"; %s%s%s", what,
                   near ? "did you mean " : "sparta format --help lists them", near ? near : "",
                   near ? "?" : "");
}

static sparta_status usage(cli *c)
{
    const struct word *word = NULL;
    SP_TRY(find_word(c, c->operand[0], &word));
    return sp_fail(c->cx, SPARTA_E_USAGE, "format %s: something is missing; sparta format %s %s", word->name,
                   word->name, word->how);
}

sparta_status cli_verb_format(cli *c)
{
    const struct word *word = NULL;
    SP_TRY(find_word(c, c->operand[0], &word));
    if (c->n_operands < 2) return usage(c);
    return word->run(c, c->operand[1]);
}
