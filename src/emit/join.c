/* Two nests as one: what the first makes is not stored and read again, it is there.
 *
 *     first     i j | k*; x0: f32[i,j,k]; y0: f32[i,j,0]; t0 = mul(x0,x0); y0 = mean(t0)
 *     second    i j k*; x0: f32[i,j,k]; x1: f32[i,j,0]; y0: f32[i,j,k]; y0 = div(x0,x1)
 *     one       i j | k*; x0: f32[i,j,k]; y0: f32[i,j,k]; t0 = mul(x0,x0); t1 = mean(t0); y0 = div(x0,t1)
 *
 * One of them is the host, whose loops stay: the first where it reduces, else the second. Loops of the guest become what the host has in their place: the
 * axes of the value between them say which, and where those do not have a loop, the axes of another operand that both have. Statements of the first come
 * first; an operand that both read in one way is one operand.
 *
 * Refused: f16 and bf16 between them, which storing rounds; what does not fit the limits, loops that nothing maps, a result that is computed anew at every index of a larger space when that is costly, and
 * reads that would no longer go along the vector loop.
 */
#include "emit/emit.h"
#include <string.h>

typedef struct joining {
    const sp_nest *first, *second;
    const void *const *first_is, *const *second_is;
    const bool *keep;
    bool host_first;
    bool mapped[SP_NEST_LOOPS]; /* loops of the guest */
    sp_nest_axis by[SP_NEST_LOOPS];
    sp_nest *out;
    const void **out_is;
    int of_first[SP_NEST_OPERANDS], of_second[SP_NEST_OPERANDS]; /* operands of the result; -1: a statement */
} joining;

/* The operand of the first that the value is, made or read; -1: none. */
static int in_first(const joining *j, const void *is, bool made)
{
    for (int i = 0; i < j->first->operands; i++)
        if (j->first_is[i] == is && j->first->operand[i].out == made) return i;
    return -1;
}

static bool same_axis(const sp_nest_axis *a, const sp_nest_axis *b)
{
    if (a->n != b->n || a->plus != b->plus) return false;
    for (int i = 0; i < a->n; i++)
        if (a->term[i].loop != b->term[i].loop || a->term[i].times != b->term[i].times) return false;
    return true;
}
static bool same_access(const sp_nest_operand *a, const sp_nest_operand *b)
{
    if (a->rank != b->rank || a->lanes != b->lanes) return false;
    for (int i = 0; i < a->rank; i++)
        if (!same_axis(&a->axis[i], &b->axis[i])) return false;
    return true;
}

static bool alone(const sp_nest_axis *x)
{
    return x->n == 1 && x->term[0].times == 1 && !x->plus;
}

/* ------------------------------------------------------------------ loops of the guest */
/* Loop `loop` of the guest is `by` in the host; false: it is something else already. */
static bool map(joining *j, int loop, const sp_nest_axis *by)
{
    if (j->mapped[loop]) return same_axis(&j->by[loop], by);
    if (j->host_first) { /* no two loops of the second are one of the first */
        if (by->n && !alone(by)) return false;
        for (int l = 0; l < SP_NEST_LOOPS; l++)
            if (j->mapped[l] && by->n && j->by[l].n && j->by[l].term[0].loop == by->term[0].loop)
                return false;
    }
    j->mapped[loop] = true;
    j->by[loop] = *by;
    return true;
}

/* Axis by axis of one value: what the guest has (a loop alone, or index 0) against what the host has. `must`: they are the same element. */
static bool match(joining *j, const sp_nest_operand *guest, const sp_nest_operand *host, bool must)
{
    if (guest->rank != host->rank || guest->lanes != host->lanes) return !must;
    for (int i = 0; i < guest->rank; i++) {
        const sp_nest_axis *g = &guest->axis[i], *h = &host->axis[i];
        if (alone(g) && (must || (alone(h) && !j->mapped[g->term[0].loop]))) {
            if (!map(j, g->term[0].loop, h) && must) return false;
        } else if (must && (g->n || h->n || g->plus != h->plus))
            return false;
    }
    return true;
}

