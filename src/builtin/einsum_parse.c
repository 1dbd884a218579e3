/* The equation of Einsum as loops (einsum.h). First the terms are read as letters, then letters become loops. */
#include "builtin/einsum.h"
#include <string.h>

enum { DOTS = 0, LETTERS = 52 }; /* in a term: DOTS, or a letter's number + 1 */

typedef struct term {
    int n, dots; /* letters and "..."; place of "...", or -1 */
    int8_t at[LETTERS + 1];
} term;

typedef struct reader {
    sparta_ctx *cx;
    const char *text, *at;
    int n; /* operands */
    const int *rank;
    int times[LETTERS];              /* that a letter occurs on the left */
    int widest;                      /* dims of the longest "..."; -1: there is none */
    int of_letter[LETTERS], of_dots; /* loops; -1: none yet */
} reader;

static sparta_status wrong(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "Einsum: equation \"%.100s\", at character %d: %s", r->text,
                   (int)(r->at - r->text) + 1, what);
}

/* 'A'..'Z' before 'a'..'z', the order that implicit results have. -1: no letter. */
static int letter(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    return c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

/* Up to "," or "->" or the end. */
static sparta_status read_term(reader *r, term *t)
{
    *t = (term){.dots = -1};
    for (; *r->at && *r->at != ',' && *r->at != '-'; r->at++) {
        if (*r->at == ' ') continue;
        int c = letter(*r->at);
        if (t->n > LETTERS) return wrong(r, "a term has too many letters");
        if (c >= 0) {
            t->at[t->n++] = (int8_t)(c + 1);
            continue;
        }
        if (strncmp(r->at, "...", 3) != 0) return wrong(r, "letters, \"...\", \",\" and \"->\" are possible");
        if (t->dots >= 0) return wrong(r, "a second \"...\" in one term");
        t->dots = t->n;
        t->at[t->n++] = DOTS;
        r->at += 2;
    }
    return SPARTA_OK;
}

static sparta_status read_operand(reader *r, int i, term *t)
{
    SP_TRY(read_term(r, t));
    const int letters = t->n - (t->dots >= 0);
    if (t->dots >= 0 ? letters > r->rank[i] : letters != r->rank[i])
        return sp_fail(r->cx, SPARTA_E_SHAPE,
                       "Einsum: equation \"%.100s\": term %d has %d letters and its operand has rank %d",
                       r->text, i + 1, letters, r->rank[i]);
    for (int k = 0; k < t->n; k++)
        if (t->at[k] != DOTS) r->times[t->at[k] - 1]++;
    if (t->dots >= 0) r->widest = SP_MAX(r->widest, r->rank[i] - letters);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ loops */

static void give_letter(reader *r, int c, sp_einsum *e)
{
    if (r->of_letter[c] < 0) r->of_letter[c] = e->loops++;
}

static void give_dots(reader *r, sp_einsum *e)
{
    if (r->of_dots >= 0 || r->widest < 0) return;
    r->of_dots = e->loops;
    for (int i = 0; i < r->widest; i++) e->wide[e->loops++] = true;
}

static void implicit_result(reader *r, sp_einsum *e)
{
    give_dots(r, e);
    for (int c = 0; c < LETTERS; c++)
        if (r->times[c] == 1) give_letter(r, c, e);
}

static sparta_status explicit_result(reader *r, sp_einsum *e)
{
    term t;
    if (r->at[1] != '>') return wrong(r, "\"->\" was expected");
    r->at += 2;
    SP_TRY(read_term(r, &t));
    if (*r->at) return wrong(r, "the result is one term, and the last");
    for (int k = 0; k < t.n; k++) {
        if (t.at[k] == DOTS) {
            give_dots(r, e);
            continue;
        }
        if (!r->times[t.at[k] - 1]) return wrong(r, "the result has a letter that no operand has");
        if (r->of_letter[t.at[k] - 1] >= 0) return wrong(r, "the result has a letter twice");
        give_letter(r, t.at[k] - 1, e);
    }
    return SPARTA_OK;
}

/* The loop of each dim; "..." that is shorter than the longest stands at its end. */
static void name_loops(const reader *r, int rank, const term *t, int loop[SPARTA_RANK])
{
    int d = 0;
    for (int k = 0; k < t->n; k++) {
        if (t->at[k] != DOTS) {
            loop[d++] = r->of_letter[t->at[k] - 1];
            continue;
        }
        const int dims = rank - (t->n - 1);
        for (int i = 0; i < dims; i++) loop[d++] = r->of_dots + r->widest - dims + i;
    }
}

static sparta_status make_loops(reader *r, sp_einsum *e, const term *terms)
{
    if (*r->at == '-')
        SP_TRY(explicit_result(r, e));
    else
        implicit_result(r, e);
    e->kept = e->loops;
    if (e->kept > SPARTA_RANK)
        return sp_fail(r->cx, SPARTA_E_UNSUPPORTED,
                       "Einsum: equation \"%.100s\": the result has %d dims; at most %d are possible",
                       r->text, e->kept, SPARTA_RANK);
    give_dots(r, e);
    for (int c = 0; c < LETTERS; c++)
        if (r->times[c]) give_letter(r, c, e);
    for (int i = 0; i < r->n; i++) name_loops(r, r->rank[i], &terms[i], e->loop[i]);
    return SPARTA_OK;
}

static sparta_status read_equation(reader *r, sp_einsum *e, term *terms)
{
    for (int i = 0; i < r->n; i++) {
        if (i > 0 && *r->at++ != ',') {
            r->at--;
            return wrong(r, "there are fewer terms than operands");
        }
        SP_TRY(read_operand(r, i, &terms[i]));
    }
    if (*r->at == ',') return wrong(r, "there are more terms than operands");
    return make_loops(r, e, terms);
}

sparta_status sp_einsum_parse(sparta_ctx *cx, const char *equation, int n, const int *rank, sp_einsum *out)
{
    reader r = {
        .cx = cx, .text = equation, .at = equation, .n = n, .rank = rank, .widest = -1, .of_dots = -1};
    sp_einsum e = {.n = n};
    for (int c = 0; c < LETTERS; c++) r.of_letter[c] = -1;
    term *terms = sp_alloc_array(cx, (size_t)n, sizeof *terms);
    SP_NEED(cx, terms);
    e.loop = sp_alloc_array(cx, (size_t)n, sizeof *e.loop);
    sparta_status status = e.loop ? read_equation(&r, &e, terms) : sp_ctx_status(cx);
    sp_free(cx, terms);
    if (status == SPARTA_OK)
        *out = e;
    else
        sp_free(cx, e.loop);
    return status;
}
