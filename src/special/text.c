/* Nests as text: one line each, and as functions in C, whose loops are written by loops.c, positions.c and sums.c. */
#include "special/writer.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ lines */
void sp_write_line(writer *w, const char *format, ...)
{
    va_list args;
    sp_text_printf(w->out, "%*s", 4 * w->indent, "");
    va_start(args, format);
    sp_text_vprintf(w->out, format, args);
    va_end(args);
    sp_text_printf(w->out, "\n");
}
void sp_write_open(writer *w, const char *format, ...)
{
    va_list args;
    sp_text_printf(w->out, "%*s", 4 * w->indent++, "");
    va_start(args, format);
    sp_text_vprintf(w->out, format, args);
    va_end(args);
    sp_text_printf(w->out, " {\n");
    w->opened++;
}
void sp_write_block(writer *w)
{
    LINE(w, "{");
    w->indent++, w->opened++;
}
void sp_write_close(writer *w)
{
    while (w->opened) {
        w->opened--, w->indent--;
        LINE(w, "}");
    }
}

/* ------------------------------------------------------------------ functions */
static void print_nest(const sp_special *s, const sp_special_nest *n, sp_text *out)
{
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        sp_text_printf(out, "%s%s", i ? " " : "", l->name);
        if (l->over == SP_OVER_COUNT && sp_special_steps(n, l))
            sp_text_printf(out, ":%lld", (long long)sp_special_steps(n, l));
        if (l->over == SP_OVER_PIECES) sp_text_printf(out, "@%s", l->fused ? "fused" : "pieces");
        if (l->over == SP_OVER_PIECES && l->use >= 0)
            sp_text_printf(out, ".%s.%d", s->operand[n->use[l->use].operand].name, l->level);
        if (l->piece) sp_text_printf(out, ":%lld", (long long)l->piece);
        if (l->over == SP_OVER_SEGMENT || l->over == SP_OVER_MERGE)
            sp_text_printf(out, "@%s.%s.%d", l->over == SP_OVER_MERGE ? "merge" : "segment",
                           s->operand[n->use[l->use].operand].name, l->level);
        if (sp_special_counts_ranges(l))
            sp_text_printf(out, ".ranges%lld", (long long)n->loop[sp_special_counted(n, i)].range);
        if (l->bind == SP_BIND_VECTOR) sp_text_printf(out, "*%d", l->vectors);
        if (l->bind == SP_BIND_UNROLL) sp_text_printf(out, l->gather ? ".gather" : ".unroll");
        if (l->bind == SP_BIND_UNROLL && l->over == SP_OVER_SEGMENT && l->vectors > 1)
            sp_text_printf(out, "%d", l->vectors);
        if (l->together) sp_text_printf(out, ".unroll%d", l->together);
        if (l->apart) sp_text_printf(out, ".apart");
        for (int u = 0; u < n->uses; u++)
            if (l->caches >> u & 1)
                sp_text_printf(out, l->lent >> u & 1 ? ".scratch_%s" : ".cache_%s",
                               s->operand[n->use[u].operand].name);
        if (l->threads) sp_text_printf(out, l->temporaries ? ".threads+" : ".threads");
    }
}

/* A term as it was written, words by their names. */
static void print_tree(const sp_special *s, int node, sp_text *out)
{
    const sp_special_node *t = &s->node[node];
    if (t->kind == SP_TREE_NUMBER) {
        sp_text_printf(out, "%g", t->number);
        return;
    }
    if (t->kind == SP_TREE_ACCESS) {
        sp_text_printf(out, "%s", s->operand[s->access[t->at].operand].name);
        return;
    }
    const bool product = t->at == SP_NEST_mul;
    if (!product) sp_text_printf(out, "%s(", sp_nest_word_row(t->at)->name);
    for (int i = 0; i < t->n; i++) {
        if (i) sp_text_printf(out, product ? "*" : ",");
        print_tree(s, t->arg[i], out);
    }
    if (!product) sp_text_printf(out, ")");
}

