/* sparta format advise: the formats that fit a tensor, fewest bytes first, what would run each, and how long that takes. */
#include "verbs.h"
#include "implement/implement.h"
#include <math.h>
#include <string.h>

enum { TOKENS = 128 }; /* that formats are timed with */

/* A format that no kernel was written for: one is generated, or the walker takes it. */
static bool walks(const sp_implement *im)
{
    return sp_implement_stores_any(im);
}

/* Would pack take it? */
static bool within(cli *c, const sp_advice_row *row)
{
    if (!sp_store_within(c->cx, &row->parsed, &row->stats, cli_real(c, CLI_LIMIT, SP_STORE_LIMIT)))
        return true;
    sp_ctx_clear(c->cx);
    return false;
}

static void group_json(cli_json *j, const sp_advice *a, int64_t rows)
{
    cli_json_open(j, "group", '{');
    cli_json_ints(j, "block", 2, (int64_t[]){a->group_n, a->group_m});
    cli_json_real(j, "fill_before", a->fill_before);
    cli_json_real(j, "fill_after", a->fill_after);
    cli_json_real(j, "bytes", a->group_bytes);
    cli_json_ints(j, "order", (int)rows, a->order);
    cli_json_close(j, '}');
}

static void head(cli *c, const sparta_tensor *t, const sp_advice *a)
{
    sp_text shape;
    sp_text_init(&shape, c->cx);
    sp_tensor_print_shape(t, &shape);
    cli_say(c, "%s: %s %s, %lld elements, density %.4f; %.0f bytes as a dense array\n\n", c->operand[1],
            sparta_dtype_name(t->dtype), sp_text_str(&shape), (long long)a->elements, a->density,
            a->dense_bytes);
    sp_text_free(&shape);
}

static void tail(cli *c, const sp_advice *a)
{
    if (a->fastest)
        cli_say(c, "\nfastest: %s, %.1f us for %lld tokens on one thread (%s)\n", a->fastest->format,
                a->fastest->us, (long long)cli_int(c, CLI_M, TOKENS), a->fastest->implement->name);
    if (a->order)
        cli_say(c,
                "\nrows in another order: %dx%d blocks have a fill of %.3f instead of %.3f, %.0f bytes%s\n",
                a->group_n, a->group_m, a->fill_after, a->fill_before, a->group_bytes,
                cli_has(c, CLI_OUTPUT) ? "" : "; -o ORDER.npy keeps the order");
    else if (cli_has(c, CLI_GROUP) && a->looked)
        cli_say(c, "\nno other order of the rows makes blocks fuller\n");
}

/* Kernels multiply f32; a matrix of anything else is run by the reference, whatever its format. */
static const char *runs(cli *c, const sp_packed *p, const sp_advice_row *row)
{
    if (walks(row->implement))
        return row->parsed.opaque ? "walk (no kernel of its own)"
                                  : "generated, or walked (no kernel of its own)";
    if (row->implement) return row->implement->name;
    return p->rank == 2 ? sp_arena_printf(c->arena, "none for %s yet", sparta_dtype_name(p->dtype)) : "";
}

static sparta_status rows(cli *c, cli_json *j, const sp_packed *p, const sp_advice *a)
{
    static const char *const names[] = {"format", "pattern", "fill",      "bytes",
                                        "share",  "us",      "implement", "limit"};
    cli_rows t = cli_rows_begin(c, j, "formats", (int)SP_COUNT(names), names);
    for (int i = 0; i < a->n; i++) {
        const sp_advice_row *row = &a->row[i];
        const bool fits = within(c, row);
        const char *canonical = cli_format_text(c, &row->parsed), *how = runs(c, p, row);
        const char *pattern = *row->pattern ? sp_arena_printf(c->arena, "%s, %s", row->pattern,
                                                              row->exact ? "exactly" : "nearly")
                                            : "";
        if (!canonical || !how || !pattern) return sp_ctx_status(c->cx);
        cli_rows_next(&t);
        cli_rows_text(&t, "format", row->format);
        cli_json_text(j, "canonical", canonical);
        cli_json_text(j, "pattern", *row->pattern ? row->pattern : NULL);
        cli_table_text(&t.table, pattern);
        cli_json_bool(j, "exact", row->exact);
        cli_table_real(&t.table, 3, row->stats.fill);
        cli_table_int(&t.table, (int64_t)row->stats.bytes);
        cli_rows_real(&t, "share", 4, row->share);
        cli_rows_real(&t, "us", 1, row->us > 0 ? row->us : NAN);
        cli_json_text(j, "implement", row->implement ? row->implement->name : NULL);
        cli_table_text(&t.table, how);
        cli_json_bool(j, "within_limit", fits);
        cli_table_text(&t.table, fits ? "" : "past it");
        cli_stats(&(cli_rows){.json = j}, &row->parsed, &row->stats);
    }
    return cli_rows_end(&t);
}

