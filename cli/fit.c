/* Tables as wide as the terminal: which columns are shown, and how names are shortened. */
#include "fit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    NARROWEST = 24, /* a column of text is folded, and a name cut, rather than narrower */
    READABLE = 38,  /* names are not shortened to less while there are columns to leave out */
    MOST_WORDS = 24
};

/* Columns that are left out where there is no room, the least important first. Others stay. */
static const char *const gives_way[] = {
    "source",       "op",         "gops_real", "dtype",     "best_ms",     "runs",      "at",
    "pos_bytes",    "crd_bytes",  "dense_MB",  "weights",   "pruned",      "tokens",    "before",
    "share",        "precision",  "p90_ms",    "norm_kept", "items_per_s", "from",      "to",
    "fewest bytes", "shape",      "dense_ms",  "density",   "max_rel",     "%_of_peak", "pattern",
    "value_bytes",  "break_even", "implement", "dense_us"};

/* Columns of names: paths of parts between '/' and '.'. */
static const char *const of_names[] = {"layer", "array", "tensor", "value", "such as", "output"};

static bool stays(const cli_table *t, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = t->keeps; p && *p; p += strcspn(p, " "), p += *p == ' ')
        if (!strncmp(p, name, n) && (p[n] == ' ' || !p[n])) return true;
    return false;
}

static bool listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name)) return true;
    return false;
}

int cli_columns(void)
{
    struct winsize window;
    const char *given = getenv("COLUMNS");
    int64_t n;
    if (given && sp_parse_int(given, &n) && n > 0 && n < 10000) return SP_MAX((int)n, NARROWEST);
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) || !window.ws_col) return 0;
    return SP_MAX((int)window.ws_col, NARROWEST);
}

/* Bytes that are not the first of a UTF-8 character take no room. */
int cli_width(const char *s)
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

size_t cli_wrap(const char *s, int room, const char **next)
{
    const char *space = NULL, *p = s;
    for (int n = 0; *p && n < room; n++) {
        if (*p == ' ') space = p;
        do p++;
        while (((unsigned char)*p & 0xc0) == 0x80);
    }
    if (*p == ' ') space = p;
    const char *end = !*p || !space || space == s ? p : space; /* a word that is too long is broken */
    *next = end;
    while (**next == ' ') ++*next;
    return (size_t)(end - s);
}

void cli_pad(sp_text *out, int n)
{
    for (; n > 0; n--) sp_text_put(out, " ", 1);
}

void cli_end_line(sp_text *out)
{
    while (out->size && out->data[out->size - 1] == ' ') out->size--;
    sp_text_put(out, "\n", 1);
}

void cli_wrapped(sp_text *out, const char *s, int room, int indent)
{
    for (bool first = true; first || *s; first = false) {
        const char *next;
        if (!first) cli_end_line(out);
        if (!first) cli_pad(out, indent);
        const size_t n = cli_wrap(s, room, &next);
        sp_text_put(out, s, n);
        s = next;
    }
}

/* ------------------------------------------------------------------ names */

typedef struct names {
    cli_table *t;
    int rows, column;
    sp_map *count;                /* part: how many of the names have it */
    const char *word[MOST_WORDS]; /* parts that go */
    int n;
    const char *const *whole; /* [rows] the names */
    const char **seen;        /* [rows] as they would be, less separators, to tell whether they differ */
} names;

static size_t part_length(const char *s)
{
    return strcspn(s, "/.");
}

/* A number tells layers apart and stays; what is shorter than the ".." in its place stays too. */
static bool may_go(const char *part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (part[i] >= '0' && part[i] <= '9') return false;
    return n > 2;
}

static bool goes(const names *a, const char *part, size_t n)
{
    for (int i = 0; i < a->n; i++)
        if (strlen(a->word[i]) == n && !strncmp(a->word[i], part, n)) return true;
    return false;
}

/* The name without the parts that go, into `to`: it never grows. */
static void elide(const names *a, const char *s, char *to)
{
    bool left_out = false;
    for (const char *part = s;; part++) {
        const size_t n = part_length(part);
        const bool out = goes(a, part, n);
        const char separator = part > s ? part[-1] : 0, end = part[n];
        if (out && !left_out) {
            memcpy(to, "..", 2);
            to += 2;
        } else if (!out && !left_out && separator) {
            *to++ = separator;
        }
        if (!out) memcpy(to, part, n);
        if (!out) to += n;
        left_out = out || (left_out && !n);
        part += n;
        if (!end) break;
    }
    *to = 0;
}