static bool map_loops(joining *j)
{
    const sp_nest *guest = j->host_first ? j->second : j->first;
    int between = 0;
    for (int pass = 0; pass < 2; pass++) /* what is handed over, then what both read */
        for (int i = 0; i < sp_nest_inputs(j->second); i++) {
            const int k = in_first(j, j->second_is[i], !pass);
            if (k < 0) continue;
            between += !pass;
            const sp_nest_operand *a = &j->first->operand[k], *b = &j->second->operand[i];
            if (!pass && (a->dtype == SPARTA_F16 || a->dtype == SPARTA_BF16)) return false;
            if (pass && in_first(j, j->second_is[i], true) >= 0) continue;
            if (pass && !j->host_first) continue; /* all loops of the first are in what it makes */
            if (!match(j, j->host_first ? b : a, j->host_first ? a : b, !pass)) return false;
        }
    for (int l = 0; l < guest->loops; l++)
        if (!j->mapped[l] || guest->loop[l].size >= 0) return false;
    return between > 0;
}

/* Where both reduce, they do so over the same loops. */
static bool same_bar(const joining *j)
{
    if (!j->host_first || !sp_nest_barred(j->second)) return true;
    int inner[2] = {0, 0};
    for (int l = 0; l < j->first->loops; l++) inner[0] += j->first->loop[l].inner;
    for (int l = 0; l < j->second->loops; l++) {
        const sp_nest_loop *s = &j->second->loop[l];
        inner[1] += s->inner;
        if (!j->by[l].n) {
            if (s->inner) return false;
            continue;
        }
        if (j->first->loop[j->by[l].term[0].loop].inner != s->inner) return false;
    }
    return inner[0] == inner[1];
}

/* ------------------------------------------------------------------ cost */
static bool heavy(const sp_nest *n)
{
    for (int i = 0; i < n->statements; i++) {
        const int w = n->statement[i].word;
        if (sp_nest_word_row(w)->costly || w == SP_NEST_div || w == SP_NEST_steps || w == SP_NEST_sqrt ||
            w == SP_NEST_rsqrt || w == SP_NEST_reciprocal)
            return true;
    }
    return n->statements > 3;
}

/* A guest whose result is one value for many indices of the host is computed at each of them. */
static bool repeats(const joining *j)
{
    if (j->host_first || !heavy(j->first)) return false;
    for (int i = 0; i < sp_nest_inputs(j->second); i++) {
        if (in_first(j, j->second_is[i], true) < 0) continue;
        for (int l = 0; l < j->second->loops; l++)
            if (!sp_nest_uses(&j->second->operand[i], l)) return true;
    }
    return false;
}

static int strided(const sp_nest *n)
{
    int count = 0;
    for (int i = 0; i < n->operands; i++) count += sp_nest_access(n, i) == SP_ALONG_ANY;
    return count;
}

/* ------------------------------------------------------------------ the result */
static bool substitute(const joining *j, sp_nest_axis *x)
{
    sp_nest_axis r = {.plus = x->plus};
    for (int i = 0; i < x->n; i++) {
        const sp_nest_axis *by = &j->by[x->term[i].loop];
        r.plus += x->term[i].times * by->plus;
        for (int k = 0; k < by->n; k++) {
            int at = 0;
            while (at < r.n && r.term[at].loop != by->term[k].loop) at++;
            if (at == SP_NEST_TERMS) return false;
            if (at == r.n) r.term[r.n++] = (sp_nest_term){by->term[k].loop, 0};
            r.term[at].times += x->term[i].times * by->term[k].times;
            if (!r.term[at].times || r.term[at].times > (1 << 30) || r.term[at].times < -(1 << 30))
                return false;
        }
    }
    *x = r;
    return r.plus <= (1 << 30) && r.plus >= -(1 << 30);
}

