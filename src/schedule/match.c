/* Which weights the rules name; computed.c has the values that others name. A weight is a 2-D float constant that a product multiplies by, maybe seen through a Transpose:
 *
 *     MatMul(x, w)                  w is (k, n): turned          Gemm(x, w) transB=1           w is (n, k)
 *     MatMul(x, Transpose(w))       w is (n, k)                  Linear(x, w) transposed=1     w is (n, k)
 *
 * A rule names it by its initialiser or by the path of a product that uses it. */
#include "format/format.h"
#include "schedule/inside.h"
#include <stdio.h>
#include <string.h>

typedef struct use { /* one product and its weight */
    const sp_node *node;
    int weight; /* index in the list of weights */
} use;

typedef struct finder {
    const sparta_schedule *s;
    const sp_graph *g;
    int n_uses, n_weights;
    use *use;
    sp_schedule_match *weight;
} finder;

enum { PATH = 1100 }; /* of a module, as far as it is read, and ".weight" */

sp_value *sp_schedule_weight_of(const sp_node *n, bool *turned)
{
    if (!sp_node_takes_matrix(n, turned)) return NULL;
    sp_value *w = n->in[1];
    while (!w->constant && w->producer && w->producer->n_in && w->producer->in[0] &&
           (w->producer->op == SP_OP_Transpose || w->producer->op == SP_OP_Identity)) {
        const sp_attr *perm = sp_attr_find(&w->producer->attrs, "perm");
        if (w->producer->op == SP_OP_Transpose) {
            if (perm && (perm->n != 2 || perm->ints[0] != 1 || perm->ints[1] != 0)) return NULL;
            *turned = !*turned;
        }
        w = w->producer->in[0];
    }
    const sparta_tensor *t = w->constant;
    return t && t->data && t->rank == 2 && sp_dtype_is_float(t->dtype) && t->dim[0] > 0 && t->dim[1] > 0
               ? w
               : NULL;
}

static sparta_status find_weights(finder *f, sp_arena *arena)
{
    int *known = sp_alloc_array(f->s->cx, (size_t)f->g->n_values + 1, sizeof *known); /* index + 1 */
    SP_NEED(f->s->cx, known);
    f->use = sp_arena_array(arena, (size_t)f->g->n_nodes + 1, sizeof *f->use);
    f->weight = sp_arena_array(arena, (size_t)f->g->n_nodes + 1, sizeof *f->weight);
    for (int i = 0; i < f->g->n_nodes && f->use && f->weight; i++) {
        const sp_node *n = f->g->node[i];
        bool turned = false;
        sp_value *w = sp_schedule_weight_of(n, &turned);
        if (!w) continue;
        if (!known[w->id]) {
            f->weight[f->n_weights++] = (sp_schedule_match){.value = w, .node = n, .turned = turned};
            known[w->id] = f->n_weights;
        }
        f->use[f->n_uses++] = (use){n, known[w->id] - 1};
    }
    sp_free(f->s->cx, known);
    return f->use && f->weight ? SPARTA_OK : sp_ctx_status(f->s->cx);
}

/* ------------------------------------------------------------------ a glob that matches nothing */

/* Letters that a name shares with a glob at both ends. */
static size_t likeness(const char *glob, const char *name)
{
    const size_t g = strlen(glob), n = strlen(name);
    size_t head = 0, tail = 0;
    while (head < g && head < n && glob[head] == name[head]) head++;
    while (tail < g - head && tail < n - head && glob[g - 1 - tail] == name[n - 1 - tail]) tail++;
    return head + tail;
}

/* The name of a weight that a glob like this one could have meant: its initialiser's, or the path of its product. */
static const char *name_like(const finder *f, const char *glob, int i)
{
    return *glob == '/' && *f->weight[i].node->name ? f->weight[i].node->name
                                                    : sp_initialiser_name(f->weight[i].value);
}

