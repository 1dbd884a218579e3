/* Tables: gathered cell by cell, printed aligned for people or as --table says. */
#include "fit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FOLDED = 4 /* spaces before what is folded under its row */ };

cli_table cli_table_begin(cli *c, int columns, const char *const *names)
{
    return (cli_table){.c = cli_wants_json(c) ? NULL : c, .columns = columns, .name = names};
}

/* A cell; its text is NULL when there is no memory for it. */
static void add(cli_table *t, cli_cell cell)
{
    if (!cell.text && !t->status) t->status = sp_ctx_status(t->c->cx);
    if (t->status) return;
    if (t->cells == t->capacity) {
        int capacity = t->capacity ? t->capacity * 2 : 64;
        cli_cell *grown = sp_arena_array(t->c->arena, (size_t)capacity, sizeof *grown);
        if (!grown) {
            t->status = sp_ctx_status(t->c->cx);
            return;
        }
        if (t->cells) memcpy(grown, t->cell, (size_t)t->cells * sizeof *grown);
        t->cell = grown;
        t->capacity = capacity;
    }
    t->cell[t->cells++] = cell;
}

/* Names come out of files: what a terminal would act on becomes '?'. */
void cli_table_text(cli_table *t, const char *s)
{
    if (!t->c) return;
    char *copy = sp_arena_string(t->c->arena, s ? s : "");
    if (copy) sp_clean(copy);
    add(t, (cli_cell){.text = copy});
}

void cli_table_real(cli_table *t, int digits, double v)
{
    if (t->c)
        add(t, (cli_cell){.text = isnan(v) ? "" : sp_arena_printf(t->c->arena, "%.*f", digits, v),
                          .number = true,
                          .value = v});
}

void cli_table_int(cli_table *t, int64_t v)
{
    if (t->c)
        add(t, (cli_cell){.text = sp_arena_printf(t->c->arena, "%lld", (long long)v),
                          .number = true,
                          .value = (double)v});
}

/* ------------------------------------------------------------------ forms */

static const cli_cell *cell(const cli_table *t, int row, int column)
{
    return &t->cell[row * t->columns + column];
}

/* The text of a cell; row -1: of the head. */
static const char *text_of(const cli_table *t, int row, int col)
{
    return row < 0 ? t->name[col] : cell(t, row, col)->text;
}

static void aligned_row(const cli_table *t, const cli_layout *l, int rows, int row)
{
    sp_text *out = &t->c->out;
    int at = 0;
    for (int i = 0; i < l->n; i++) {
        const int col = l->column[i], spare = l->width[col] - cli_width(text_of(t, row, col));
        const bool right = rows > 0 && cell(t, 0, col)->number, last = i == l->n - 1;
        if (i) cli_pad(out, 2);
        at += i ? 2 : 0;
        if (right) cli_pad(out, spare);
        if (last && l->room && !l->folded)
            cli_wrapped(out, text_of(t, row, col), l->room, at);
        else
            sp_text_put(out, text_of(t, row, col), strlen(text_of(t, row, col)));
        if (!right && !last) cli_pad(out, spare);
        at += l->width[col];
    }
    cli_end_line(out);
    const char *below = l->folded && row >= 0 ? text_of(t, row, t->columns - 1) : "";
    if (!*below) return;
    cli_pad(out, FOLDED);
    cli_wrapped(out, below, l->limit - FOLDED, FOLDED);
    cli_end_line(out);
}

static void aligned(cli_table *t, int rows)
{
    cli_layout l;
    t->status = cli_fit(t, rows, &l);
    if (t->status) return;
    for (int row = -1; row < rows; row++) aligned_row(t, &l, rows, row);
    if (!*l.gone || cli_has(t->c, CLI_QUIET)) return;
    const char *remark = sp_arena_printf(t->c->arena, "(no room for: %s; --table csv has them)", l.gone);
    if (!remark) return;
    cli_wrapped(&t->c->out, remark, l.limit, 1);
    cli_end_line(&t->c->out);
}

static void markdown_cell(sp_text *out, const char *s)
{
    sp_text_put(out, " ", 1);
    for (; *s; s++) {
        if (*s == '|') sp_text_put(out, "\\", 1);
        sp_text_put(out, s, 1);
    }
    sp_text_put(out, " |", 2);
}

static void markdown(cli_table *t, int rows)
{
    sp_text *out = &t->c->out;
    sp_text_put(out, "|", 1);
    for (int col = 0; col < t->columns; col++) markdown_cell(out, t->name[col]);
    sp_text_put(out, "\n|", 2);
    for (int col = 0; col < t->columns; col++)
        sp_text_printf(out, rows > 0 && cell(t, 0, col)->number ? "---:|" : "---|");
    sp_text_put(out, "\n", 1);
    for (int row = 0; row < rows; row++) {
        sp_text_put(out, "|", 1);
        for (int col = 0; col < t->columns; col++) markdown_cell(out, cell(t, row, col)->text);
        sp_text_put(out, "\n", 1);
    }
}

