/* recall: what is remembered of a task. Times of dense implements do not depend on the mask: they are remembered of any mask, too. */
#include "builtin/quick.h"
#include "tune/bed.h"
#include <stdio.h>
#include <string.h>

static void print_mask(const sp_task *t, bool any, sp_text *out)
{
    enum { ALIKE = 1 << 16 }; /* elements from which on its look, not its elements, tells the time */
    if (any)
        sp_text_printf(out, " mask=any");
    else if (t->n * t->k < ALIKE)
        sp_text_printf(out, " mask=%016lx", (unsigned long)sp_mask_digest(t->mask));
    else
        sp_text_printf(out, " mask=%s,density=%.3g,fill=%.2g,%.2g", t->pattern.name, t->pattern.density,
                       t->strip_fill, t->strip16_fill);
}

static sparta_status print_operand(sparta_ctx *cx, const sp_bed_request *r, const sp_value *v, sp_text *out)
{
    int rank;
    int64_t dim[SPARTA_RANK];
    if (!v) {
        sp_text_printf(out, " -");
        return SPARTA_OK;
    }
    SP_TRY(sp_bed_shape(cx, r, v, &rank, dim));
    sp_text_printf(out, " %s%s", v->constant ? "const " : "", sparta_dtype_name(v->dtype));
    for (int d = 0; d < rank; d++) sp_text_printf(out, "%c%ld", d ? 'x' : ' ', (long)dim[d]);
    return SPARTA_OK;
}

/* But for the way a weight lies in the file: it is packed anew. */
static void print_attributes(const sp_attrs *attrs, sp_text *out)
{
    for (int i = 0; i < attrs->n; i++) {
        const sp_attr *a = &attrs->attr[i];
        if (!strcmp(a->name, "transposed")) continue;
        if (a->kind == SP_ATTR_INT) sp_text_printf(out, " %s=%ld", a->name, (long)a->i);
        if (a->kind == SP_ATTR_FLOAT) sp_text_printf(out, " %s=%g", a->name, (double)a->f);
        if (a->kind == SP_ATTR_STRING) sp_text_printf(out, " %s=%s", a->name, a->s);
        if (a->kind != SP_ATTR_INTS && a->kind != SP_ATTR_FLOATS) continue;
        sp_text_printf(out, " %s=", a->name);
        for (int k = 0; k < a->n; k++) {
            const char *comma = k ? "," : "";
            if (a->kind == SP_ATTR_INTS)
                sp_text_printf(out, "%s%ld", comma, (long)a->ints[k]);
            else
                sp_text_printf(out, "%s%g", comma, (double)a->floats[k]);
        }
    }
}

sparta_status sp_recall_key(sparta_ctx *cx, const sp_bed_request *r, sp_target target, bool any, sp_text *out)
{
    const sp_node *n = r->task->node;
    sp_text_printf(out, "%s", sp_builtin_row(n->op)->name);
    print_attributes(&n->attrs, out);
    for (int i = 0; i < n->n_in; i++)
        if (i == 1 && r->task->mask)
            sp_text_printf(out, " weight %ldx%ld", (long)r->task->n, (long)r->task->k);
        else
            SP_TRY(print_operand(cx, r, n->in[i], out));
    if (r->task->mask) print_mask(r->task, any, out);
    if (r->task->format && !any) sp_text_printf(out, " format=%s", r->task->format); /* the walker's */
    if (r->task->present > 0 && !any) sp_text_printf(out, " present=%.3g", r->task->present);
    if (r->task->stat) sp_text_printf(out, " stat");
    sp_text_printf(out, " target=%s cpu=%016lx sparta=%s", sp_target_name(target),
                   (unsigned long)sp_machine_digest(), SPARTA_VERSION);
    return out->status;
}

/* All trials of a key behind those that are there. */
static sparta_status find_all(sparta_ctx *cx, sp_tune_db *db, const char *key, sp_recall *r)
{
    const int n = sp_tune_find(db, key, NULL, 0);
    sp_trial *all = sp_alloc_array(cx, (size_t)(r->n + n) + 1, sizeof *all);
    SP_NEED(cx, all);
    if (r->n) memcpy(all, r->trial, (size_t)r->n * sizeof *all);
    const int found =
        sp_tune_find(db, key, all + r->n, n); /* another process may have added some, or lost the file */
    sp_free(cx, r->trial);
    r->trial = all;
    r->n += SP_MIN(found, n);
    return SPARTA_OK;
}