/* Counts each part once a name. */
static sparta_status count_parts(names *a)
{
    for (int row = 0; row < a->rows; row++)
        for (const char *s = a->whole[row];; s++) {
            const size_t n = part_length(s);
            int64_t before = 0;
            if (may_go(s, n)) {
                const char *part = sp_arena_bytes(a->t->c->arena, s, n);
                SP_NEED(a->t->c->cx, part);
                (void)sp_map_get(a->count, part, &before);
                SP_TRY(sp_map_put(a->count, part, before + 1));
            }
            s += n;
            if (!*s) break;
        }
    return SPARTA_OK;
}

/* The part that most names have, of those that were not tried. */
static const char *commonest(names *a)
{
    const char *best = NULL;
    int64_t most = 1;
    for (int row = 0; row < a->rows; row++)
        for (const char *s = a->whole[row];; s++) {
            char part[64];
            int64_t count = 0;
            const size_t n = part_length(s);
            if (n < sizeof part && may_go(s, n)) {
                memcpy(part, s, n);
                part[n] = 0;
                if (sp_map_get(a->count, part, &count) && count > most) {
                    most = count;
                    best = sp_arena_string(a->t->c->arena, part);
                }
            }
            s += n;
            if (!*s) break;
        }
    return best;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int distinct(const names *a, const char **list)
{
    int n = a->rows > 0;
    qsort(list, (size_t)a->rows, sizeof *list, by_text);
    for (int i = 1; i < a->rows; i++) n += strcmp(list[i - 1], list[i]) != 0;
    return n;
}

static char *copy(const names *a, const char *s)
{
    return sp_arena_string(a->t->c->arena, s);
}

/* Readers do not count dots: names that differ in separators alone are the same to them. */
static void strip_separators(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != '/' && *s != '.') *to++ = *s;
    *to = 0;
}

/* How wide the names would be, and how many of them differ and are more than a number. */
static sparta_status try_parts(const names *a, int *widest, int *different)
{
    int bare = 0; /* names that are no word any more */
    *widest = cli_width(a->t->name[a->column]);
    for (int row = 0; row < a->rows; row++) {
        char *s = copy(a, a->whole[row]);
        SP_NEED(a->t->c->cx, s);
        elide(a, a->whole[row], s);
        *widest = SP_MAX(*widest, cli_width(s));
        strip_separators(s);
        a->seen[row] = s;
        if (!s[strcspn(s, "abcdefghijklmnopqrstuvwxyz")]) bare++;
    }
    *different = distinct(a, a->seen) - bare;
    return SPARTA_OK;
}

/* Take parts away, the commonest first, until the names fit into `room`; never so that two names become one. */
static sparta_status choose_parts(names *a, int room)
{
    int widest, different;
    SP_TRY(try_parts(a, &widest, &different));
    for (int tried = 0; tried < MOST_WORDS && widest > room; tried++) {
        const char *word = commonest(a);
        if (!word) break;
        SP_TRY(sp_map_put(a->count, word, 0));
        a->word[a->n++] = word;
        int now_widest, now_different;
        SP_TRY(try_parts(a, &now_widest, &now_different));
        if (now_different < different)
            a->n--;
        else
            widest = now_widest;
    }
    for (int row = 0; row < a->rows; row++) {
        char *s = copy(a, a->whole[row]);
        SP_NEED(a->t->c->cx, s);
        elide(a, a->whole[row], s);
        a->t->cell[row * a->t->columns + a->column].text = s;
    }
    return SPARTA_OK;
}

/* Cells of the column get their names, `whole`, shortened to `room` where that loses nothing. */
static sparta_status shorten_names(cli_table *t, int rows, int column, const char *const *whole, int room)
{
    names a = {.t = t, .rows = rows, .column = column, .whole = whole, .count = sp_map_create(t->c->cx)};
    SP_NEED(t->c->cx, a.count);
    a.seen = sp_arena_array(t->c->arena, (size_t)rows + 1, sizeof *a.seen);
    sparta_status status = a.seen ? count_parts(&a) : sp_ctx_status(t->c->cx);
    if (!status) status = choose_parts(&a, room);
    sp_map_free(a.count);
    return status;
}

/* "..0/attention/se..query": the last resort, in the middle. */
static void cut(char *s, int room)
{
    int n = (int)strlen(s), front = room / 2, back = room - front - 2;
    if (n <= room || room < 6) return;
    while (front > 0 && ((unsigned char)s[front] & 0xc0) == 0x80) front--; /* whole UTF-8 characters */
    while (back > 0 && ((unsigned char)s[n - back] & 0xc0) == 0x80) back--;
    memcpy(s + front, "..", 2);
    memmove(s + front + 2, s + n - back, (size_t)back + 1);
}

