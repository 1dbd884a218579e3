/* The canonical text of a format, and when two formats are the same storage. */
#include "format/text.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ levels */

static const char *width_name(const sparta_level *l, bool crd)
{
    return crd ? sparta_crd_name(l) : sparta_dtype_name(l->pos);
}

/* ", crd=u16" when all levels that have one agree, else ", crd[2]=u16" for each that is not i32. */
static void print_widths(const sparta_format *f, bool crd, sparta_text *out)
{
    const char *key = crd ? "crd" : "pos", *width[SPARTA_LEVELS];
    int at[SPARTA_LEVELS], n = 0;
    bool same = true;
    for (int i = 0; i < f->n; i++) {
        const sparta_level *l = &f->level[i];
        if (crd ? !sparta_level_has_crd(l) : !sparta_level_table[l->kind].has_pos) continue;
        width[n] = width_name(l, crd);
        same = same && !strcmp(width[n], width[0]);
        at[n++] = i;
    }
    for (int i = 0; i < n; i++) {
        if (!strcmp(width[i], "i32")) continue;
        if (!same)
            sparta_text_printf(out, ", %s[%d]=%s", key, at[i], width[i]);
        else if (i == 0)
            sparta_text_printf(out, ", %s=%s", key, width[i]);
    }
}

static void print_kind(const sparta_level *l, sparta_text *out)
{
    static const struct {
        unsigned property;
        const char *name;
    } properties[] = {{SPARTA_PROP_NONUNIQUE, "nonunique"},
                      {SPARTA_PROP_NONORDERED, "nonordered"},
                      {SPARTA_PROP_SOA, "soa"},
                      {SPARTA_PROP_AOS, "aos"},
                      {SPARTA_PROP_PAD_ZERO, "pad=zero"},
                      {SPARTA_PROP_ZEROLESS, "zeroless"}};
    sparta_text_printf(out, "%s", sparta_level_table[l->kind].name);
    if (l->kind == SPARTA_LEVEL_PACKED && !l->w)
        sparta_text_printf(out, "[auto]");
    else if (l->kind == SPARTA_LEVEL_PACKED)
        sparta_text_printf(out, "[%lld]", (long long)l->w);
    else if (l->kind == SPARTA_LEVEL_STRUCTURED)
        sparta_text_printf(out, "[%lld,%lld]", (long long)l->w, (long long)l->m);
    bool any = false;
    for (size_t i = 0; i < SPARTA_COUNT(properties); i++) {
        if (!(l->properties & properties[i].property)) continue;
        sparta_text_printf(out, "%s%s", any ? "," : "(", properties[i].name);
        any = true;
    }
    if (any) sparta_text_printf(out, ")");
}

static void print_levels(const sparta_format *f, sparta_text *out)
{
    for (int d = 0; d < f->rank; d++) sparta_text_printf(out, "%s%s", d ? "," : "(", f->dim_name[d]);
    for (int i = 0; i < f->n; i++) {
        char map[48];
        sparta_level_print_map(f, &f->level[i], map);
        sparta_text_printf(out, "%s%s:", i ? ", " : ")->(", map);
        print_kind(&f->level[i], out);
    }
    sparta_text_printf(out, ")");
    print_widths(f, false, out);
    print_widths(f, true, out);
}

static void print_opaque(const sparta_format *f, sparta_text *out)
{
    int n = f->opaque->arguments;
    while (n && !f->argument[n - 1]) n--; /* left out */
    sparta_text_printf(out, "%s", f->opaque->name);
    for (int i = 0; i < n; i++) sparta_text_printf(out, "%c%lld", i ? ',' : '(', (long long)f->argument[i]);
    if (n) sparta_text_printf(out, ")");
}

static void print_sum(const sparta_sum *sum, sparta_text *out)
{
    for (int i = 0; i < sum->n; i++) {
        char select[SPARTA_SELECT_TEXT];
        sparta_text_printf(out, "%s%s -> ", i ? "; " : "sum{",
                           sparta_select_show(&sum->part[i].select, select));
        sparta_format_print(&sum->part[i].format, out);
    }
    sparta_text_printf(out, "}");
}

