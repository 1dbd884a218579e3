/* A node as an expression over its operands: products, and what is done to all elements where one of them is stored in a format.
 *
 *     Linear(x, w, b) {epilogue="bias relu"}     Y(b,n) = X(b,k)*W(k,n)+B(n); Y(b,n) = relu(Y(b,n))
 *     the same, w: csc, x and y row-major        P(b,k) = X(b,k); Q(b,n) = P(b,k)*W(k,n); Y(b,n) = Q(b,n)+B(n); ...    P and Q in panels, scratch
 *     MatMul(x, w)                               Y(b,m,n) = X(b,m,k)*W(b,k,n)
 *     Mul(x, w), x: csr                          Y(b,c) = mul(X(b,c),W(0,c))
 *
 * Indices are b to i, k, m and n: `a` is what kernels call their arguments.
 */
#include "builtin/epilogue.h"
#include "specialize/specialize.h"
#include <string.h>

/* Which index each dimension of an operand has; '0': the only one there is. */
typedef struct indices {
    int n;
    char at[SPARTA_RANK];
} indices;

static void put(sp_text *t, const char *name, const indices *x)
{
    sp_text_printf(t, "%s", name);
    for (int i = 0; i < x->n; i++) sp_text_printf(t, "%c%c", i ? ',' : '(', x->at[i]);
    if (x->n) sp_text_printf(t, ")");
}

static bool is_one(const sp_value *v, int d)
{
    return sp_expr_is(v->dims.dim[d], 1);
}

/* The first `n` dims of v against the first `m` of y, right-aligned as NumPy does. */
static void broadcast(const sp_value *v, int n, const sp_value *y, int m, indices *out)
{
    for (int d = 0; d < n; d++) {
        const int o = m - n + d;
        out->at[out->n++] = is_one(v, d) && !is_one(y, o) ? '0' : (char)('b' + o);
    }
}

static sp_specialize_operand *add_name(sp_specialize_step *step, const char *name)
{
    sp_specialize_operand *o = &step->operand[step->operands++];
    *o = (sp_specialize_operand){0};
    memcpy(o->name, name, strlen(name) + 1);
    return o;
}

