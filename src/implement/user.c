/* user: a Linear whose sums are computed by C text of a user's. Kernel stored (panel/kernel_stored.h) ends them as every product ends, so that bias,
 * epilogue and statistics are no matter of the text.
 *
 *     name: rows                       the first comment of a file, "sparta kernel", says what it serves
 *     op: Linear
 *     format: csr
 *     when: density < 0.2, k <= 4096
 *
 *     static void product(const struct sparta_product *p) { ... }
 *
 * Kernels that a context has registered are points of this one row, USER=0, USER=1, ...: each competes on the bed where its format holds the weight
 * and its conditions hold, is checked there, and timed. Texts are part of the key of what is remembered, because that has the digest of all
 * that is compiled. The package has code and text; where no code fits the machine, the walker takes the format.
 */
#include "file/file.h"
#include "implement/generated.h"
#include "implement/linear.h"
#include "panel/called.h"
#include "special/special.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, CONDITIONS = 8, TEXT_LIMIT = 1 << 20 };

typedef enum { OF_N, OF_K, OF_TOKENS, OF_DENSITY, WORDS } word;
static const char *const words[WORDS] = {"n", "k", "tokens", "density"};
static const char *const signs[] = {"<=", ">=", "==", "<", ">"};
typedef struct condition {
    word of;
    long modulus; /* 0: none */
    int sign;
    double than;
} condition;

typedef struct user_kernel {
    const char *name, *format, *text;
    int conditions;
    condition condition[CONDITIONS];
} user_kernel;

struct sp_user_kernels { /* of a context: SP_SLOT_KERNELS */
    sp_arena *arena;
    int n;
    user_kernel kernel[MOST];
};

/* ------------------------------------------------------------------ conditions */
static sparta_status bad_condition(sparta_ctx *cx, const char *name, const char *at)
{
    return sp_fail(cx, SPARTA_E_USAGE,
                   "kernel %s: when \"%.40s\": say n, k, tokens or density, then <, <=, ==, >= or >, then a "
                   "number; n%%4 == 0 too; commas between several",
                   name, at);
}

static const char *skip(const char *p)
{
    return p + strspn(p, " \t");
}

static sparta_status read_condition(sparta_ctx *cx, const char *name, const char **p, condition *out)
{
    const char *const begin = skip(*p);
    const size_t n = strspn(begin, "abcdefghijklmnopqrstuvwxyz");
    char *end;
    *out = (condition){.of = WORDS, .sign = -1};
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i]) == n && !strncmp(words[i], begin, n)) out->of = (word)i;
    const char *at = skip(begin + n);
    if (*at == '%' && out->of != OF_DENSITY) {
        out->modulus = strtol(at + 1, &end, 10);
        if (end == at + 1 || out->modulus < 1) return bad_condition(cx, name, begin);
        at = skip(end);
    }
    for (int i = SP_COUNT(signs); i-- > 0;)
        if (!strncmp(signs[i], at, strlen(signs[i]))) out->sign = i; /* the longer ones come first */
    if (out->of == WORDS || out->sign < 0) return bad_condition(cx, name, begin);
    at = skip(at + strlen(signs[out->sign]));
    out->than = strtod(at, &end);
    if (end == at || !isfinite(out->than)) return bad_condition(cx, name, begin);
    *p = skip(end);
    return SPARTA_OK;
}

static sparta_status read_conditions(sparta_ctx *cx, const char *text, user_kernel *k)
{
    for (const char *p = skip(text ? text : ""); *p;) {
        if (k->conditions == CONDITIONS)
            return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: more than %d conditions", k->name, CONDITIONS);
        SP_TRY(read_condition(cx, k->name, &p, &k->condition[k->conditions++]));
        if (*p && *p != ',') return bad_condition(cx, k->name, p);
        p = skip(*p ? p + 1 : p);
    }
    return SPARTA_OK;
}