sparta_status sp_recall_open(sparta_ctx *cx, sp_tune_db *db, const sp_bed_request *bed, sp_target target,
                             sp_recall *out)
{
    *out = (sp_recall){.cx = cx, .db = db};
    sp_text_init(&out->key, cx);
    sp_text_init(&out->any, cx);
    sparta_status s = sp_recall_key(cx, bed, target, false, &out->key);
    if (s == SPARTA_OK) s = sp_recall_key(cx, bed, target, true, &out->any);
    if (s == SPARTA_OK) s = find_all(cx, db, sp_text_str(&out->key), out);
    out->own = out->n;
    if (s == SPARTA_OK && strcmp(sp_text_str(&out->key), sp_text_str(&out->any)))
        s = find_all(cx, db, sp_text_str(&out->any), out);
    if (s != SPARTA_OK) sp_recall_close(out);
    return s;
}

void sp_recall_close(sp_recall *r)
{
    sp_text_free(&r->key);
    sp_text_free(&r->any);
    sp_free(r->cx, r->trial);
    r->trial = NULL;
    r->n = r->own = 0;
}

static bool believes(const sp_recall *r, const sp_trial *t)
{
    return (r->since && t->at >= r->since) || (!r->anew && sp_tune_believes(t));
}

double sp_recall_us(sp_recall *r, const sp_implement *im, const char *point, const char *code, int *measured)
{
    for (int i = 0; !im->fleeting && i < (im->sparse ? r->own : r->n); i++) {
        const sp_trial *t = &r->trial[i];
        if (t->verdict != SP_VERDICT_OK || strcmp(t->implement, im->name) || strcmp(t->point, point) ||
            strcmp(t->code, code) || !believes(r, t))
            continue;
        if (measured) *measured = t->measured;
        if (i >= r->own) sp_tune_add(r->db, sp_text_str(&r->key), t); /* so that one key says who won */
        return t->us;
    }
    return 0;
}

void sp_recall_add(sp_recall *r, const sp_contender *c, const char *code)
{
    sp_trial t = {.verdict = c->found.ok ? SP_VERDICT_OK : SP_VERDICT_WRONG,
                  .us = c->found.ok ? c->best * 1e6 : 0,
                  .spread = c->found.ok ? c->spread : 0,
                  .threads = 1,
                  .disturbed = c->found.ok && c->disturbed,
                  .anew = r->anew,
                  .measured = c->measured};
    if (c->im->fleeting) return;
    snprintf(t.implement, sizeof t.implement, "%s", c->im->name);
    snprintf(t.point, sizeof t.point, "%s", c->point);
    snprintf(t.code, sizeof t.code, "%s", code);
    sp_tune_add(r->db, sp_text_str(&r->key), &t);
    if (!c->im->sparse) sp_tune_add(r->db, sp_text_str(&r->any), &t);
}

sparta_status sp_recall_code(sparta_ctx *cx, const sp_task *t, const sp_implement *im, sp_target target,
                             char out[40])
{
    sp_text words, text;
    sp_text_init(&words, cx);
    sp_text_init(&text, cx);
    if (im->parameters) im->parameters(im, t, &words);
    sparta_status s = words.status;
    if (s == SPARTA_OK && im->kernel) s = sp_implement_text(im->kernel, sp_text_str(&words), target, &text);
    if (!im->kernel) sp_text_printf(&text, "%s", sp_builtin_digest());
    if (s == SPARTA_OK) s = text.status;
    const char *version = im->version ? im->version() : NULL;
    snprintf(out, 40, "%016lx%s%.20s", (unsigned long)sp_hash(sp_text_str(&text), text.size, 0),
             version ? " " : "", version ? version : "");
    sp_text_free(&words);
    sp_text_free(&text);
    return s;
}
