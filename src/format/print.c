/* The canonical text of a format, and when two formats are the same storage. */
#include "format/text.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ levels */

static const char *width_name(const sp_level *l, bool crd)
{
    return crd ? sp_crd_name(l) : sparta_dtype_name(l->pos);
}

/* ", crd=u16" when all levels that have one agree, else ", crd[2]=u16" for each that is not i32. */
static void print_widths(const sp_format *f, bool crd, sp_text *out)
{
    const char *key = crd ? "crd" : "pos", *width[SP_LEVELS];
    int at[SP_LEVELS], n = 0;
    bool same = true;
    for (int i = 0; i < f->n; i++) {
        const sp_level *l = &f->level[i];
        if (crd ? !sp_level_has_crd(l) : !sp_level_table[l->kind].has_pos) continue;
        width[n] = width_name(l, crd);
        same = same && !strcmp(width[n], width[0]);
        at[n++] = i;
    }
    for (int i = 0; i < n; i++) {
        if (!strcmp(width[i], "i32")) continue;
        if (!same)
            sp_text_printf(out, ", %s[%d]=%s", key, at[i], width[i]);
        else if (i == 0)
            sp_text_printf(out, ", %s=%s", key, width[i]);
    }
}

static void print_kind(const sp_level *l, sp_text *out)
{
    static const struct {
        unsigned property;
        const char *name;
    } properties[] = {{SP_PROP_NONUNIQUE, "nonunique"},
                      {SP_PROP_NONORDERED, "nonordered"},
                      {SP_PROP_SOA, "soa"},
                      {SP_PROP_AOS, "aos"},
                      {SP_PROP_PAD_ZERO, "pad=zero"},
                      {SP_PROP_ZEROLESS, "zeroless"}};
    sp_text_printf(out, "%s", sp_level_table[l->kind].name);
    if (l->kind == SP_LEVEL_PACKED && !l->w)
        sp_text_printf(out, "[auto]");
    else if (l->kind == SP_LEVEL_PACKED)
        sp_text_printf(out, "[%lld]", (long long)l->w);
    else if (l->kind == SP_LEVEL_STRUCTURED)
        sp_text_printf(out, "[%lld,%lld]", (long long)l->w, (long long)l->m);
    bool any = false;
    for (size_t i = 0; i < SP_COUNT(properties); i++) {
        if (!(l->properties & properties[i].property)) continue;
        sp_text_printf(out, "%s%s", any ? "," : "(", properties[i].name);
        any = true;
    }
    if (any) sp_text_printf(out, ")");
}

static void print_levels(const sp_format *f, sp_text *out)
{
    for (int d = 0; d < f->rank; d++) sp_text_printf(out, "%s%s", d ? "," : "(", f->dim_name[d]);
    for (int i = 0; i < f->n; i++) {
        char map[48];
        sp_level_print_map(f, &f->level[i], map);
        sp_text_printf(out, "%s%s:", i ? ", " : ")->(", map);
        print_kind(&f->level[i], out);
    }
    sp_text_printf(out, ")");
    print_widths(f, false, out);
    print_widths(f, true, out);
}

static void print_opaque(const sp_format *f, sp_text *out)
{
    int n = f->opaque->arguments;
    while (n && !f->argument[n - 1]) n--; /* left out */
    sp_text_printf(out, "%s", f->opaque->name);
    for (int i = 0; i < n; i++) sp_text_printf(out, "%c%lld", i ? ',' : '(', (long long)f->argument[i]);
    if (n) sp_text_printf(out, ")");
}

static void print_sum(const sp_sum *sum, sp_text *out)
{
    for (int i = 0; i < sum->n; i++) {
        char select[SP_SELECT_TEXT];
        sp_text_printf(out, "%s%s -> ", i ? "; " : "sum{", sp_select_show(&sum->part[i].select, select));
        sp_format_print(&sum->part[i].format, out);
    }
    sp_text_printf(out, "}");
}

void sp_format_print(const sp_format *f, sp_text *out)
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
        if (sp_parse_double(out, &back) && back == x) return;
    }
}

const char *sp_select_show(const sp_select *s, char out[SP_SELECT_TEXT])
{
    char x[32] = "";
    long long a = s->a, b = s->b;
    switch (s->kind) {
    case SP_SELECT_ROWNNZ:
        if (a)
            snprintf(out, SP_SELECT_TEXT, "rownnz in (%lld,%lld]", a, b);
        else
            snprintf(out, SP_SELECT_TEXT, "rownnz<=%lld", b);
        break;
    case SP_SELECT_COLPART: snprintf(out, SP_SELECT_TEXT, "colpart(%lld)", b); break;
    case SP_SELECT_BLOCKDENSITY:
        show_density(s->x, x);
        snprintf(out, SP_SELECT_TEXT, "blockdensity>=%s", x);
        break;
    case SP_SELECT_FIRST: snprintf(out, SP_SELECT_TEXT, "first(%lld)", b); break;
    default: snprintf(out, SP_SELECT_TEXT, "rest");
    }
    return out;
}

static bool same_select(const sp_select *x, const sp_select *y)
{
    if (x->kind != y->kind) return false;
    switch (x->kind) {
    case SP_SELECT_ROWNNZ: return x->a == y->a && x->b == y->b;
    case SP_SELECT_BLOCKDENSITY: return x->x == y->x;
    case SP_SELECT_REST: return true;
    default: return x->b == y->b;
    }
}

/* ------------------------------------------------------------------ equality */

static bool same_map(const sp_level *x, const sp_level *y)
{
    if (x->dim != y->dim || x->map != y->map) return false;
    if (sp_level_is_blocked(x) && x->c != y->c) return false;
    if (x->map == SP_MAP_NEST && x->inner != y->inner) return false;
    return !sp_level_is_diagonal(x) || x->other == y->other;
}

static bool same_level(const sp_level *x, const sp_level *y)
{
    const sp_level_info *info = &sp_level_table[x->kind];
    if (x->kind != y->kind || x->properties != y->properties || !same_map(x, y)) return false;
    if (info->arguments > 0 && x->w != y->w) return false;
    if (info->arguments > 1 && x->m != y->m) return false;
    if (info->has_pos && x->pos != y->pos) return false;
    return !sp_level_has_crd(x) || (x->crd == y->crd && x->crd_bits == y->crd_bits);
}

static bool same_sum(const sp_sum *a, const sp_sum *b)
{
    if (a == b) return true;
    if (!a || !b || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!same_select(&a->part[i].select, &b->part[i].select) ||
            !sp_format_equal(&a->part[i].format, &b->part[i].format))
            return false;
    return true;
}

bool sp_format_equal(const sp_format *a, const sp_format *b)
{
    if (a->rank != b->rank || a->n != b->n || a->opaque != b->opaque || !same_sum(a->sum, b->sum))
        return false;
    for (int i = 0; a->opaque && i < a->opaque->arguments; i++)
        if (a->argument[i] != b->argument[i]) return false;
    for (int i = 0; i < a->n; i++)
        if (!same_level(&a->level[i], &b->level[i])) return false;
    return true;
}
