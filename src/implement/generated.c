/* The rows of what is generated: nodes that room emit can say in index notation, in rows and on panels.
 *
 * A node by itself competes with its reference like any other contender. Nodes that only move elements do not: their references copy at the speed of
 * memory, and they are worth a kernel only as part of one that computes (compile/fuse.c).
 */
#include "implement/generated.h"
#include <stdio.h>

bool sp_implement_only_moves(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Transpose, SP_OP_Expand);
}

sparta_status sp_implement_nest(sparta_ctx *cx, const sp_implement *im, const sp_node *n, sp_nest *out,
                                int *slot, bool *can)
{
    return sp_emit_node(cx, n, sp_implement_in_lanes(im), out, slot, can);
}

sparta_status sp_implement_layouts(sparta_ctx *cx, const sp_node *n, unsigned *out)
{
    static const sp_implement *const rows[] = {&sp_implement_generated, &sp_implement_generated_lanes};
    int slot[SP_NEST_OPERANDS];
    *out = 0;
    if (sp_implement_only_moves(n->op) || n->n_out != 1 || n->n_in > SP_OPERANDS) return SPARTA_OK;
    sp_nest *nest = sp_zalloc(cx, sizeof *nest);
    SP_NEED(cx, nest);
    sparta_status s = SPARTA_OK;
    for (size_t i = 0; i < SP_COUNT(rows) && s == SPARTA_OK; i++) {
        bool can;
        s = sp_implement_nest(cx, rows[i], n, nest, slot, &can);
        if (s == SPARTA_OK && can) *out |= 1u << sp_implement_layout(rows[i]);
    }
    sp_free(cx, nest);
    return s;
}

static bool match_rows(const sp_task *t)
{
    return t->generated >> SP_LAYOUT_ROWS & 1;
}
static bool match_lanes(const sp_task *t)
{
    return t->generated >> SP_LAYOUT_PANEL & 1;
}

/* The nest itself. */
static void nest_of(const sp_implement *im, const sp_task *t, sp_text *out)
{
    int slot[SP_NEST_OPERANDS];
    bool can = false;
    sp_nest *nest = sp_zalloc(out->cx, sizeof *nest);
    if (nest && sp_implement_nest(out->cx, im, t->node, nest, slot, &can) == SPARTA_OK && can)
        sp_nest_print(nest, out);
    else if (out->status == SPARTA_OK)
        out->status = nest && !can
                          ? sp_fail(out->cx, SPARTA_E_INTERNAL, "%s: there is no nest for it", t->node->name)
                          : sp_ctx_status(out->cx);
    sp_free(out->cx, nest);
}

const sp_implement sp_implement_generated = {.name = "generated",
                                             .kernel = "nest",
                                             .match = match_rows,
                                             .parameters = nest_of},
                   sp_implement_generated_lanes = {.name = "generated_lanes",
                                                   .kernel = "nest_lanes",
                                                   .match = match_lanes,
                                                   .parameters = nest_of};

sparta_status sp_implement_write(const char *kernel, const char *nest, sp_target target, sp_text *out)
{
    char symbol[64];
    sp_nest *parsed = sp_zalloc(out->cx, sizeof *parsed);
    SP_NEED(out->cx, parsed);
    snprintf(symbol, sizeof symbol, "sp_kernel_%s", kernel);
    sparta_status s = sp_nest_parse(out->cx, nest, parsed);
    if (s == SPARTA_OK) s = sp_emit_text(parsed, symbol, target, out);
    sp_free(out->cx, parsed);
    return s;
}