void sp_special_print(const sp_special *s, sp_text *out)
{
    for (int i = 0; i < s->nests; i++) {
        const sp_special_nest *n = s->nest[i];
        sp_text_printf(out, n->joined ? "%d, with %d: " : "%d: ", i, i - 1);
        print_nest(s, n, out);
        const char *result = s->operand[sp_special_target(n)->operand].name;
        const int reduce = s->statement[n->statement].reduce;
        const bool sums = reduce == SP_NEST_sum, stores = sp_special_stores(s, i);
        sp_text_printf(out, "; %s %s %s", result, stores || !sums ? "=" : "+=", n->negative ? "-" : "");
        if (!sums) sp_text_printf(out, "%s(", sp_nest_word_row(reduce)->name);
        if (!sums && !stores) sp_text_printf(out, "%s,", result);
        print_tree(s, n->root, out);
        if (!sums) sp_text_printf(out, ")");
        for (int u = 0; u < n->uses; u++)
            if (n->use[u].needed && s->operand[n->use[u].operand].leaves > 1)
                sp_text_printf(out, "; part %d of %s", n->use[u].leaf, s->operand[n->use[u].operand].name);
        sp_text_printf(out, "\n");
    }
}

/* Nests whose text differs in nothing but the part of a sum of formats that they read are one function, which gets the arrays of the part. */
static bool has_parts(const sp_special *s, int number)
{
    bool any = false;
    for (int u = 0; u < s->nest[number]->uses; u++) any |= sp_special_has_parts(s, &s->nest[number]->use[u]);
    return any && sp_special_group(s, number) == number + 1;
}

static void body_of(const sp_special *s, int number, sp_text *out)
{
    const sp_special_nest *n = s->nest[number];
    writer *w = sp_alloc(s->cx, sizeof *w);
    if (!w) {
        out->status = sp_ctx_status(s->cx);
        return;
    }
    *w = (writer){.s = s, .n = n, .out = out, .number = number, .last = -1, .apart = -1};
    w->parts = has_parts(s, number);
    w->indent = 1;
    sp_write_declare(w);
    if (!sp_special_shares(n)) LINE(w, "if (args->part) return;");
    sp_write_settle(w, -1);
    sp_write_walk(w, 0);
    sp_write_close(w);
    sp_free(s->cx, w);
}

/* ", void *const *A_part, const long *A_size" as parameters, or what is given for them. */
static void part_arguments(const sp_special *s, int number, bool given, sp_text *out)
{
    for (int u = 0; u < s->nest[number]->uses; u++) {
        const sp_special_use *x = &s->nest[number]->use[u];
        const sp_special_operand *o = &s->operand[x->operand];
        char name[48];
        if (!sp_special_has_parts(s, x)) continue;
        sp_write_name(&(writer){.s = s, .n = s->nest[number]}, u, name);
        if (given)
            sp_text_printf(out, ", args->array + %d, args->size + %d", sp_special_array(o, x->leaf),
                           sp_special_sizes(o, x->leaf));
        else
            sp_text_printf(out, ", void *const *%s_part, const long *%s_size", name, name);
    }
}

/* The function for a part, unless an earlier nest has it: the number of the nest that does. */
static int part_function(const sp_special *s, int number, const char *prefix, const char **body, sp_text *out)
{
    int same = 0;
    sp_text text;
    sp_text_init(&text, s->cx);
    body_of(s, number, &text);
    if (text.status && !out->status) out->status = text.status;
    body[number] = sp_text_keep(&text, s->arena);
    if (!body[number]) {
        out->status = sp_ctx_status(s->cx);
        return number;
    }
    while (!body[same] || strcmp(body[same], body[number])) same++;
    if (same < number) return same;
    sp_text_printf(out, "static __attribute__((noinline)) void %spart_%d(const struct sp_special_args *args",
                   prefix, number);
    part_arguments(s, number, false, out);
    sp_text_printf(out, ")\n{\n%s}\n", body[number]);
    return same;
}