static bool holds(const condition *c, const sp_task *t)
{
    const double present = sp_linear_present(t) / sp_linear_all(t);
    const int64_t whole = c->of == OF_N ? t->n : c->of == OF_K ? t->k : t->tokens;
    const double is = c->of == OF_DENSITY ? present : (double)(c->modulus ? whole % c->modulus : whole);
    switch (c->sign) {
    case 0: return is <= c->than;
    case 1: return is >= c->than;
    case 2: return is == c->than;
    case 3: return is < c->than;
    default: return is > c->than;
    }
}

/* ------------------------------------------------------------------ the text */
static const char abi[] =
    "/* What a kernel of one's own is given: the sums of all n outputs for some tokens. */\n"
    "struct sparta_product {\n"
    "    const float *x; /* input j of token t: x[64 * j + t] */\n"
    "    float *y;       /* output i of token t: y[64 * i + t], to be written */\n"
    "    long n, k, tokens; /* tokens: 16, 32, 48 or 64 */\n"
    "    const struct sp_stored_leaf *part; /* of the format: w, pos[level], crd[level], "
    "size[level] */\n"
    "};\n"
    "static void product(const struct sparta_product *p);\n";
static const char call[] = "\nINLINE void stored_sums(const struct sp_stored_args *p)\n{\n"
                           "    product(&(struct sparta_product){p->x + 16 * p->vector0, p->e.y + 16 * "
                           "p->vector0, p->n, p->k, 16 * p->vectors, p->leaf});\n}\n\n";

static sparta_status write(const user_kernel *k, sp_target target, sp_text *out)
{
    SP_TRY(sp_special_head(target, out));
    SP_TRY(sp_panel_head(out));
    sp_text_printf(out, "%s#line 1 \"%s\"\n%s\n#line 1 \"kernel\"\n%s", abi, k->name, k->text, call);
    return sp_panel_body("stored", out);
}

static const user_kernel *find(const struct sp_user_kernels *all, const char *name, size_t length)
{
    for (int i = 0; all && i < all->n; i++)
        if (strlen(all->kernel[i].name) == length && !strncmp(all->kernel[i].name, name, length))
            return &all->kernel[i];
    return NULL;
}

sparta_status sp_implement_write_user(const char *name, size_t length, sp_target target, sp_text *out)
{
    const user_kernel *k = find(sp_ctx_slot(out->cx, SP_SLOT_KERNELS), name, length);
    if (!k)
        return sp_fail(out->cx, SPARTA_E_USAGE, "kernel %.*s: it is not registered with this context",
                       (int)length, name);
    return write(k, target, out);
}

/* ------------------------------------------------------------------ registering */
static sparta_status check_spec(sparta_ctx *cx, const sparta_kernel *q, sp_format *f)
{
    if (!sp_called_is_name(q->name))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "kernel: its name is \"%.40s\"; give letters, digits and _, at most 32",
                       q->name ? q->name : "");
    if (sp_implement_find(q->name))
        return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: a kernel of ours has that name; take another",
                       q->name);
    if (q->op && strcmp(q->op, "Linear"))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "kernel %s: of operator %.40s; kernels of one's own run Linear", q->name, q->op);
    if (!q->text || !q->format)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel %s: give its %s", q->name, q->text ? "format" : "text");
    if (sp_format_parse(cx, q->format, f)) return sp_fail_in(cx, "kernel %s", q->name);
    if (f->opaque || (!f->sum && f->rank != 2))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "kernel %s: %.100s is no format of levels of a matrix",
                       q->name, q->format);
    return SPARTA_OK;
}

/* Does it compile? For the best target of this machine, without anything at its end. */
static sparta_status build(sparta_ctx *cx, const user_kernel *k)
{
    const sp_object *object = NULL;
    sp_text text;
    sp_text_init(&text, cx);
    sp_text_printf(&text, "#define EPILOGUE v\n#define STAT 0\n");
    sparta_status s = write(k, sp_target_best(SP_DEVICE_CPU), &text);
    if (!s) s = sp_jit_get(cx, sp_target_best(SP_DEVICE_CPU), sp_text_str(&text), &object, NULL);
    sp_text_free(&text);
    if (object) sp_jit_close(object);
    return s ? sp_fail_in(cx, "kernel %s", k->name) : SPARTA_OK;
}