static sparta_status add(sparta_specialized *s, sp_specialize_step *step, const char *name, const sp_value *v,
                         bool weight)
{
    sp_specialize_operand *o = add_name(step, name);
    o->value = v;
    if (weight) return sp_specialize_choose(s, v, &o->format);
    o->format = sp_specialize_asked(s, v);
    if (o->format) s->value[v->id].reason = "asked for";
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ Linear */
typedef struct ending {
    sp_text *t;
    indices y, bias, residual;
} ending;

static void operand(const ending *e, const sp_word *w, sp_text *t)
{
    put(t, w->slot == 2 ? "B" : "R", w->slot == 2 ? &e->bias : &e->residual);
}

/* Statements after the sum, one a word: "; Y(b,n) = relu(Y(b,n))". */
static void say_word(const ending *e, const sp_word *w, const char *word)
{
    const bool silu = !strcmp(word, "silu"), quick = !strcmp(word, "quick_gelu"), adds = w->op == SP_OP_Add;
    sp_text_printf(e->t, "; ");
    put(e->t, "Y", &e->y);
    sp_text_printf(e->t, adds ? " += " : " = ");
    if (adds) {
        operand(e, w, e->t);
        return;
    }
    sp_text_printf(e->t, "%s(", silu || quick || w->slot ? "mul" : word);
    put(e->t, "Y", &e->y);
    if (silu || quick) {
        sp_text_printf(e->t, ",sigmoid(%s", quick ? "1.702*" : "");
        put(e->t, "Y", &e->y);
        sp_text_printf(e->t, ")");
    } else if (w->slot) {
        sp_text_printf(e->t, ",");
        operand(e, w, e->t);
    }
    sp_text_printf(e->t, ")");
}

/* Rows have no lanes that run along a sparse weight: from MIN_ROWS on it is worth it to copy x into panels and y out of them. */
enum { MIN_ROWS = 16 };

static bool through_panels(const sp_specialize_step *step)
{
    const sp_value *x = step->node->in[0], *y = step->node->out[0];
    const int lead = y->dims.rank - 1;
    int64_t rows;
    if (step->operand[0].format || step->operand[1].format || !step->operand[2].format || lead < 1 ||
        x->dims.rank != y->dims.rank || !sp_expr_is_const(y->dims.dim[lead - 1], &rows))
        return false;
    for (int d = 0; d < lead; d++)
        if (is_one(x, d) != is_one(y, d)) return false;
    return rows >= MIN_ROWS;
}

/* 64 of the last dimension but one side by side: "(b,c,d)->(b:dense, c/64:dense, d:dense, c%64:dense)". */
static sparta_status add_panels(sparta_specialized *s, sp_specialize_step *step, const char *name, int rank)
{
    sp_text t;
    sp_text_init(&t, s->cx);
    const char row = (char)('b' + rank - 2), column = (char)(row + 1);
    for (int d = 0; d < rank; d++) sp_text_printf(&t, "%c%c", d ? ',' : '(', 'b' + d);
    sp_text_printf(&t, ")->(");
    for (int d = 0; d < rank - 2; d++) sp_text_printf(&t, "%c:dense, ", 'b' + d);
    sp_text_printf(&t, "%c/64:dense, %c:dense, %c%%64:dense)", row, column, row);
    const char *format = sp_text_keep(&t, s->arena);
    SP_NEED(s->cx, format);
    add_name(step, name)->format = format;
    return SPARTA_OK;
}

static void say_linear(const sp_node *n, const sp_words *words, bool panels, sp_text *t)
{
    ending e = {.t = t};
    const sp_value *x = n->in[0], *y = n->out[0];
    const int lead = y->dims.rank - 1;
    const bool turned = sp_attr_int(&n->attrs, "transposed", 0);
    indices of_x = {0}, of_w = {2, {turned ? 'n' : 'k', turned ? 'k' : 'n'}};
    broadcast(x, lead, y, lead, &of_x);
    e.y = of_x;
    of_x.at[of_x.n++] = 'k';
    e.y.at[e.y.n++] = 'n';
    e.bias = (indices){1, {'n'}};
    if (n->n_in > 3 && n->in[3]) {
        broadcast(n->in[3], n->in[3]->dims.rank, y, y->dims.rank, &e.residual);
        for (int i = 0; i < e.residual.n; i++)
            if (e.residual.at[i] == 'b' + lead) e.residual.at[i] = 'n';
    }
    if (panels) {
        put(t, "P", &of_x);
        sp_text_printf(t, " = ");
        put(t, "X", &of_x);
        sp_text_printf(t, "; ");
    }
    put(t, panels ? "Q" : "Y", &e.y);
    sp_text_printf(t, " = ");
    put(t, panels ? "P" : "X", &of_x);
    sp_text_printf(t, "*");
    put(t, "W", &of_w);
    if (panels) {
        sp_text_printf(t, "; ");
        put(t, "Y", &e.y);
        sp_text_printf(t, " = ");
        put(t, "Q", &e.y);
    }
    int first = 0;
    for (; first < words->n && sp_word_row(words->word[first])->op == SP_OP_Add; first++) {
        sp_text_printf(t, "+");
        operand(&e, sp_word_row(words->word[first]), t);
    }
    for (int i = first; i < words->n; i++)
        say_word(&e, sp_word_row(words->word[i]), sp_word_row(words->word[i])->name);
}

static sparta_status linear(sparta_specialized *s, sp_specialize_step *step, sp_text *t)
{
    const sp_node *n = step->node;
    const bool bias = n->n_in > 2 && n->in[2], residual = n->n_in > 3 && n->in[3];
    sp_words words;
    const char *problem = sp_words_of(&n->attrs, bias, residual, &words);
    if (problem) return sp_fail(s->cx, SPARTA_E_UNSUPPORTED, "Linear %s: %s", n->name, problem);
    SP_TRY(add(s, step, "Y", n->out[0], false));
    SP_TRY(add(s, step, "X", n->in[0], false));
    SP_TRY(add(s, step, "W", n->in[1], true));
    if (bias) SP_TRY(add(s, step, "B", n->in[2], false));
    if (residual) SP_TRY(add(s, step, "R", n->in[3], false));
    sp_specialize_operand *w = &step->operand[2];
    /* Of two formats with the same bytes, the one that has the weights of one output together. */
    if (w->format && !sp_specialize_asked(s, w->value) && !strcmp(w->format, "csr") &&
        !sp_attr_int(&n->attrs, "transposed", 0))
        w->format = "csc";
    const bool panels = through_panels(step);
    if (panels) SP_TRY(add_panels(s, step, "P", n->in[0]->dims.rank));
    if (panels) SP_TRY(add_panels(s, step, "Q", n->out[0]->dims.rank));
    say_linear(n, &words, panels, t);
    return t->status;
}

/* ------------------------------------------------------------------ MatMul */
static sparta_status matmul(sparta_specialized *s, sp_specialize_step *step, sp_text *t)
{
    const sp_node *n = step->node;
    const sp_value *x = n->in[0], *w = n->in[1], *y = n->out[0];
    const bool row = x->dims.rank > 1, col = w->dims.rank > 1;
    const int batch = y->dims.rank - row - col;
    indices of_x = {0}, of_w = {0}, of_y = {0};
    broadcast(y, batch, y, batch, &of_y);
    if (row)
        broadcast(x, x->dims.rank - 2, y, batch, &of_x), of_x.at[of_x.n++] = 'm', of_y.at[of_y.n++] = 'm';
    if (col) broadcast(w, w->dims.rank - 2, y, batch, &of_w), of_y.at[of_y.n++] = 'n';
    of_x.at[of_x.n++] = 'k';
    of_w.at[of_w.n++] = 'k';
    if (col) of_w.at[of_w.n++] = 'n';
    SP_TRY(add(s, step, "Y", y, false));
    SP_TRY(add(s, step, "X", x, false));
    SP_TRY(add(s, step, "W", w, w->constant != NULL));
    put(t, "Y", &of_y);
    sp_text_printf(t, " = ");
    put(t, "X", &of_x);
    sp_text_printf(t, "*");
    put(t, "W", &of_w);
    return t->status;
}

/* ------------------------------------------------------------------ element by element */
static const char *word_of(sp_op_id op, bool *turned)
{
    switch (op) {
#define SP_EXPRESS(id, word, other_first)                                                                    \
    case SP_OP_##id:                                                                                         \
        *turned = other_first;                                                                               \
        return #word;
#include "emit/express.def"
#undef SP_EXPRESS
    default: return NULL;
    }
}

static bool formatted(const sparta_specialized *s, const sp_node *n)
{
    for (int i = 0; i < sp_node_slots(n); i++)
        if (sp_specialize_asked(s, sp_node_slot(n, i))) return true;
    return false;
}

static sparta_status each(sparta_specialized *s, sp_specialize_step *step, const char *word, sp_text *t)
{
    static const char *const names[] = {"X", "W"};
    const sp_node *n = step->node;
    const sp_value *y = n->out[0];
    indices of_y = {0};
    broadcast(y, y->dims.rank, y, y->dims.rank, &of_y);
    SP_TRY(add(s, step, "Y", y, false));
    put(t, "Y", &of_y);
    sp_text_printf(t, " = %s(", word);
    for (int i = 0; i < n->n_in; i++) {
        indices of = {0};
        broadcast(n->in[i], n->in[i]->dims.rank, y, y->dims.rank, &of);
        SP_TRY(add(s, step, names[i], n->in[i], false));
        if (i) sp_text_printf(t, ",");
        put(t, names[i], &of);
    }
    sp_text_printf(t, ")");
    return t->status;
}

/* ------------------------------------------------------------------ any of them */
static bool all_f32(const sp_node *n)
{
    for (int i = 0; i < sp_node_slots(n); i++)
        if (sp_node_slot(n, i) && sp_node_slot(n, i)->dtype != SPARTA_F32) return false;
    return true;
}

static sparta_status express(sparta_specialized *s, sp_specialize_step *step, sp_text *t, bool *can)
{
    const sp_node *n = step->node;
    bool turned = false;
    const char *word = word_of(n->op, &turned);
    *can = all_f32(n);
    if (*can && n->op == SP_OP_Linear) return linear(s, step, t);
    if (*can && n->op == SP_OP_MatMul) return matmul(s, step, t);
    *can = *can && word && !turned && n->n_in <= 2 && formatted(s, n);
    return *can ? each(s, step, word, t) : SPARTA_OK;
}

sparta_status sp_specialize_express(sparta_specialized *s, sp_specialize_step *step, bool *can)
{
    sp_text t;
    sp_text_init(&t, s->cx);
    const sparta_status status = express(s, step, &t, can);
    if (status || !*can) {
        sp_text_free(&t);
        return status;
    }
    step->text = sp_text_keep(&t, s->arena);
    SP_NEED(s->cx, step->text);
    return SPARTA_OK;
}