/* body: of the nests before that have parts, else NULL. */
static void function(const sp_special *s, int number, const char *prefix, const char **body, sp_text *out)
{
    const bool parts = has_parts(s, number);
    for (int i = number; i < sp_special_group(s, number); i++) {
        sp_text_printf(out, i > number ? "\n * nest %d: " : "\n/* nest %d: ", i);
        print_nest(s, s->nest[i], out);
    }
    sp_text_printf(out, " */\n");
    const int same = parts ? part_function(s, number, prefix, body, out) : number;
    sp_text_printf(out, "KERNEL void %s%d(const struct sp_special_args *args)\n{\n", prefix, number);
    if (!parts) {
        body_of(s, number, out);
    } else {
        sp_text_printf(out, "    %spart_%d(args", prefix, same);
        part_arguments(s, number, true, out);
        sp_text_printf(out, ");\n");
    }
    sp_text_printf(out, "}\n");
}

/* Of results that are no f32: how what nests write becomes theirs, and how what they add to begins. */
static void conversions(const sp_special *s, const char *prefix, sp_text *out)
{
    static const sparta_dtype types[] = {SPARTA_F16, SPARTA_BF16};
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        const char *name = sparta_dtype_name(types[t]);
        bool any = false;
        for (int i = 0; i < s->operands; i++) any |= s->operand[i].written && s->operand[i].dtype == types[t];
        if (!any) continue;
        sp_text_printf(
            out,
            "\nKERNEL void %snarrow_%s(const float *from, unsigned short *to, long n)\n{\n"
            "    for (long i = 0; i < n; i += LANES) put_%s(to + i, get_f32(from + i, n - i), n - i);\n}\n"
            "KERNEL void %swiden_%s(const unsigned short *from, float *to, long n)\n{\n"
            "    for (long i = 0; i < n; i += LANES) put_f32(to + i, get_%s(from + i, n - i), n - i);\n}\n",
            prefix, name, name, prefix, name, name);
    }
}

void sp_special_functions(const sp_special *s, const char *prefix, sp_text *out)
{
    sp_text_printf(out, "\n/* %s", s->text);
    for (int i = 0; i < s->operands; i++) {
        const sp_special_operand *o = &s->operand[i];
        const bool typed = o->dtype != SPARTA_F32;
        if (o->stored || typed) sp_text_printf(out, "\n *     %s: ", o->name);
        if (typed) sp_text_printf(out, o->stored ? "%s, " : "%s", sparta_dtype_name(o->dtype));
        if (o->stored) sp_format_print(&o->format, out);
    }
    sp_text_printf(out, " */\n");
    conversions(s, prefix, out);
    const char *body[SP_SPECIAL_NESTS] = {NULL};
    for (int i = 0; i < s->nests; i++)
        if (!s->nest[i]->joined) function(s, i, prefix, body, out);
}

#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n.hidden sp_text_" symbol "\n.hidden sp_text_end_" symbol "\n"             \
            ".global sp_text_" symbol "\n.global sp_text_end_" symbol "\n"                                   \
            "sp_text_" symbol ":\n.incbin \"src/special/" file "\"\n"                                        \
            "sp_text_end_" symbol ":\n.byte 0\n.popsection\n");
EMBED("special_abi", "abi.h")
EMBED("special_words", "words.h")
extern const char sp_text_special_abi[], sp_text_end_special_abi[], sp_text_special_words[],
    sp_text_end_special_words[];

sparta_status sp_special_head(sp_target target, sp_text *out)
{
    SP_TRY(sp_emit_head(target, out));
    sp_text_put(out, sp_text_special_abi, (size_t)(sp_text_end_special_abi - sp_text_special_abi));
    sp_text_put(out, sp_text_special_words, (size_t)(sp_text_end_special_words - sp_text_special_words));
    return out->status;
}

sparta_status sp_special_text(sp_special *s, sp_target target, sp_text *out)
{
    SP_TRY(sp_special_head(target, out));
    sp_special_functions(s, "sp_special_", out);
    return out->status;
}
