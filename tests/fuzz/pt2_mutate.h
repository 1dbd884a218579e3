/* Mutations of programs of torch.export that know their tokens. The text is JSON (pt2_program.h): numbers become those that break programs, names
 * other names of the program, operators others of aten.def or their twins in place, types others; objects of a list go, come twice, change
 * places; a call gets an argument more, and a node is put into an edge. Bytes that are no such text are left to libFuzzer, as is one in
 * sixteen that is. */
#ifndef SP_TESTS_FUZZ_PT2_MUTATE_H
#define SP_TESTS_FUZZ_PT2_MUTATE_H

#include "operators.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { PROGRAM_BYTES = 1 << 17, WORD_BYTES = 256 };

typedef struct program {
    uint64_t state;
    size_t n, most;
    char text[PROGRAM_BYTES];
} program;

typedef struct span {
    size_t at, n; /* n is 0 where there is none */
} span;

static const char *const overloads[] = {
#define SP_ATEN(overload, build, op)      overload,
#define SP_ATEN_VIEW(overload, build, op) overload,
#include "import/aten.def"
#undef SP_ATEN
#undef SP_ATEN_VIEW
};
enum { OVERLOADS = sizeof overloads / sizeof *overloads };

/* ------------------------------------------------------------------ the text */

static inline bool put_text(program *p, span old, const char *by, size_t n)
{
    if (p->n - old.n + n > p->most) return false;
    memmove(p->text + old.at + n, p->text + old.at + old.n, p->n - old.at - old.n);
    memcpy(p->text + old.at, by, n);
    p->n = p->n - old.n + n;
    return true;
}

static inline bool put_word(program *p, span old, const char *by)
{
    return put_text(p, old, by, strlen(by));
}

/* Where one of the places lies that begin with `word`; what follows it. 0: nowhere. */
static inline size_t find_some(program *p, const char *word)
{
    const size_t k = strlen(word);
    unsigned seen = 0;
    size_t found = 0;
    for (const char *s = p->text, *end = p->text + p->n; (s = memmem(s, (size_t)(end - s), word, k)); s += k)
        if (odd_roll(&p->state, ++seen) == 0) found = (size_t)(s - p->text) + k;
    return found;
}

/* What is in the quotes from there. */
static inline span string_at(const program *p, size_t at)
{
    const char *end = memchr(p->text + at, '"', p->n - at);
    return (span){at, end ? (size_t)(end - p->text) - at : 0};
}

static inline span number_at(const program *p, size_t at)
{
    size_t n = 0;
    while (at + n < p->n && (isalnum((unsigned char)p->text[at + n]) || strchr("+-.", p->text[at + n])) &&
           p->text[at + n])
        n++;
    return (span){at, n};
}

/* From a '{' or '[' to what closes it; brackets in strings do not count. */
static inline span object_at(const program *p, size_t at)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = at; i < p->n; i++) {
        const char c = p->text[i];
        if (c == '\\') i++;
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && --depth <= 0) return (span){at, i + 1 - at};
    }
    return (span){at, 0};
}

/* ------------------------------------------------------------------ single tokens */

static inline bool change_number(program *p)
{
    char word[32];
    unsigned seen = 0;
    size_t at = 0;
    for (size_t i = 1; i + 1 < p->n; i++)
        if ((isdigit((unsigned char)p->text[i]) || p->text[i] == '-') && strchr(":,[(", p->text[i - 1]) &&
            odd_roll(&p->state, ++seen) == 0)
            at = i;
    if (!at) return false;
    const span old = number_at(p, at);
    if (memchr(p->text + at, '.', old.n))
        snprintf(word, sizeof word, "%g", (double)odd_float(&p->state));
    else
        snprintf(word, sizeof word, "%lld", (long long)odd_int(&p->state));
    return old.n && put_word(p, old, word);
}

static inline bool change_bool(program *p)
{
    const bool yes = odd_roll(&p->state, 2);
    const size_t k = yes ? 4 : 5, at = find_some(p, yes ? ":true" : ":false");
    return at && put_word(p, (span){at - k, k}, yes ? "false" : "true");
}

static inline void write_target(program *p, char word[WORD_BYTES])
{
    const char *name = overloads[odd_roll(&p->state, OVERLOADS)], *dot = strrchr(name, '.');
    const bool plain = !strncmp(name, "_operator", 9) || !strncmp(name, "torch.", 6);
    const bool in_place = !plain && odd_roll(&p->state, 8) == 0;
    snprintf(word, WORD_BYTES, "%s%.*s%s%s", plain ? "" : "torch.ops.", (int)(dot - name), name,
             in_place ? "_" : "", dot);
}

