/* generated_linear: a Linear whose weight is in a format that nobody wrote a kernel for. Room special writes its sums, and kernel stored (panel/kernel_stored.h)
 * ends them as every product ends.
 *
 *     "EPILOGUE=word_relu(v) STAT=0 KERNEL=reorder(m0,m1,n,k);vectorize(m1,4) FORMAT=(i,j)->(i:dense, j:packed[auto])"
 *
 *     #define EPILOGUE ...         the words, the head of every text of room special
 *     sp_special_0, _1, ...        y(m,n) = x(m,k)*w(n,k), x and y in panels, w in FORMAT: one function a part of the format
 *     stored_sums                  the arrays of the weight to where those look for them; calls all
 *     sp_kernel_stored             its template: stored_sums, then bias, epilogue and statistics
 *
 * The parameters say all of the text, so that equal formats share a kernel whatever their sizes are. Without KERNEL the loops are in the order that is good
 * without tuning. */
#include "implement/generated.h"
#include "implement/linear.h"
#include "special/special.h"
#include <string.h>

#define EXPRESSION "y(m,n) = x(m,k)*w(n,k)"

/* ------------------------------------------------------------------ the sums */
static sparta_status nests(sp_special *s, const char *format, const char *kernel, sp_target target)
{
    SP_TRY(sp_special_format(s, "x", "panel"));
    SP_TRY(sp_special_format(s, "y", "panel"));
    SP_TRY(sp_special_format(s, "w", format));
    SP_TRY(sp_special_lower(s));
    SP_TRY(sp_special_schedule(s, kernel, target));
    return sp_special_bounded(s) < 0
               ? SPARTA_OK
               : sp_fail(s->cx, SPARTA_E_USAGE,
                         "schedule: bound: the kernel of a layer is for all sizes of %s; leave it out",
                         s->index[sp_special_bounded(s)].name);
}

static void size_line(const sp_special *s, const char *operand, int level, const char *value, sp_text *out)
{
    const sp_special_operand *o = &s->operand[sp_special_find(s, operand)];
    sp_text_printf(out, "    size[%d] = %s;\n", SP_SPECIAL_INDICES + o->level + level, value);
}

/* Where room special numbers the arrays and sizes of one panel and of the weight. */
static void bind_text(const sp_special *s, sp_text *out)
{
    static const char *const sizes[][2] = {{"m", "16 * p->vectors"}, {"n", "p->n"}, {"k", "p->k"}};
    const sp_special_operand *w = &s->operand[sp_special_find(s, "w")];
    for (int i = 0; i < s->indices; i++)
        for (size_t k = 0; k < SP_COUNT(sizes); k++)
            if (!strcmp(s->index[i].name, sizes[k][0]))
                sp_text_printf(out, "    size[%d] = %s;\n", i, sizes[k][1]);
    for (int i = 0; i < 2; i++) { /* (m/64, feature, m%64): one panel, or what a thread has of it */
        const char *name = i ? "x" : "y";
        size_line(s, name, 0, "1", out);
        size_line(s, name, 1, i ? "p->k" : "p->n", out);
        size_line(s, name, 2, "SP_PANEL", out);
        sp_text_printf(out, "    array[%d] = (float *)%s + 16 * p->vector0;\n",
                       s->operand[sp_special_find(s, name)].array, i ? "p->x" : "p->e.y");
    }
    sp_text_printf(out, "    for (int i = 0; i < %d; i++) {\n", w->leaves);
    sp_text_printf(out, "        void **const at = array + %d + i * (1 + 2 * SP_STORED_LEVELS);\n", w->array);
    sp_text_printf(out, "        at[0] = (void *)p->leaf[i].w;\n");
    sp_text_printf(out, "        for (int l = 0; l < SP_STORED_LEVELS; l++) {\n");
    sp_text_printf(out, "            at[1 + 2 * l] = (void *)p->leaf[i].pos[l];\n");
    sp_text_printf(out, "            at[2 + 2 * l] = (void *)p->leaf[i].crd[l];\n");
    sp_text_printf(
        out, "            size[%d + i * SP_STORED_LEVELS + l] = p->leaf[i].size[l];\n        }\n    }\n",
        SP_SPECIAL_INDICES + w->level);
}

