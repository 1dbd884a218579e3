/* docs/operators.md from the tables: `make docs-operators` writes it, `make operators-check` says whether it is up to date.
 *
 * One row for each row of builtin/ops.def; what is said of it is its rule in src/ops (sp_rule). */
#include "import/aten.h"
#include "import/parts.h"
#include "ops/flow.h"
#include "ops/quant.h"
#include <stdio.h>
#include <stdlib.h>

/* Sets of types in words. */
static const struct {
    unsigned types;
    const char *words;
} words[] = {{SP_FLOATS, "floats"},
             {SP_TYPE(SPARTA_F32), "f32"},
             {SP_NUMBERS, "numbers"},
             {SP_BOOLS, "bools"},
             {SP_ANY, "numbers and bools"},
             {SP_ALL, "any"},
             {SP_FLOATS | SP_SIGNED, "floats and signed integers"},
             {SP_FLOATS | SP_INDICES, "floats, i32 and i64"},
             {SP_WIDE, "floats and 32/64-bit integers"},
             {SP_FLOATS | SP_TYPE(SPARTA_I8) | SP_TYPE(SPARTA_U8), "floats and 8-bit integers"},
             {SP_QUANT_FLOATS | SP_TYPE(SPARTA_I32), "floats up to 32 bits, and i32"},
             {SP_QUANT_TYPES | SP_TYPE(SPARTA_I32), "integers of 2 to 16 bits, and i32"}};

static const char *in_words(const char *op, unsigned types)
{
    for (size_t i = 0; i < SP_COUNT(words); i++)
        if (words[i].types == types) return words[i].words;
    fprintf(stderr, "operators: %s takes a set of types that has no words here (%#x)\n", op, types);
    exit(1);
}

static const char *const exactness[] = {
    [SP_OPAQUE] = "opaque", [SP_CONSERVATIVE] = "conservative", [SP_EXACT] = "exact"};

/* A bar would end the cell. */
static void cell(const char *s)
{
    if (s && *s) putchar(' ');
    for (; s && *s; s++) {
        if (*s == '|') putchar('\\');
        putchar(*s);
    }
    printf(" |");
}

static void row(const sp_builtin *b, const sp_rule *f)
{
    printf("| %s | ", b->name);
    if (*b->domain)
        printf("(fusion) |");
    else
        printf("%d to 27 |", b->since);
    cell(in_words(b->name, f->types));
    cell(exactness[f->exact]);
    cell(f->says);
    cell(f->refuses);
    printf("\n");
}

static void table(bool onnx)
{
    printf("| operator | opsets | types | rule | what passes | refused |\n|---|---|---|---|---|---|\n");
    for (int op = 0; op < SP_OPS; op++) {
        const sp_builtin *b = sp_builtin_row((sp_op_id)op);
        if (onnx == !*b->domain) row(b, sp_rule_of((sp_op_id)op));
    }
}

/* What is taken apart as it is read. */
static void rewritten(const sp_part_row *row, int n)
{
    for (int i = 0; i < n; i++)
        printf("| %s | %s | %s |\n", row[i].op, *row[i].domain ? row[i].domain : "ai.onnx", row[i].means);
}

static void parts(void)
{
    printf("\n## Taken apart as they are read\n\n"
           "What quantizers and onnxruntime's optimiser write (its levels basic and extended; that of one machine, "
           "com.microsoft.nchwc, is refused) becomes operators from above.\n\n"
           "| operator | domain | becomes |\n|---|---|---|\n");
    rewritten(sp_integer_rows, sp_integer_n_rows);
    rewritten(sp_contrib_rows, sp_contrib_n_rows);
}

/* What a row of aten.def becomes, where it says one operator. */
static void overloads(void)
{
    printf("\n## ATen, in programs of torch.export\n\n"
           "A `.pt2` file may call these %d overloads; they become the operators above, and `add_` and others that change their first operand\n"
           "in place are their functional twins. Programs should be as `torch.export.export` gives them: `run_decompositions()` takes linear layers and\n"
           "attention apart. What is not here is refused, all of it in one message. The third column names the operator where there is one.\n\n"
           "embedding_bag does what PyTorch does on a CPU. There ids behind the last offset (`include_last_offset`) are left out of sums, but not\n"
           "where the table is f64 or the bags are padded, and means divide by their number too. The largest of a bag that has a NaN is NaN; PyTorch's\n"
           "depends on where it stands.\n\n"
           "| overload | shares memory | becomes |\n|---|---|---|\n",
           sp_aten_n_rows);
    for (int i = 0; i < sp_aten_n_rows; i++) {
        const sp_aten_row *r = &sp_aten_rows[i];
        printf("| %s | %s |", r->overload, r->view ? "yes" : "");
        cell(r->op < SP_OPS ? sp_builtin_row(r->op)->name : "");
        printf("\n");
    }
}

int main(void)
{
    int count[3] = {0};
    for (int op = 0; op < SP_OPS; op++) count[sp_rule_of((sp_op_id)op)->exact]++;
    printf(
        "# Operators\n\n"
        "Written by `make docs-operators` from the table of operators; do not edit.\n\n"
        "Every operator here is read from ONNX files of opset 11 to 27, in the form that its opset has "
        "(it is rewritten to the newest), has\n"
        "a shape rule, a reference that runs anywhere, and a rule by which sparsity passes through it "
        "([propagation.md](propagation.md)).\n"
        "An operator that is not here is refused by name (exit 4), all of a file's at once, never skipped.\n\n"
        "Rules: %d exact, %d conservative, %d opaque.\n\n"
        "- **exact**: the axes and the way outputs come from inputs are said in full: facts pass as the rule "
        "beside it says, index by index.\n"
        "  What one operand settles by itself passes where the rule says so (a Where whose condition is "
        "known, an Or "
        "with true);\n"
        "  bounds do not (a Max with something that is never smaller)\n"
        "- **conservative**: what is said is true, but not all of it is said\n"
        "- **opaque**: nothing is known of its outputs, all of its inputs are needed\n\n## ONNX\n\n",
        count[SP_EXACT], count[SP_CONSERVATIVE], count[SP_OPAQUE]);
    table(true);
    printf("\n## Made by fusion\n\n");
    table(false);
    parts();
    overloads();
    return 0;
}