void sparta_format_print(const sparta_format *f, sparta_text *out)
{
    if (f->sum)
        print_sum(f->sum, out);
    else if (f->opaque)
        print_opaque(f, out);
    else
        print_levels(f, out);
}

/* ------------------------------------------------------------------ selectors */

/* "%.*g" with a point, whatever the host's locale writes there. */
static void show_digits(double x, int digits, char out[32])
{
    char number[40];
    int n = 0;
    snprintf(number, sizeof number, "%.*g", digits, x);
    for (const char *s = number; *s && n < 31; s++) {
        if (strchr("0123456789e+-", *s))
            out[n++] = *s;
        else if (n && out[n - 1] != '.') /* a point may have several bytes */
            out[n++] = '.';
    }
    out[n] = 0;
}

/* The fewest digits that read back as x. */
static void show_density(double x, char out[32])
{
    double back;
    for (int digits = 1; digits <= 17; digits++) {
        show_digits(x, digits, out);
        if (sparta_parse_double(out, &back) && back == x) return;
    }
}

const char *sparta_select_show(const sparta_select *s, char out[SPARTA_SELECT_TEXT])
{
    char x[32] = "";
    long long a = s->a, b = s->b;
    switch (s->kind) {
    case SPARTA_SELECT_ROWNNZ:
        if (a)
            snprintf(out, SPARTA_SELECT_TEXT, "rownnz in (%lld,%lld]", a, b);
        else
            snprintf(out, SPARTA_SELECT_TEXT, "rownnz<=%lld", b);
        break;
    case SPARTA_SELECT_COLPART: snprintf(out, SPARTA_SELECT_TEXT, "colpart(%lld)", b); break;
    case SPARTA_SELECT_BLOCKDENSITY:
        show_density(s->x, x);
        snprintf(out, SPARTA_SELECT_TEXT, "blockdensity>=%s", x);
        break;
    case SPARTA_SELECT_FIRST: snprintf(out, SPARTA_SELECT_TEXT, "first(%lld)", b); break;
    default: snprintf(out, SPARTA_SELECT_TEXT, "rest");
    }
    return out;
}

static bool same_select(const sparta_select *x, const sparta_select *y)
{
    if (x->kind != y->kind) return false;
    switch (x->kind) {
    case SPARTA_SELECT_ROWNNZ: return x->a == y->a && x->b == y->b;
    case SPARTA_SELECT_BLOCKDENSITY: return x->x == y->x;
    case SPARTA_SELECT_REST: return true;
    default: return x->b == y->b;
    }
}

/* ------------------------------------------------------------------ equality */

static bool same_map(const sparta_level *x, const sparta_level *y)
{
    if (x->dim != y->dim || x->map != y->map) return false;
    if (sparta_level_is_blocked(x) && x->c != y->c) return false;
    if (x->map == SPARTA_MAP_NEST && x->inner != y->inner) return false;
    return !sparta_level_is_diagonal(x) || x->other == y->other;
}

static bool same_level(const sparta_level *x, const sparta_level *y)
{
    const sparta_level_info *info = &sparta_level_table[x->kind];
    if (x->kind != y->kind || x->properties != y->properties || !same_map(x, y)) return false;
    if (info->arguments > 0 && x->w != y->w) return false;
    if (info->arguments > 1 && x->m != y->m) return false;
    if (info->has_pos && x->pos != y->pos) return false;
    return !sparta_level_has_crd(x) || (x->crd == y->crd && x->crd_bits == y->crd_bits);
}

static bool same_sum(const sparta_sum *a, const sparta_sum *b)
{
    if (a == b) return true;
    if (!a || !b || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!same_select(&a->part[i].select, &b->part[i].select) ||
            !sparta_format_equal(&a->part[i].format, &b->part[i].format))
            return false;
    return true;
}

bool sparta_format_equal(const sparta_format *a, const sparta_format *b)
{
    if (a->rank != b->rank || a->n != b->n || a->opaque != b->opaque || !same_sum(a->sum, b->sum))
        return false;
    for (int i = 0; a->opaque && i < a->opaque->arguments; i++)
        if (a->argument[i] != b->argument[i]) return false;
    for (int i = 0; i < a->n; i++)
        if (!same_level(&a->level[i], &b->level[i])) return false;
    return true;
}
