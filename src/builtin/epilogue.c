/* The functions of epilogue.def, in double, and lists of words. */
#include "builtin/epilogue.h"
#include <math.h>
#include <string.h>

static double relu(double x)
{
    return x < 0 ? 0 : x; /* NaN stays NaN */
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); /* 1 / sqrt 2 */
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); /* sqrt(2 / pi) */
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double quick_gelu(double x)
{
    return x * sigmoid(1.702 * x);
}

const sp_word *sp_word_row(sp_word_id id)
{
    static const sp_word table[] = {
#define SP_WORD(id, name, slot, f, op, approximate, alpha) {name, slot, f, SP_OP_##op, approximate, alpha},
#include "builtin/epilogue.def"
#undef SP_WORD
    };
    return &table[id];
}

int sp_word_of(sp_op_id op, const sp_attrs *attrs)
{
    for (int i = 0; i < SP_WORDS; i++) {
        const sp_word *w = sp_word_row((sp_word_id)i);
        if (w->op != op) continue;
        if (w->approximate && strcmp(sp_attr_string(attrs, "approximate", "none"), w->approximate)) continue;
        if (w->alpha != 0 && fabsf(sp_attr_float(attrs, "alpha", 1) - w->alpha) > 1e-6f) continue;
        return i;
    }
    return -1;
}

static int find(const char *name, size_t length)
{
    for (int i = 0; i < SP_WORDS; i++) {
        const char *is = sp_word_row((sp_word_id)i)->name;
        if (strlen(is) == length && !memcmp(is, name, length)) return i;
    }
    return -1;
}

const char *sp_words_of(const sp_attrs *attrs, bool bias, bool residual, sp_words *out)
{
    return sp_words_parse(sp_attr_string(attrs, "epilogue", NULL), bias, residual, out);
}

const char *sp_words_parse(const char *text, bool bias, bool residual, sp_words *out)
{
    const char *p = text ? text : bias && residual ? "bias add" : bias ? "bias" : residual ? "add" : "";
    int added[4] = {0}; /* by input */
    out->n = 0;
    for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
        const size_t length = strcspn(p, " ");
        const int id = find(p, length);
        if (id < 0) return "its epilogue has a word that is not known";
        if (out->n == SP_EPILOGUE_WORDS) return "its epilogue has more than 8 words";
        if (id == SP_WORD_BIAS && out->n > 0) return "its epilogue has the bias behind other words";
        added[sp_word_row((sp_word_id)id)->slot]++;
        out->word[out->n++] = (sp_word_id)id;
        p += length;
    }
    if (added[2] != bias) return "its epilogue and its inputs disagree about a bias";
    if (added[3] != residual) return "its epilogue and its inputs disagree about a residual";
    return NULL;
}

bool sp_words_only_add(const sp_words *words)
{
    for (int i = 0; i < words->n; i++)
        if (sp_word_row(words->word[i])->f || words->word[i] == SP_WORD_MUL) return false;
    return true;
}