static void csv_cell(sp_text *out, const char *s)
{
    if (!strpbrk(s, ",\"\n\r")) {
        sp_text_put(out, s, strlen(s));
        return;
    }
    sp_text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"') sp_text_put(out, s, 1);
        sp_text_put(out, s, 1);
    }
    sp_text_put(out, "\"", 1);
}

static void csv(cli_table *t, int rows)
{
    for (int row = -1; row < rows; row++)
        for (int col = 0; col < t->columns; col++) {
            csv_cell(&t->c->out, row < 0 ? t->name[col] : cell(t, row, col)->text);
            sp_text_put(&t->c->out, col == t->columns - 1 ? "\n" : ",", 1);
        }
}

static void json(cli_table *t, int rows, bool lines)
{
    cli_json j = {.t = &t->c->out};
    if (!lines) cli_json_open(&j, NULL, '[');
    for (int row = 0; row < rows; row++) {
        if (lines) j = (cli_json){.t = &t->c->out};
        cli_json_open(&j, NULL, '{');
        for (int col = 0; col < t->columns; col++) {
            const cli_cell *x = cell(t, row, col);
            if (x->number)
                cli_json_real(&j, t->name[col], x->value);
            else
                cli_json_text(&j, t->name[col], x->text);
        }
        cli_json_close(&j, '}');
        if (lines) sp_text_put(&t->c->out, "\n", 1);
    }
    if (!lines) {
        cli_json_close(&j, ']');
        sp_text_put(&t->c->out, "\n", 1);
    }
}

sparta_status cli_table_end(cli_table *t)
{
    if (t->status || !t->c) return t->status;
    int rows = t->cells / t->columns;
    const char *form = cli_text(t->c, CLI_TABLE, "");
    if (!strcmp(form, "md"))
        markdown(t, rows);
    else if (!strcmp(form, "csv"))
        csv(t, rows);
    else if (*form)
        json(t, rows, !strcmp(form, "jsonl"));
    else
        aligned(t, rows);
    return t->status ? t->status : t->c->out.status;
}

/* ------------------------------------------------------------------ rows, in one form or the other */

cli_rows cli_rows_begin(cli *c, cli_json *j, const char *key, int columns, const char *const *names)
{
    if (key) cli_json_open(j, key, '[');
    return (cli_rows){j, cli_table_begin(c, columns, names), key ? CLI_ROWS_NONE : CLI_ROWS_BARE};
}

void cli_rows_next(cli_rows *r)
{
    if (r->array == CLI_ROWS_SOME) cli_json_close(r->json, '}');
    if (r->array == CLI_ROWS_BARE) return;
    cli_json_open(r->json, NULL, '{');
    r->array = CLI_ROWS_SOME;
}

void cli_rows_text(cli_rows *r, const char *key, const char *value)
{
    cli_json_text(r->json, key, value);
    cli_table_text(&r->table, value);
}

void cli_rows_int(cli_rows *r, const char *key, int64_t value)
{
    cli_json_int(r->json, key, value);
    cli_table_int(&r->table, value);
}

void cli_rows_real(cli_rows *r, const char *key, int digits, double value)
{
    cli_json_real(r->json, key, value);
    cli_table_real(&r->table, digits, value);
}

sparta_status cli_rows_end(cli_rows *r)
{
    if (r->array == CLI_ROWS_SOME) cli_json_close(r->json, '}');
    if (r->array != CLI_ROWS_BARE) cli_json_close(r->json, ']');
    return cli_table_end(&r->table);
}

/* ------------------------------------------------------------------ lines */

/* text[front, size - back) cleaned, between its new lines. */
static void say_line(cli *c, char *text, size_t size, size_t front, size_t back)
{
    sp_text_put(&c->out, text, front);
    if (size > front + back) {
        text[size - back] = 0;
        sp_clean(text + front);
        sp_text_put(&c->out, text + front, strlen(text + front));
    }
    for (; back; back--) sp_text_put(&c->out, "\n", 1);
}

/* The format's new lines stand at its ends; whatever is between them is one line, also with a hostile name in it. */
void cli_say(cli *c, const char *format, ...)
{
    if (cli_wants_json(c) || cli_has(c, CLI_TABLE) || cli_has(c, CLI_QUIET)) return;
    size_t front = strspn(format, "\n"), all = strlen(format), back = 0;
    while (front + back < all && format[all - back - 1] == '\n') back++;
    sp_text line;
    sp_text_init(&line, c->cx);
    va_list args;
    va_start(args, format);
    sp_text_vprintf(&line, format, args);
    va_end(args);
    if (line.status) c->out.status = line.status;
    if (line.size) say_line(c, line.data, line.size, front, back);
    sp_text_free(&line);
}