static inline bool change_target(program *p)
{
    char word[WORD_BYTES];
    const size_t at = find_some(p, "\"target\":\"");
    write_target(p, word);
    return at && put_word(p, string_at(p, at), word);
}

/* The overload is called in place, or no longer. */
static inline bool turn_in_place(program *p)
{
    const size_t at = find_some(p, "\"target\":\"torch.ops.aten.");
    const char *dot = at ? memchr(p->text + at, '.', p->n - at) : NULL;
    if (!dot) return false;
    const size_t end = (size_t)(dot - p->text);
    return dot[-1] == '_' ? put_word(p, (span){end - 1, 1}, "") : put_word(p, (span){end, 0}, "_");
}

static inline bool copy_word(program *p, size_t to, size_t from)
{
    char word[WORD_BYTES];
    if (!to || !from) return false;
    const span w = string_at(p, from);
    if (w.n >= sizeof word) return false;
    memcpy(word, p->text + w.at, w.n);
    return put_text(p, string_at(p, to), word, w.n);
}

static inline bool change_edge(program *p)
{
    static const char tensor[] = "\"as_tensor\":{\"name\":\"";
    return copy_word(p, find_some(p, tensor), find_some(p, tensor));
}

static inline bool change_size_name(program *p)
{
    return copy_word(p, find_some(p, "\"as_name\":\""), find_some(p, "\"as_name\":\""));
}

static inline bool change_dtype(program *p)
{
    static const char *const code[] = {"1",  "2",  "3",  "4",  "5",  "6", "7", "7",
                                       "12", "13", "28", "34", "35", "0", "9", "8"};
    const size_t at = find_some(p, odd_roll(&p->state, 3) ? "\"dtype\":" : "\"as_scalar_type\":");
    return at && put_word(p, number_at(p, at), code[odd_roll(&p->state, 16)]);
}

/* Arguments are called otherwise, or say what another does. */
static inline bool change_argument(program *p)
{
    const bool called = odd_roll(&p->state, 2);
    const size_t to = find_some(p, called ? "{\"name\":\"" : "\"arg\":"),
                 from = find_some(p, called ? "{\"name\":\"" : "\"arg\":");
    char word[WORD_BYTES];
    if (called) return copy_word(p, to, from);
    if (!to || !from) return false;
    const span w = object_at(p, from);
    if (!w.n || w.n >= sizeof word) return false;
    memcpy(word, p->text + w.at, w.n);
    return put_text(p, object_at(p, to), word, w.n);
}

static inline bool add_argument(program *p)
{
    /* clang-format off */
    static const char *const name[] = {
        "dim", "keepdim", "alpha", "beta", "start", "end", "step", "size", "dtype", "min", "max", "rounding_mode", "approximate", "value",
        "is_causal", "enable_gqa", "attn_mask", "scale", "weight", "bias", "eps", "stride", "padding", "dilation", "groups", "ceil_mode",
        "count_include_pad", "output_padding", "align_corners", "largest", "sorted", "mode", "dims", "other"};
    static const char *const kind[] = {
        "{\"as_int\":%lld}", "{\"as_ints\":[%lld]}", "{\"as_ints\":[1,%lld]}", "{\"as_float\":%lld.5}", "{\"as_bool\":true}", "{\"as_none\":true}",
        "{\"as_string\":\"floor\"}", "{\"as_string\":\"tanh\"}", "{\"as_scalar_type\":%lld}"};
    /* clang-format on */
    char word[WORD_BYTES], arg[96];
    const size_t at = find_some(p, "\"inputs\":[{\"name\":");
    if (!at) return false;
    const int k = (int)odd_roll(&p->state, sizeof kind / sizeof *kind);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(arg, sizeof arg, kind[k], (long long)odd_int(&p->state));
#pragma GCC diagnostic pop
    const int n = snprintf(word, sizeof word, "{\"name\":\"%s\",\"arg\":%s},",
                           name[odd_roll(&p->state, sizeof name / sizeof *name)], arg);
    return put_text(p, (span){at - strlen("{\"name\":"), 0}, word, (size_t)n);
}

/* ------------------------------------------------------------------ objects */

/* One object of a list: what stands behind "[" or "},". */
static inline span some_object(program *p)
{
    static const char *const before[] = {"[", "},", "\"nodes\":["};
    const size_t at = find_some(p, before[odd_roll(&p->state, 3)]);
    return at && at < p->n && p->text[at] == '{' ? object_at(p, at) : (span){0, 0};
}

static inline bool remove_object(program *p)
{
    span o = some_object(p);
    if (!o.n) return false;
    if (o.at + o.n < p->n && p->text[o.at + o.n] == ',')
        o.n++;
    else if (p->text[o.at - 1] == ',')
        o.at--, o.n++;
    return put_word(p, o, "");
}