static void forget(sparta_ctx *cx, void *thing)
{
    sp_arena_free(((struct sp_user_kernels *)thing)->arena);
    sp_free(cx, thing);
}

static struct sp_user_kernels *registry(sparta_ctx *cx)
{
    struct sp_user_kernels *all = sp_ctx_make_slot(cx, SP_SLOT_KERNELS, sizeof *all, forget);
    if (all && !all->arena) all->arena = sp_arena_create(cx);
    return all && all->arena ? all : NULL;
}

sparta_status sparta_kernel_register(sparta_ctx *cx, const sparta_kernel *kernel)
{
    sparta_kernel q;
    sp_format f;
    SP_TRY(sp_options(cx, "kernel", kernel, &q, sizeof q));
    SP_TRY(check_spec(cx, &q, &f));
    struct sp_user_kernels *all = registry(cx);
    SP_NEED(cx, all);
    if (find(all, q.name, strlen(q.name)) || sp_called_place(cx, q.name) >= 0 || all->n == MOST)
        return sp_fail(cx, SPARTA_E_USAGE,
                       all->n == MOST ? "kernel %s: a context has %d of them at most"
                                      : "kernel %s: there is one of that name",
                       q.name, MOST);
    user_kernel k = {sp_arena_string(all->arena, q.name),
                     sp_arena_string(all->arena, q.format),
                     sp_arena_string(all->arena, q.text),
                     0,
                     {{0}}};
    if (!k.name || !k.format || !k.text) return sp_ctx_status(cx);
    SP_TRY(read_conditions(cx, q.when, &k));
    SP_TRY(build(cx, &k));
    all->kernel[all->n++] = k;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ from a file */
/* "name: value" of one line of the comment, into the field of that name. */
static sparta_status read_line(sparta_ctx *cx, const char *path, char *line, sparta_kernel *q)
{
    const struct {
        const char *name;
        const char **to;
    } field[] = {{"name", &q->name}, {"op", &q->op}, {"format", &q->format}, {"when", &q->when}};
    char *p = line + strspn(line, " \t*\r"), *colon = strchr(p, ':');
    if (!*p) return SPARTA_OK;
    for (size_t i = 0; colon && i < SP_COUNT(field); i++)
        if ((size_t)(colon - p) == strlen(field[i].name) &&
            !strncmp(field[i].name, p, strlen(field[i].name)) && !*field[i].to) {
            char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
            while (end > value && strchr(" \t\r", end[-1])) *--end = 0;
            *field[i].to = value;
            return SPARTA_OK;
        }
    return sp_fail(cx, SPARTA_E_FORMAT,
                   "%s: \"%.60s\" in its first comment; that has name, op, format and when, once each, as "
                   "\"name: value\"",
                   path, p);
}

static sparta_status read_head(sparta_ctx *cx, const char *path, char *head, sparta_kernel *q)
{
    static const char mark[] = "/* sparta kernel";
    char *end = strstr(head, "*/");
    if (strncmp(head, mark, sizeof mark - 1) || !end)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: begins with no comment \"%s\"; docs/kernels.md shows one",
                       path, mark);
    *end = 0;
    for (char *line = head + sizeof mark - 1; line;) {
        char *next = strchr(line, '\n');
        if (next) *next++ = 0;
        SP_TRY(read_line(cx, path, line, q));
        line = next;
    }
    return SPARTA_OK;
}

sparta_status sparta_kernel_open(sparta_ctx *cx, const char *path)
{
    sparta_kernel q = SPARTA_OPTIONS(sparta_kernel);
    char *text = NULL, *head = NULL;
    size_t n;
    SP_TRY(sp_file_read(cx, path, TEXT_LIMIT, &text, &n));
    sparta_status s = SPARTA_OK;
    if (strlen(text) != n) s = sp_fail(cx, SPARTA_E_FORMAT, "%s: it is no text", path);
    if (!s) {
        head = sp_alloc(cx, n + 1);
        s = head ? SPARTA_OK : sp_ctx_status(cx);
    }
    if (!s) {
        memcpy(head, text, n + 1);
        s = read_head(cx, path, head, &q);
        q.text = text;
    }
    if (!s && sparta_kernel_register(cx, &q)) s = sp_fail_in(cx, "%s", path);
    sp_free(cx, head);
    sp_free(cx, text);
    return s;
}