/* ------------------------------------------------------------------ columns */

static int natural(const cli_table *t, int rows, int col)
{
    int most = cli_width(t->name[col]);
    for (int r = 0; r < rows; r++) most = SP_MAX(most, cli_width(t->cell[r * t->columns + col].text));
    return most;
}

static bool last_is_text(const cli_table *t, int rows)
{
    return rows > 0 && t->columns > 1 && !t->cell[t->columns - 1].number;
}

/* What the shown columns take, without the last one when that is text. */
static int taken(const cli_layout *l, bool text)
{
    int all = 0;
    for (int i = 0; i < l->n - text; i++) all += l->width[l->column[i]] + (i + 1 < l->n ? 2 : 0);
    return all;
}

static int name_column(const cli_table *t, int rows)
{
    for (int col = 0; col < t->columns; col++)
        if (rows > 0 && !t->cell[col].number && listed(of_names, SP_COUNT(of_names), t->name[col]))
            return col;
    return -1;
}

static sparta_status leave_out(cli_table *t, cli_layout *l, const char *name)
{
    for (int i = 1; i < l->n; i++) { /* the first says what a row is */
        if (strcmp(t->name[l->column[i]], name)) continue;
        memmove(&l->column[i], &l->column[i + 1], (size_t)(l->n - i - 1) * sizeof *l->column);
        l->n--;
        l->gone = sp_arena_printf(t->c->arena, "%s%s%s", l->gone, *l->gone ? ", " : "", name);
        SP_NEED(t->c->cx, l->gone);
        break;
    }
    return SPARTA_OK;
}

static sparta_status whole_names(cli_table *t, int rows, int col, const char *const **out)
{
    const char **whole = sp_arena_array(t->c->arena, (size_t)rows + 1, sizeof *whole);
    SP_NEED(t->c->cx, whole);
    for (int row = 0; row < rows; row++) whole[row] = t->cell[row * t->columns + col].text;
    *out = whole;
    return SPARTA_OK;
}

/* First the names, as long as they read well; then columns; then the names again, whole ones to as much room as there is now. */
static sparta_status narrow(cli_table *t, int rows, cli_layout *l, bool text)
{
    const int col = name_column(t, rows);
    const char *const *whole = NULL;
    if (taken(l, text) <= l->limit) return SPARTA_OK;
    if (col >= 0) SP_TRY(whole_names(t, rows, col, &whole));
    for (int turn = 0; turn < 2; turn++) {
        const int least = turn ? NARROWEST : READABLE;
        if (whole) {
            const int others = taken(l, text) - l->width[col];
            SP_TRY(shorten_names(t, rows, col, whole, SP_MAX(least, l->limit - others)));
            l->width[col] = natural(t, rows, col);
        }
        for (size_t i = 0; i < SP_COUNT(gives_way) && taken(l, text) > l->limit && !turn; i++)
            if (!stays(t, gives_way[i])) SP_TRY(leave_out(t, l, gives_way[i]));
    }
    return SPARTA_OK;
}

/* The last resort: the first column is cut. */
static void cut_names(cli_table *t, int rows, cli_layout *l, bool text)
{
    const int over = taken(l, text) - l->limit;
    if (over <= 0 || !rows || t->cell[0].number) return;
    for (int row = 0; row < rows; row++)
        cut((char *)t->cell[row * t->columns].text, SP_MAX(NARROWEST, l->width[0] - over));
    l->width[0] = natural(t, rows, 0);
}

sparta_status cli_fit(cli_table *t, int rows, cli_layout *out)
{
    cli_layout l = {.n = t->columns, .gone = "", .limit = cli_columns()};
    const bool text = last_is_text(t, rows);
    l.column = sp_arena_array(t->c->arena, (size_t)t->columns, sizeof *l.column);
    SP_NEED(t->c->cx, l.column);
    l.width = sp_arena_array(t->c->arena, (size_t)t->columns, sizeof *l.width);
    SP_NEED(t->c->cx, l.width);
    for (int col = 0; col < t->columns; col++) {
        l.column[col] = col;
        l.width[col] = natural(t, rows, col);
    }
    if (l.limit) {
        SP_TRY(narrow(t, rows, &l, text));
        cut_names(t, rows, &l, text);
    }
    const int wants = l.width[t->columns - 1];
    if (l.limit && text && taken(&l, true) + wants > l.limit) {
        l.room = l.limit - taken(&l, true);
        l.folded = l.room < NARROWEST;
    }
    if (l.folded) l.n--;
    *out = l;
    return SPARTA_OK;
}