static inline bool copy_object(program *p)
{
    static char copy[PROGRAM_BYTES];
    const span o = some_object(p), to = odd_roll(&p->state, 2) ? o : some_object(p);
    if (!o.n || !to.n) return false;
    memcpy(copy, p->text + o.at, o.n);
    copy[o.n] = ',';
    return put_text(p, (span){to.at, 0}, copy, o.n + 1);
}

/* The object and the one behind it. */
static inline bool swap_objects(program *p)
{
    static char other[PROGRAM_BYTES];
    const span a = some_object(p);
    if (!a.n || a.at + a.n + 1 >= p->n || p->text[a.at + a.n] != ',' || p->text[a.at + a.n + 1] != '{')
        return false;
    const span b = object_at(p, a.at + a.n + 1);
    if (!b.n) return false;
    memcpy(other, p->text + b.at, b.n);
    other[b.n] = ',';
    memcpy(other + b.n + 1, p->text + a.at, a.n);
    return put_text(p, (span){a.at, a.n + 1 + b.n}, other, a.n + 1 + b.n);
}

/* ------------------------------------------------------------------ a node in an edge */

static inline bool add_node(program *p)
{
    char from[64], made[24], target[WORD_BYTES], text[4 * WORD_BYTES], meta[2 * WORD_BYTES];
    static const char *const plain[] = {"relu",   "tanh",  "sigmoid", "exp",    "abs", "neg", "gelu",  "silu",
                                        "square", "clone", "alias",   "detach", "t",   "erf", "isnan", "sum"};
    const size_t node = find_some(p, "{\"target\":\"") - strlen("{\"target\":\"");
    const span all = node < p->n ? object_at(p, node) : (span){0, 0};
    if (!all.n) return false;
    const char *read = memmem(p->text + node, all.n, "\"as_tensor\":{\"name\":\"", 21);
    const span edge = read ? string_at(p, (size_t)(read - p->text) + 21) : (span){0, 0};
    if (!edge.n || edge.n >= sizeof from - 16) return false;
    snprintf(from, sizeof from, "%.*s", (int)edge.n, p->text + edge.at);
    snprintf(made, sizeof made, "n%x", odd_roll(&p->state, 1u << 20));
    if (odd_roll(&p->state, 4))
        snprintf(target, sizeof target, "torch.ops.aten.%s.default", plain[odd_roll(&p->state, 16)]);
    else
        write_target(p, target);
    /* What it makes has the type of what it reads. */
    snprintf(text, sizeof text, "\"%s\":{\"dtype\"", from);
    const char *type = memmem(p->text, p->n, text, strlen(text));
    const span of = type ? object_at(p, (size_t)(type - p->text) + strlen(from) + 3) : (span){0, 0};
    if (!of.n || of.n + 32 > sizeof meta) return false;
    snprintf(meta, sizeof meta, "\"%s\":%.*s,", made, (int)of.n, p->text + of.at);
    const size_t types = (size_t)(type - p->text);
    snprintf(text, sizeof text,
             "{\"target\":\"%s\",\"inputs\":[{\"name\":\"self\",\"arg\":{\"as_tensor\":{\"name\":\"%s\"}}}],"
             "\"outputs\":[{\"as_tensor\":{\"name\":\"%s\"}}],\"metadata\":{},\"name\":\"%s\"},",
             target, from, made, made);
    /* The later place first, so that the earlier ones stay. */
    if (types < node || !put_word(p, (span){types, 0}, meta)) return false;
    return put_word(p, edge, made) && put_word(p, (span){node, 0}, text);
}

/* ------------------------------------------------------------------ one mutation */

static bool (*const changes[])(program *) = {
    change_number, change_number,   change_number, change_bool,  change_target,
    change_target, turn_in_place,   change_edge,   change_edge,  change_size_name,
    change_dtype,  change_argument, add_argument,  add_argument, remove_object,
    copy_object,   swap_objects,    add_node,      add_node,
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static program p;
    p.state = seed;
    p.n = size;
    p.most = most < PROGRAM_BYTES / 2 ? most : PROGRAM_BYTES / 2;
    if (!size || *data != '{' || size > p.most || odd_roll(&p.state, 16) == 0)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(p.text, data, size);
    unsigned count = 1 + odd_roll(&p.state, 3), done = 0;
    for (unsigned tries = 0; done < count && tries < 32; tries++)
        done += changes[odd_roll(&p.state, sizeof changes / sizeof *changes)](&p);
    if (!done) return LLVMFuzzerMutate(data, size, most);
    memcpy(data, p.text, p.n);
    return p.n;
}

#endif