/* Up to three names that are most like it. */
static void most_alike(const finder *f, const char *glob, char *out, size_t size)
{
    int taken[3];
    size_t used = 0;
    for (int k = 0; k < SP_MIN(3, f->n_weights); k++) {
        int best = -1;
        for (int i = 0; i < f->n_weights; i++) {
            bool seen = false;
            for (int j = 0; j < k; j++) seen |= taken[j] == i;
            if (!seen && (best < 0 ||
                          likeness(glob, name_like(f, glob, i)) > likeness(glob, name_like(f, glob, best))))
                best = i;
        }
        taken[k] = best;
        used +=
            (size_t)snprintf(out + used, size - used, "%s'%.80s'", k ? ", " : "", name_like(f, glob, best));
    }
}

static sparta_status nothing(const finder *f, const sparta_schedule_rule *rule)
{
    char names[400] = "";
    for (int i = 0; i < f->g->n_values; i++) {
        const sp_value *v = f->g->value[i];
        if (v->constant && (sp_glob(rule->glob, sp_initialiser_name(v)) || sp_glob(rule->glob, v->name)))
            return sp_schedule_fail(f->s->cx, rule->at,
                                    "tensor \"%.100s\" matches '%.100s', which is no weight of a "
                                    "product; only those can be scheduled",
                                    rule->glob, sp_initialiser_name(v));
    }
    most_alike(f, rule->glob, names, sizeof names);
    return sp_schedule_fail(f->s->cx, rule->at, "tensor \"%.100s\" matches no weight; %s%s", rule->glob,
                            f->n_weights ? "the nearest names are " : "the model has none", names);
}

/* ------------------------------------------------------------------ rules */

static sparta_status conflict(const sparta_schedule *s, const sp_schedule_clause *a, sp_clause_kind kind,
                              const sparta_schedule_rule *rule, const char *name)
{
    const sp_schedule_clause *b = &rule->clause[kind];
    return sp_schedule_fail(s->cx, b->at,
                            "%s %.100s conflicts with %s %.100s at %.100s:%d:%d: both are said of '%.100s'; "
                            "narrow one of the globs",
                            sp_clause_word(kind), b->text, sp_clause_word(kind), a->text, a->at.file,
                            a->at.line, a->at.column, name);
}

/* Every '=' of a format that is no comparison (rownnz<=4) and no pad=zero. */
bool sp_schedule_says_widths(const char *format)
{
    for (const char *p = format; (p = strchr(p, '=')); p++)
        if (p > format && !strchr("<>", p[-1]) && (p - format < 3 || memcmp(p - 3, "pad", 3) != 0))
            return true;
    return false;
}

/* Do two clauses ask for the same? Formats may be spelt differently, and leave widths (which a name has) to the implement. */
static sparta_status agree(const sparta_schedule *s, sp_clause_kind kind, const sp_schedule_clause *a,
                           const sp_schedule_clause *b, bool *out)
{
    sp_format x, y;
    const bool widths = sp_schedule_says_widths(a->means);
    *out = !strcmp(a->means, b->means);
    if (*out || kind != SP_CLAUSE_FORMAT || widths != sp_schedule_says_widths(b->means)) return SPARTA_OK;
    SP_TRY(sp_format_parse(s->cx, a->means, &x));
    SP_TRY(sp_format_parse(s->cx, b->means, &y));
    for (int i = 0; i < SP_MIN(x.n, y.n) && !widths; i++) {
        y.level[i].pos = x.level[i].pos;
        y.level[i].crd = x.level[i].crd;
        y.level[i].crd_bits = x.level[i].crd_bits;
    }
    *out = sp_format_equal(&x, &y);
    return SPARTA_OK;
}

sparta_status sp_schedule_say(const sparta_schedule *s, const char *name, const sparta_schedule_rule **said,
                              const sparta_schedule_rule *rule)
{
    for (int k = 0; k < SP_CLAUSES; k++) {
        if (!rule->clause[k].given) continue;
        const sp_clause_kind kind = (sp_clause_kind)k;
        bool same = true;
        if (said[k]) SP_TRY(agree(s, kind, &said[k]->clause[k], &rule->clause[k], &same));
        if (!same) return conflict(s, &said[k]->clause[k], kind, rule, name);
        if (!said[k]) said[k] = rule;
    }
    return SPARTA_OK;
}

