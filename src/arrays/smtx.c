/* SMTX, the text of the Deep Learning Matrix Collection:
 *
 *     2, 4, 3          rows, columns, non-zeros
 *     0 2 3            where each row begins, and the end
 *     0 3 1            columns, from 0
 */
#include "arrays/lines.h"
#include "arrays/arrays.h"

static sparta_status need_line(line_reader *r, const char *what)
{
    if (sp_line_next(r)) return SPARTA_OK;
    r->line++;
    return sp_line_fail(r, SPARTA_E_FORMAT, "the file ends before the line of %s", what);
}

static sparta_status read_sizes(line_reader *r, int64_t dim[2], int64_t *n)
{
    SP_TRY(need_line(r, "sizes"));
    r->commas = true;
    SP_TRY(sp_line_natural(r, "the number of rows", &dim[0]));
    SP_TRY(sp_line_natural(r, "the number of columns", &dim[1]));
    SP_TRY(sp_line_natural(r, "the number of non-zeros", n));
    SP_TRY(sp_line_end(r));
    r->commas = false;
    int64_t left = (int64_t)(r->end - r->at); /* "0 " for each number */
    if (dim[0] > left / 2 + 1 || *n > left / 2 + 1)
        return sp_line_fail(r, SPARTA_E_FORMAT,
                            "%lld rows and %lld non-zeros are promised and the file has only %lld bytes left",
                            (long long)dim[0], (long long)*n, (long long)left);
    return SPARTA_OK;
}

static sparta_status read_offsets(line_reader *r, sp_coo *c)
{
    int64_t at = 0, next = 0;
    SP_TRY(need_line(r, "row offsets"));
    for (int64_t row = -1; row < c->dim[0]; row++) {
        SP_TRY(sp_line_natural(r, "a row offset", &next));
        if (row < 0 && next != 0)
            return sp_line_fail(r, SPARTA_E_FORMAT, "the first row offset is %lld, not 0", (long long)next);
        if (next < at || next > c->n)
            return sp_line_fail(r, SPARTA_E_FORMAT, "the row offset %lld does not lie between %lld and %lld",
                                (long long)next, (long long)at, (long long)c->n);
        for (; at < next; at++) c->index[0][at] = row;
    }
    if (at != c->n)
        return sp_line_fail(r, SPARTA_E_FORMAT, "the last row offset is %lld and there are %lld non-zeros",
                            (long long)at, (long long)c->n);
    return sp_line_end(r);
}

static sparta_status read_columns(line_reader *r, sp_coo *c)
{
    if (!sp_line_next(r)) return c->n ? need_line(r, "columns") : SPARTA_OK;
    for (int64_t i = 0; i < c->n; i++) {
        SP_TRY(sp_line_natural(r, "a column", &c->index[1][i]));
        if (c->index[1][i] >= c->dim[1])
            return sp_line_fail(r, SPARTA_E_RANGE, "the column %lld is not below %lld",
                                (long long)c->index[1][i], (long long)c->dim[1]);
    }
    SP_TRY(sp_line_end(r));
    while (sp_line_next(r)) SP_TRY(sp_line_end(r));
    return SPARTA_OK;
}

sparta_status sp_smtx_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_coo *out)
{
    line_reader r = {.cx = cx, .at = bytes, .end = (const char *)bytes + n};
    int64_t dim[2] = {0}, entries = 0;
    sp_coo c;
    SP_TRY(read_sizes(&r, dim, &entries));
    SP_TRY(sp_coo_alloc(cx, 2, dim, entries, NULL, &c));
    sparta_status status = read_offsets(&r, &c);
    if (!status) status = read_columns(&r, &c);
    if (!status) status = sp_coo_canonical(&c);
    if (status) {
        sp_coo_free(&c);
        return status;
    }
    *out = c;
    return SPARTA_OK;
}