static void sums_text(const sp_special *s, sp_text *out)
{
    sp_text_printf(out, "\nINLINE void stored_sums(const struct sp_stored_args *p)\n{\n");
    sp_text_printf(out, "    void *array[%d];\n    long size[%d];\n", s->arrays,
                   SP_SPECIAL_INDICES + s->levels);
    sp_text_printf(out, "    const struct sp_special_args a = {array, size, 0, 1};\n");
    bind_text(s, out);
    if (!sp_special_stores(s, 0)) {
        sp_text_printf(out, "    for (long row = 0; row < p->n; row++)\n");
        sp_text_printf(
            out, "        for (long t = 16 * p->vector0; t < 16 * (p->vector0 + p->vectors); t += LANES)\n");
        sp_text_printf(out, "            store(p->e.y + row * SP_PANEL + t, splat(0.f));\n");
    }
    for (int i = 0; i < s->nests; i = sp_special_group(s, i))
        sp_text_printf(out, "    sp_special_%d(&a);\n", i);
    sp_text_printf(out, "}\n\n");
}

static sparta_status write(sp_special *s, sp_target target, sp_text *out)
{
    SP_TRY(sp_special_head(target, out));
    sp_special_functions(s, "sp_special_", out);
    SP_TRY(sp_panel_head(out));
    sums_text(s, out);
    return sp_panel_body("stored", out);
}

/* The text behind the #defines; out NULL: only whether there is one. */
static sparta_status write_for(sparta_ctx *cx, const char *format, const char *kernel, sp_target target,
                               sp_text *out)
{
    sp_special *s = NULL;
    sparta_status status = sp_special_parse(cx, EXPRESSION, &s);
    if (status == SPARTA_OK) status = nests(s, format, kernel, target);
    if (status == SPARTA_OK && out) status = write(s, target, out);
    sp_special_free(s);
    return status;
}

/* ------------------------------------------------------------------ parameters */
/* The value of a word up to the next blank; FORMAT is the last and goes to the end. NULL: it is not there. */
static const char *value_of(const char *parameters, const char *name, size_t *length)
{
    const char *at = strstr(parameters, name);
    if (!at || (at > parameters && at[-1] != ' ')) return NULL;
    at += strlen(name);
    *length = !strcmp(name, "FORMAT=") ? strlen(at) : strcspn(at, " ");
    return at;
}

static void define(const char *parameters, const char *name, sp_text *out)
{
    size_t n;
    const char *value = value_of(parameters, name, &n);
    if (value) sp_text_printf(out, "#define %.*s %.*s\n", (int)strlen(name) - 1, name, (int)n, value);
}

sparta_status sp_implement_write_stored(const char *parameters, sp_target target, sp_text *out)
{
    size_t n = 0, format_n = 0;
    const char *format = value_of(parameters, "FORMAT=", &format_n),
               *kernel = value_of(parameters, "KERNEL=", &n);
    char words[SP_KERNEL_TEXT];
    if (!format || n >= sizeof words)
        return sp_fail(out->cx, SPARTA_E_INTERNAL, "implement: kernel stored without a format");
    if (kernel) memcpy(words, kernel, n), words[n] = 0;
    define(parameters, "EPILOGUE=", out);
    define(parameters, "STAT=", out);
    const char *user = value_of(parameters, "USER=", &n);
    if (user) return sp_implement_write_user(user, n, target, out);
    return write_for(out->cx, format, kernel ? words : NULL, target, out);
}

sparta_status sp_implement_ask(sparta_ctx *cx, const char *format, const char *kernel, sp_target target,
                               sp_task *t)
{
    const char *compiler = sp_ctx_options_of(cx)->compiler;
    t->format = format;
    t->kernel = kernel;
    t->special = false;
    if (!kernel && (target == SP_TARGET_PORTABLE || (compiler && !*compiler))) return SPARTA_OK;
    const sparta_status s = write_for(cx, format, kernel, target, NULL);
    t->special = s == SPARTA_OK;
    if (s == SPARTA_OK || kernel || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    sp_ctx_clear(cx); /* no levels, or too many parts: the walker's */
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the row */
static bool match_stored(const sp_task *t)
{
    return t->format && t->special && !t->strict && sp_linear_match(t);
}

/* Scattered weights cost what they do the walker; where they come in blocks of rows, a row of tokens is loaded once for all of a block. A row of results is
 * written and gone over once more. */
static double cost_stored(const sp_task *t)
{
    return sp_linear_present(t) * (t->strip_fill < 2 ? 1.1 : 2) + (double)t->n * 16;
}

static void parameters(const sp_implement *im, const sp_task *t, sp_text *out)
{
    (void)im;
    sp_linear_epilogue(t, out);
    if (t->kernel) sp_text_printf(out, " KERNEL=%s", t->kernel);
    sp_text_printf(out, " FORMAT=%s", t->format);
}

const sp_implement sp_implement_generated_linear = {.name = "generated_linear",
                                                    .sparse = true,
                                                    .kernel = "stored",
                                                    .match = match_stored,
                                                    .cost = cost_stored,
                                                    .parameters = parameters,
                                                    .format = "$ASKED"};
