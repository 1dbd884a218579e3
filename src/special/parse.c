/* Text to expression. It comes from a command line, a file or a program: every name, number and count is checked. */
#include "special/inside.h"
#include <stdio.h>
#include <string.h>

enum { MOST_DEPTH = 64, MOST_FACTOR = 1 << 20 };

typedef struct reader {
    sparta_ctx *cx;
    const char *text, *p;
    sp_special *s;
    int depth;
} reader;

static sparta_status bad(const reader *r, const char *what)
{
    char near[16];
    size_t n = strcspn(r->p, "\n");
    if (n > 12) n = 12;
    memcpy(near, r->p, n);
    near[n] = 0;
    sp_clean(near);
    return sp_fail(r->cx, SPARTA_E_USAGE, "expression:%ld: %s%s%s%s", (long)(r->p - r->text) + 1, what,
                   *near ? " at '" : "", near, *near ? "'" : "");
}

static void skip(reader *r)
{
    while (*r->p == ' ' || *r->p == '\n' || *r->p == '\t') r->p++;
}
static bool take(reader *r, char c)
{
    skip(r);
    if (*r->p != c) return false;
    r->p++;
    return true;
}
static sparta_status need(reader *r, char c)
{
    char what[32] = "'?' is missing";
    what[1] = c;
    return take(r, c) ? SPARTA_OK : bad(r, what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static sparta_status whole(reader *r, int64_t *out)
{
    int64_t v = 0;
    skip(r);
    if (!is_digit(*r->p)) return bad(r, "a whole number is missing");
    for (; is_digit(*r->p); r->p++) {
        v = v * 10 + (*r->p - '0');
        if (v > MOST_FACTOR) return bad(r, "a number is too large");
    }
    *out = v;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ names */
/* Letters and digits, from a letter on: nothing that C text made of it could mistake for a word of its own, since it adds '_'. */
static sparta_status name(reader *r, const char *what, char *out, size_t room)
{
    size_t n = 0;
    skip(r);
    if (!is_letter(*r->p)) return bad(r, what);
    while (is_letter(r->p[n]) || is_digit(r->p[n])) n++;
    if (n + 1 > room) {
        char too_long[48];
        snprintf(too_long, sizeof too_long, "a name has more than %d characters", (int)room - 1);
        return bad(r, too_long);
    }
    memcpy(out, r->p, n);
    out[n] = 0;
    r->p += n;
    return SPARTA_OK;
}

/* An index is one small letter and digits: i, k2. */
static sparta_status index_of(reader *r, int *out)
{
    sp_special *s = r->s;
    char word[8];
    const char *from = r->p;
    SP_TRY(name(r, "an index is missing (a small letter, and digits)", word, sizeof word));
    for (const char *c = word + 1; *c; c++)
        if (!is_digit(*c)) *word = 'A';
    if (*word >= 'A' && *word <= 'Z') {
        r->p = from;
        return bad(r, "an index is one small letter, and digits: i, k2; this is none");
    }
    for (int i = 0; i < s->indices; i++)
        if (!strcmp(s->index[i].name, word)) {
            *out = i;
            return SPARTA_OK;
        }
    if (s->indices == SP_SPECIAL_INDICES) return bad(r, "there are more than 12 indices");
    s->index[s->indices].size = -1;
    memcpy(s->index[s->indices].name, word, sizeof word);
    *out = s->indices++;
    return SPARTA_OK;
}

static int word_of(const char *text)
{
    for (int i = 0; i < SP_NEST_WORDS; i++)
        if (!strcmp(sp_nest_word_row(i)->name, text)) return i;
    return -1;
}

/* Words of one number or two that give a number. */
static bool allowed(int word)
{
    const sp_nest_word *w = sp_nest_word_row(word);
    return w->kind == SP_KIND_NUMBER || w->kind == SP_KIND_REAL;
}

static bool reduction(int word)
{
    return word == SP_NEST_largest || word == SP_NEST_smallest;
}

/* ------------------------------------------------------------------ accesses */
static sparta_status axis_term(reader *r, sp_nest_axis *x, int64_t sign)
{
    int64_t times = 1;
    skip(r);
    if (is_digit(*r->p)) {
        SP_TRY(whole(r, &times));
        if (!take(r, '*')) {
            x->plus += sign * times;
            return SPARTA_OK;
        }
    }
    int index = -1;
    SP_TRY(index_of(r, &index));
    for (int i = 0; i < x->n; i++)
        if (x->term[i].loop == index) return bad(r, "an index stands twice in one place");
    if (!times) return bad(r, "an index times 0 is none");
    if (x->n == SP_NEST_TERMS) return bad(r, "more than 4 indices stand in one place");
    x->term[x->n++] = (sp_nest_term){index, sign * times};
    return SPARTA_OK;
}

static sparta_status axis(reader *r, sp_nest_axis *x)
{
    int64_t sign = take(r, '-') ? -1 : 1;
    for (;;) {
        SP_TRY(axis_term(r, x, sign));
        if (take(r, '+'))
            sign = 1;
        else if (take(r, '-'))
            sign = -1;
        else
            return SPARTA_OK;
    }
}

static sparta_status operand_of(reader *r, const char *word, int rank, int *out)
{
    sp_special *s = r->s;
    int i = sp_special_find(s, word);
    if (i >= 0 && s->operand[i].rank != rank)
        return sp_fail(r->cx, SPARTA_E_USAGE, "expression:%ld: %s has %d indices here and %d before",
                       (long)(r->p - r->text) + 1, word, rank, s->operand[i].rank);
    if (i < 0) {
        if (s->operands == SP_SPECIAL_OPERANDS) return bad(r, "there are more than 12 operands");
        i = s->operands++;
        sp_special_operand *o = &s->operand[i];
        *o = (sp_special_operand){.rank = rank, .like = -1, .leaves = 1, .count = -1};
        memcpy(o->name, word, strlen(word) + 1);
        for (int d = 0; d < rank; d++) o->dim[d] = -1;
    }
    *out = i;
    return SPARTA_OK;
}

/* The name is read; its indices follow, or none. */
static sparta_status access_of(reader *r, const char *word, int *out)
{
    sp_special *s = r->s;
    sp_special_access a = {0};
    int rank = 0;
    if (word_of(word) >= 0) return bad(r, "a word is no operand");
    if (s->accesses == SP_SPECIAL_ACCESSES) return bad(r, "operands are named more than 24 times");
    if (take(r, '(')) {
        do {
            if (rank == SPARTA_RANK) return bad(r, "an operand has more dimensions than there are");
            SP_TRY(axis(r, &a.axis[rank++]));
        } while (take(r, ','));
        SP_TRY(need(r, ')'));
    }
    SP_TRY(operand_of(r, word, rank, &a.operand));
    s->access[s->accesses] = a;
    *out = s->accesses++;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ trees */
static sparta_status add_node(reader *r, sp_special_node node, int *out)
{
    if (r->s->nodes == SP_SPECIAL_NODES) return bad(r, "the expression is too long");
    r->s->node[r->s->nodes] = node;
    *out = r->s->nodes++;
    return SPARTA_OK;
}
static sparta_status sum(reader *r, int *out);

static sparta_status number(reader *r, int *out)
{
    char text[40];
    size_t n = 0;
    double v;
    while (is_digit(r->p[n]) || r->p[n] == '.' || ((r->p[n] == 'e' || r->p[n] == 'E') && n) ||
           ((r->p[n] == '-' || r->p[n] == '+') && n && (r->p[n - 1] == 'e' || r->p[n - 1] == 'E')))
        if (++n >= sizeof text) return bad(r, "a number is too long");
    memcpy(text, r->p, n);
    text[n] = 0;
    if (!sp_parse_double(text, &v) || !(v <= 3e38)) return bad(r, "this is no number of f32");
    r->p += n;
    return add_node(r, (sp_special_node){.kind = SP_TREE_NUMBER, .number = v}, out);
}

static sparta_status call(reader *r, int word, int *out)
{
    sp_special_node node = {.kind = SP_TREE_WORD, .at = word};
    if (reduction(word))
        return bad(r, "largest and smallest are of a whole statement: m(i) = largest(A(i,j)); before this");
    if (!allowed(word)) return bad(r, "this word is none of expressions (add, max, exp, ...)");
    SP_TRY(need(r, '('));
    do {
        if (node.n == SP_NEST_ARGS) return bad(r, "too many arguments");
        SP_TRY(sum(r, &node.arg[node.n++]));
    } while (take(r, ','));
    SP_TRY(need(r, ')'));
    if (node.n != sp_nest_word_row(word)->n)
        return bad(r, "a word has another number of arguments; before this");
    return add_node(r, node, out);
}

static sparta_status primary(reader *r, int *out)
{
    char word[20];
    skip(r);
    if (is_digit(*r->p) || *r->p == '.') return number(r, out);
    if (take(r, '(')) {
        SP_TRY(sum(r, out));
        return need(r, ')');
    }
    SP_TRY(name(r, "an operand, a number or '(' is missing", word, sizeof word));
    const int id = word_of(word);
    skip(r);
    if (id >= 0) return call(r, id, out);
    sp_special_node node = {.kind = SP_TREE_ACCESS};
    SP_TRY(access_of(r, word, &node.at));
    r->s->operand[r->s->access[node.at].operand].read = true;
    return add_node(r, node, out);
}

static sparta_status unary(reader *r, int *out)
{
    sparta_status status;
    if (r->depth == MOST_DEPTH) return bad(r, "parentheses are too deep");
    r->depth++;
    if (take(r, '-')) {
        sp_special_node node = {.kind = SP_TREE_WORD, .at = SP_NEST_neg, .n = 1};
        status = unary(r, &node.arg[0]);
        if (!status) status = add_node(r, node, out);
    } else
        status = primary(r, out);
    r->depth--;
    return status;
}

static sparta_status product(reader *r, int *out)
{
    SP_TRY(unary(r, out));
    for (;;) {
        const int word = take(r, '*') ? SP_NEST_mul : take(r, '/') ? SP_NEST_div : -1;
        if (word < 0) return SPARTA_OK;
        sp_special_node node = {.kind = SP_TREE_WORD, .at = word, .n = 2, .arg = {*out}};
        SP_TRY(unary(r, &node.arg[1]));
        SP_TRY(add_node(r, node, out));
    }
}

static sparta_status sum(reader *r, int *out)
{
    SP_TRY(product(r, out));
    for (;;) {
        const int word = take(r, '+') ? SP_NEST_add : take(r, '-') ? SP_NEST_sub : -1;
        if (word < 0) return SPARTA_OK;
        sp_special_node node = {.kind = SP_TREE_WORD, .at = word, .n = 2, .arg = {*out}};
        SP_TRY(product(r, &node.arg[1]));
        SP_TRY(add_node(r, node, out));
    }
}

/* ------------------------------------------------------------------ statements */
/* What is written is an element of its own for each value of its indices. */
static sparta_status check_target(reader *r, const sp_special_access *a)
{
    const sp_special_operand *o = &r->s->operand[a->operand];
    for (int d = 0; d < o->rank; d++) {
        const int index = sp_special_plain(&a->axis[d]);
        if (index < 0) return bad(r, "what is written has plain indices alone, no sums; before this");
        for (int e = 0; e < d; e++)
            if (sp_special_plain(&a->axis[e]) == index)
                return bad(r, "an index of the result stands twice; before this");
    }
    return SPARTA_OK;
}

/* A statement that reads what it writes works element by element, and in one term: else it would read what it has changed. */
static sparta_status check_own(reader *r, const sp_special_statement *st, int first)
{
    const sp_special *s = r->s;
    const sp_special_access *t = &s->access[st->target];
    bool own = false, sums = false;
    for (int a = first; a < s->accesses; a++) {
        if (a == st->target) continue;
        if (s->access[a].operand == t->operand) {
            own = true;
            if (!sp_special_same_axes(s, st->target, a))
                return bad(r, "a statement reads what it writes at other indices; write it under another "
                              "name; before this");
        }
        for (int i = 0; i < s->indices; i++)
            sums |= sp_special_has(s, a, i) && !sp_special_has(s, st->target, i);
    }
    const sp_special_node *root = &s->node[st->root];
    const bool terms = root->kind == SP_TREE_WORD && (root->at == SP_NEST_add || root->at == SP_NEST_sub);
    if (own && st->adds)
        return bad(r, "a statement adds to what it reads; write y(i) = y(i) + ... as y(i) = add(y(i),...); "
                      "before this");
    if (own && sums)
        return bad(r, "a statement that reads what it writes cannot sum over an index; use two statements; "
                      "before this");
    if (own && terms && st->reduce == SP_NEST_sum)
        return bad(r,
                   "a statement that reads what it writes is one term: write add(a,b) or += ; before this");
    return SPARTA_OK;
}

/* A sum of terms, or largest(...) or smallest(...), which are of one. */
static sparta_status right_side(reader *r, sp_special_statement *st)
{
    static const int words[] = {SP_NEST_largest, SP_NEST_smallest};
    skip(r);
    st->reduce = SP_NEST_sum;
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        const char *word = sp_nest_word_row(words[i])->name;
        const size_t n = strlen(word);
        if (!strncmp(r->p, word, n) && !is_letter(r->p[n]) && !is_digit(r->p[n])) st->reduce = words[i];
    }
    if (st->reduce == SP_NEST_sum) return sum(r, &st->root);
    if (st->adds) return bad(r, "largest and smallest are written by '=', and += adds");
    r->p += strlen(sp_nest_word_row(st->reduce)->name);
    SP_TRY(need(r, '('));
    SP_TRY(sum(r, &st->root));
    SP_TRY(need(r, ')'));
    skip(r);
    return *r->p && *r->p != ';'
               ? bad(r, "largest and smallest are all that a statement says; put this into another one")
               : SPARTA_OK;
}

static sparta_status statement(reader *r)
{
    sp_special *s = r->s;
    char word[20];
    if (s->statements == SP_SPECIAL_STATEMENTS) return bad(r, "there are more than 12 statements");
    sp_special_statement *st = &s->statement[s->statements];
    const int first = s->accesses;
    SP_TRY(name(r, "the name of a result is missing", word, sizeof word));
    SP_TRY(access_of(r, word, &st->target));
    SP_TRY(check_target(r, &s->access[st->target]));
    sp_special_operand *o = &s->operand[s->access[st->target].operand];
    st->adds = take(r, '+');
    SP_TRY(need(r, '='));
    SP_TRY(right_side(r, st));
    SP_TRY(check_own(r, st, first));
    o->written = true;
    s->statements++;
    return SPARTA_OK;
}

static sparta_status parse(reader *r)
{
    do {
        SP_TRY(statement(r));
        skip(r);
    } while (take(r, ';') && (skip(r), *r->p));
    skip(r);
    return *r->p ? bad(r, "this does not belong to the expression") : SPARTA_OK;
}

sparta_status sp_special_parse(sparta_ctx *cx, const char *text, sp_special **out)
{
    *out = NULL;
    if (strlen(text) > SP_SPECIAL_TEXT)
        return sp_fail(cx, SPARTA_E_USAGE, "expression: its text has %zu characters, the most are %d",
                       strlen(text), SP_SPECIAL_TEXT);
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sp_special *s = sp_arena_array(arena, 1, sizeof *s);
    if (s) s->text = sp_arena_string(arena, text);
    if (!s || !s->text) {
        sp_arena_free(arena);
        return sp_ctx_status(cx);
    }
    s->cx = cx;
    s->arena = arena;
    reader r = {cx, text, text, s, 0};
    const sparta_status status = parse(&r);
    if (status)
        sp_special_free(s);
    else
        *out = s;
    return status;
}

void sp_special_free(sp_special *s)
{
    if (s) sp_arena_free(s->arena);
}

int sp_special_find(const sp_special *s, const char *operand)
{
    for (int i = 0; i < s->operands; i++)
        if (!strcmp(s->operand[i].name, operand)) return i;
    return -1;
}