/* ------------------------------------------------------------------ the row */
/* Can the weight be stored so, in not too much? */
sparta_status sp_implement_storable(sparta_ctx *cx, const char *format, const sparta_tensor *w,
                                    const sp_mask *mask, bool *out)
{
    sp_format f;
    sp_store_stats stats;
    sparta_status s = sp_format_parse(cx, format, &f);
    if (!s) s = sp_format_check(cx, &f, 2, w->dim);
    if (!s) s = sp_store_measure(cx, &f, w, mask, &stats);
    if (!s) s = sp_store_within(cx, &f, &stats, 0);
    *out = !s;
    if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    if (s) sp_ctx_clear(cx);
    return SPARTA_OK;
}

sparta_status sp_implement_users(sparta_ctx *cx, const sparta_tensor *w, sp_task *t)
{
    const struct sp_user_kernels *all = sp_ctx_slot(cx, SP_SLOT_KERNELS);
    t->user = all;
    for (int i = 0; all && i < all->n; i++) {
        bool fit = true;
        for (int c = 0; c < all->kernel[i].conditions; c++) fit &= holds(&all->kernel[i].condition[c], t);
        if (fit) SP_TRY(sp_implement_storable(cx, all->kernel[i].format, w, t->mask, &fit));
        if (fit) t->users |= 1u << i;
    }
    return sp_implement_functions(cx, w, t);
}

int sp_implement_place(const sp_task *t, const char *knob, unsigned which)
{
    return (int)sp_point_get(t->point, knob, which ? __builtin_ctz(which) : 0);
}

static int place(const sp_task *t)
{
    return sp_implement_place(t, "USER", t->users);
}

static bool allowed(const sp_task *t)
{
    return t->users >> place(t) & 1;
}

static bool match(const sp_task *t)
{
    return t->users && allowed(t) && !t->strict && sp_linear_match(t);
}

double sp_implement_user_cost(const sp_task *t)
{
    return sp_linear_present(t) + (double)t->n * 12;
}

/* A row that is asked for and has nothing to run says so without falling over. */
static const user_kernel *kernel_of(const sp_task *t)
{
    static const user_kernel nothing = {.name = "", .format = "csr", .text = ""};
    return t->user && place(t) < t->user->n ? &t->user->kernel[place(t)] : &nothing;
}

const sp_implement *sp_implement_user_find(sparta_ctx *cx, const char *name, int *place)
{
    const struct sp_user_kernels *all = sp_ctx_slot(cx, SP_SLOT_KERNELS);
    const user_kernel *k = find(all, name, strlen(name));
    *place = k ? (int)(k - all->kernel) : sp_called_place(cx, name);
    return k ? &sp_implement_user : *place >= 0 ? &sp_implement_user_function : NULL;
}

const char *sp_implement_user_name(const sp_implement *im, const sp_task *t)
{
    return im == &sp_implement_user ? kernel_of(t)->name : sp_implement_function_name(im, t);
}

const char *sp_implement_user_format(const sp_task *t)
{
    return kernel_of(t)->format;
}

static void parameters(const sp_implement *im, const sp_task *t, sp_text *out)
{
    (void)im;
    sp_linear_epilogue(t, out);
    sp_text_printf(out, " USER=%s FORMAT=%s", kernel_of(t)->name, kernel_of(t)->format);
}

static const int places[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
static const sp_knob knobs[] = {{"USER", MOST, places, NULL}};
static const sp_space space = {SP_COUNT(knobs), knobs, allowed};

const sp_implement sp_implement_user = {.name = "user",
                                        .sparse = true,
                                        .kernel = "stored",
                                        .match = match,
                                        .cost = sp_implement_user_cost,
                                        .parameters = parameters,
                                        .format = "$USER",
                                        .space = &space};
