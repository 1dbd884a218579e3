/* Which values that a model computes the rules name, and what goes into its inputs:
 *
 *     "/fc1/Relu_output_0"       a value by its name
 *     "/fc1/Relu:output"         the first output of a node, by the node's path
 *     "/fc2/MatMul:input"        the first input of a node: what this node reads, and nobody else
 *     "fc1:output", "fc2:input"  the same of a module of PyTorch, where the exporter says what is part of it: what leaves or enters it
 *
 * The first holds of rules that name no weight (match.c). */
#include "schedule/inside.h"
#include <string.h>

static const char *const sides[] = {":output", ":input"};

const char *sp_schedule_side(const sparta_schedule_rule *rule)
{
    const size_t length = strlen(rule->glob);
    for (size_t i = 0; i < SP_COUNT(sides); i++) {
        const size_t n = strlen(sides[i]);
        if (length > n && !strcmp(rule->glob + length - n, sides[i])) return sides[i];
    }
    return NULL;
}

static bool is_computed(const sp_value *v)
{
    return !v->constant && (v->producer || v->is_input);
}

bool sp_schedule_names_computed(const sp_graph *g, const sparta_schedule_rule *rule)
{
    for (int i = 0; i < g->n_values; i++)
        if (is_computed(g->value[i]) && sp_glob(rule->glob, g->value[i]->name)) return true;
    return false;
}

typedef struct finder {
    const sparta_schedule *s;
    const sp_graph *g;
    sp_arena *arena;
    int n, room;
    sp_schedule_edge *edge;
} finder;

/* One edge may be named by several rules, which must agree; a value and one reading of it may not both be. */
static sparta_status name_edge(finder *f, sp_value *v, sp_node *by, const sparta_schedule_rule *rule)
{
    for (int i = 0; i < f->n; i++) {
        sp_schedule_edge *e = &f->edge[i];
        if (e->value != v) continue;
        if (e->reader == by) return sp_schedule_say(f->s, v->name, e->rule, rule);
        if (!e->reader || !by)
            return sp_schedule_fail(
                f->s->cx, rule->at,
                "tensor \"%.100s\" names '%.100s', which another rule names too, one of them for a single "
                "reader; narrow one of the globs",
                rule->glob, v->name);
    }
    if (f->n == SP_SCHEDULE_RULES)
        return sp_fail(f->s->cx, SPARTA_E_LIMIT, "%.200s:%d:%d: a schedule names at most %d values",
                       rule->at.file, rule->at.line, rule->at.column, SP_SCHEDULE_RULES);
    SP_GROW(f->arena, f->edge, f->n, f->room);
    f->edge[f->n] = (sp_schedule_edge){.value = v, .reader = by};
    return sp_schedule_say(f->s, v->name, f->edge[f->n++].rule, rule);
}

static bool in_module(const sp_node *n, const char *module)
{
    return n && n->module && !strcmp(n->module, module);
}

/* Does the output of a node leave its module? */
static bool leaves(const sp_graph *g, const sp_node *n)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == n->out[0] && in_module(g->node[i], n->module)) return false;
    return true;
}

/* Is it the node that a path names, or one at the edge of the module that it names? A product that is called as its module means the module,
 * behind its bias. */
static bool is_named(const finder *f, const sp_node *n, const char *path, bool input)
{
    const bool module = n->module && !strcmp(n->name, n->module);
    if (!module && sp_glob(path, n->name)) return true;
    if (!n->module || !sp_glob(path, n->module)) return false;
    return input ? !in_module(n->in[0]->producer, n->module) : leaves(f->g, n);
}

static sparta_status name_sides(finder *f, const sparta_schedule_rule *rule, const char *side, bool *any)
{
    const bool input = side == sides[1];
    const char *path =
        sp_arena_printf(f->arena, "%.*s", (int)(strlen(rule->glob) - strlen(side)), rule->glob);
    SP_NEED(f->s->cx, path);
    for (int i = 0; i < f->g->n_nodes; i++) {
        sp_node *n = f->g->node[i];
        SP_TRY(sp_check_cancel(f->s->cx));
        if (input && (!n->n_in || !n->in[0] || !is_computed(n->in[0]))) continue;
        if (!is_named(f, n, path, input)) continue;
        SP_TRY(name_edge(f, input ? n->in[0] : n->out[0], input ? n : NULL, rule));
        *any = true;
    }
    return SPARTA_OK;
}

static sparta_status nothing(const finder *f, const sparta_schedule_rule *rule, const char *side)
{
    const char **names = sp_arena_array(f->arena, 2 * (size_t)f->g->n_nodes + 1, sizeof *names);
    const char *path =
        sp_arena_printf(f->arena, "%.*s", (int)(strlen(rule->glob) - strlen(side)), rule->glob);
    char hint[SP_HINT];
    int n = 0;
    if (!names || !path) return sp_ctx_status(f->s->cx);
    for (int i = 0; i < f->g->n_nodes; i++) {
        if (*f->g->node[i]->name) names[n++] = f->g->node[i]->name;
        if (f->g->node[i]->module) names[n++] = f->g->node[i]->module;
    }
    return sp_schedule_fail(f->s->cx, rule->at, "tensor \"%.100s\": there is no node or module '%.100s'%s",
                            rule->glob, path, sp_did_you_mean(path, names, n, "", hint));
}

/* Does the glob name a weight? Then it means that and nothing else. */
static bool names_weight(const sp_graph *g, const sparta_schedule_rule *rule)
{
    for (int i = 0; i < g->n_nodes; i++) {
        bool turned;
        const sp_value *w = sp_schedule_weight_of(g->node[i], &turned);
        if (w && sp_schedule_names_weight(rule, w, g->node[i])) return true;
    }
    return false;
}

static sparta_status apply(finder *f, const sparta_schedule_rule *rule)
{
    const char *side = sp_schedule_side(rule);
    bool any = false;
    SP_TRY(sp_check_cancel(f->s->cx));
    if (!side && names_weight(f->g, rule)) return SPARTA_OK;
    for (int i = 0; i < f->g->n_values; i++) {
        if (!is_computed(f->g->value[i]) || !sp_glob(rule->glob, f->g->value[i]->name)) continue;
        SP_TRY(name_edge(f, f->g->value[i], NULL, rule));
        any = true;
    }
    if (side) SP_TRY(name_sides(f, rule, side, &any));
    return any || !side ? SPARTA_OK : nothing(f, rule, side);
}

sparta_status sp_schedule_edges(const sparta_schedule *s, const sp_graph *g, sp_arena *arena,
                                sp_schedule_edge **out, int *n)
{
    finder f = {.s = s, .g = g, .arena = arena};
    for (int i = 0; i < s->n_rules; i++) SP_TRY(apply(&f, s->rule[i]));
    *out = f.edge;
    *n = f.n;
    return SPARTA_OK;
}