const char *sp_schedule_known_as(sp_arena *arena, const sp_value *w, const sp_node *user)
{
    const char *own = sp_initialiser_name(w);
    return strpbrk(own, "./") || !user->module ? own : sp_arena_printf(arena, "%s.weight", user->module);
}

/* "mha.out_proj.weight" is that parameter, also where the product that reads it is of module "mha". */
static bool is_parameter(const char *name)
{
    static const char tail[] = ".weight";
    const size_t n = strlen(name), end = strlen(tail);
    return n > end && !strcmp(name + n - end, tail);
}

bool sp_schedule_is_called(const char *glob, const sp_value *w, const sp_node *user)
{
    char parameter[PATH];
    const char *own = sp_initialiser_name(w);
    if (sp_glob(glob, w->name) || sp_glob(glob, own) || sp_glob(glob, user->name)) return true;
    if (!user->module || sp_glob(glob, user->module)) return user->module != NULL;
    const int n = snprintf(parameter, sizeof parameter, "%s.weight", user->module);
    return !is_parameter(own) && n < (int)sizeof parameter && sp_glob(glob, parameter);
}

bool sp_schedule_names_weight(const sparta_schedule_rule *rule, const sp_value *w, const sp_node *user)
{
    return sp_schedule_is_called(rule->glob, w, user);
}

static sparta_status apply(const finder *f, const sparta_schedule_rule *rule)
{
    bool any = false;
    SP_TRY(sp_check_cancel(f->s->cx));
    if (sp_schedule_side(rule)) return SPARTA_OK;
    for (int i = 0; i < f->n_uses; i++) {
        sp_schedule_match *w = &f->weight[f->use[i].weight];
        if (!sp_schedule_names_weight(rule, w->value, f->use[i].node)) continue;
        any = true;
        SP_TRY(sp_schedule_say(f->s, sp_initialiser_name(w->value), w->rule, rule));
    }
    return any || sp_schedule_names_computed(f->g, rule) ? SPARTA_OK : nothing(f, rule);
}

/* Two products that see one weight from different sides: patterns and formats would mean two things. */
static sparta_status check_sides(const finder *f)
{
    for (int i = 0; i < f->n_uses; i++) {
        const sp_schedule_match *w = &f->weight[f->use[i].weight];
        bool turned = false;
        for (int k = 0; k < SP_CLAUSES; k++)
            if (w->rule[k] && sp_schedule_weight_of(f->use[i].node, &turned) && turned != w->turned)
                return sp_fail(f->s->cx, SPARTA_E_UNSUPPORTED,
                               "%.100s:%d:%d: '%.100s' is used as it is by '%.100s' and transposed by "
                               "'%.100s'; leave it out",
                               w->rule[k]->at.file, w->rule[k]->at.line, w->rule[k]->at.column,
                               sp_initialiser_name(w->value), w->node->name, f->use[i].node->name);
    }
    return SPARTA_OK;
}

sparta_status sp_schedule_matches(const sparta_schedule *s, const sp_graph *g, sp_arena *arena,
                                  sp_schedule_match **out, int *n)
{
    finder f = {.s = s, .g = g};
    int kept = 0;
    SP_TRY(find_weights(&f, arena));
    for (int i = 0; i < s->n_rules; i++) SP_TRY(apply(&f, s->rule[i]));
    SP_TRY(check_sides(&f));
    for (int i = 0; i < f.n_weights; i++) {
        bool named = false;
        for (int k = 0; k < SP_CLAUSES; k++) named |= f.weight[i].rule[k] != NULL;
        if (named) f.weight[kept++] = f.weight[i];
    }
    *out = f.weight;
    *n = kept;
    return SPARTA_OK;
}