/* Operand i of one of them in the result: one that is there already, or a new one; -1: no room. */
static int put(joining *j, bool second, int i)
{
    sp_nest *n = j->out;
    sp_nest_operand o = second ? j->second->operand[i] : j->first->operand[i];
    const void *is = second ? j->second_is[i] : j->first_is[i];
    if (second == j->host_first)
        for (int k = 0; k < o.rank; k++)
            if (!substitute(j, &o.axis[k])) return -1;
    for (int k = 0; k < n->operands; k++)
        if (!o.out && !n->operand[k].out && j->out_is[k] == is && same_access(&n->operand[k], &o)) return k;
    if (n->operands == SP_NEST_OPERANDS) return -1;
    n->operand[n->operands] = o;
    j->out_is[n->operands] = is;
    return n->operands++;
}

static bool put_operands(joining *j)
{
    for (int out = 0; out < 2; out++) {
        for (int i = 0; i < j->first->operands; i++) {
            if (j->first->operand[i].out != out) continue;
            j->of_first[i] = -1;
            if ((!out || j->keep[i]) && (j->of_first[i] = put(j, false, i)) < 0) return false;
        }
        for (int i = 0; i < j->second->operands; i++) {
            if (j->second->operand[i].out != out) continue;
            j->of_second[i] = -1;
            if ((out || in_first(j, j->second_is[i], true) < 0) && (j->of_second[i] = put(j, true, i)) < 0)
                return false;
        }
    }
    return true;
}

static void put_statement(joining *j, const sp_nest_statement *given, bool second)
{
    sp_nest_statement s = *given;
    const int *operand = second ? j->of_second : j->of_first;
    for (int k = 0; k < s.n; k++) {
        sp_nest_arg *a = &s.arg[k];
        if (a->kind == SP_ARG_STATEMENT && second) a->at += j->first->statements;
        if (a->kind != SP_ARG_OPERAND) continue;
        if (operand[a->at] >= 0) {
            a->at = operand[a->at];
            continue;
        }
        const int made = in_first(j, j->second_is[a->at], true);
        a->kind = SP_ARG_STATEMENT;
        for (int i = 0; i < j->first->statements; i++)
            if (j->first->statement[i].stores == made) a->at = i;
    }
    if (s.stores >= 0) s.stores = operand[s.stores];
    j->out->statement[j->out->statements++] = s;
}

sparta_status sp_emit_join(sparta_ctx *cx, const sp_nest *first, const void *const *first_is,
                           const bool *keep, const sp_nest *second, const void *const *second_is,
                           sp_nest *out, const void **out_is, bool *can)
{
    joining j = {.first = first,
                 .second = second,
                 .first_is = first_is,
                 .second_is = second_is,
                 .keep = keep,
                 .host_first = sp_nest_barred(first),
                 .out = out,
                 .out_is = out_is};
    *can = false;
    if (first->statements + second->statements > SP_NEST_STATEMENTS) return SPARTA_OK;
    if (!map_loops(&j) || !same_bar(&j) || repeats(&j)) return SPARTA_OK;
    const sp_nest *host = j.host_first ? first : second;
    *out = (sp_nest){.loops = host->loops};
    memcpy(out->loop, host->loop, sizeof out->loop);
    if (!put_operands(&j)) return SPARTA_OK;
    for (int i = 0; i < first->statements; i++) put_statement(&j, &first->statement[i], false);
    for (int i = 0; i < second->statements; i++) put_statement(&j, &second->statement[i], true);
    if (strided(out) > strided(first) + strided(second)) return SPARTA_OK;
    if (sp_nest_check(cx, out) != SPARTA_OK) {
        sp_ctx_clear(cx);
        return SPARTA_OK;
    }
    sp_nest_phases(out);
    *can = true;
    return SPARTA_OK;
}