static sparta_status show(cli *c, const sp_packed *p, const sp_advice *a, const char *output)
{
    const sparta_tensor shape = sparta_tensor_view(p->dtype, p->rank, p->dim, NULL);
    cli_json j = cli_json_begin(c, "format");
    cli_json_text(&j, "name", c->operand[1]);
    cli_tensor_json(&j, &shape);
    cli_json_int(&j, "elements", a->elements);
    cli_json_real(&j, "density", a->density);
    cli_json_real(&j, "dense_bytes", a->dense_bytes);
    cli_json_bool(&j, "patterns_looked_for", a->looked);
    cli_json_int(&j, "tokens", cli_int(c, CLI_M, TOKENS));
    cli_json_text(&j, "fastest", a->fastest ? a->fastest->format : NULL);
    head(c, &shape, a);
    SP_TRY(rows(c, &j, p, a));
    tail(c, a);
    if (a->order) group_json(&j, a, p->dim[0]);
    cli_json_text(&j, "output", output);
    cli_json_end(c, &j);
    return SPARTA_OK;
}

static sparta_status write_order(cli *c, const sp_advice *a, int64_t rows, const char *path)
{
    if (!a->order)
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED,
                       "%s: not written: no other order of the rows makes blocks fuller", path);
    const sparta_tensor order = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){rows}, a->order);
    return sp_npy_write(c->cx, path, &order);
}

static sparta_status advise(cli *c, const cli_source *s)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    const sp_packed *p = &s->packed;
    const sp_advise_request r = {.group = cli_has(c, CLI_GROUP), .also = cli_text(c, CLI_FORMAT, NULL)};
    sp_advice a;
    const sp_advise_timing timing = {.tokens = cli_int(c, CLI_M, TOKENS),
                                     .seconds = cli_real(c, CLI_TIME, 0.01),
                                     .limit = cli_real(c, CLI_LIMIT, SP_STORE_LIMIT)};
    SP_TRY(sp_advise(c->cx, c->arena, p, &r, &a));
    if (!cli_has(c, CLI_NO_MEASURE)) SP_TRY(sp_advise_time(c->cx, p, &timing, &a));
    if (path) SP_TRY(write_order(c, &a, p->dim[0], path));
    if (!a.looked)
        sp_note(c->cx, "%s: %s; formats were only measured", c->operand[1],
                p->rank == 2 ? "too large to look for patterns element by element"
                             : "patterns are looked for in matrices, and this has other dimensions");
    return show(c, p, &a, path);
}

sparta_status cli_format_advise(cli *c, const char *in)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    cli_source s;
    sp_format also;
    if (path && !cli_has(c, CLI_GROUP))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "format advise: -o is for the order of rows that --group finds; add --group");
    if (path) SP_TRY(cli_writable(c, path));
    if (cli_has(c, CLI_FORMAT)) SP_TRY(sp_format_parse(c->cx, cli_text(c, CLI_FORMAT, ""), &also));
    SP_TRY(cli_source_read(c, in, &s));
    sparta_status status = advise(c, &s);
    cli_source_free(c, &s);
    return status;
}
