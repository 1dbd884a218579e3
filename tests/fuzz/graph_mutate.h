/* Mutations of the text form of graphs that know its tokens: numbers become those that break programs, names become other names of the
 * graph, operators others; a node is put into an edge, with attributes of its own; constants get zeros in slices; lines go, come twice,
 * change places. One in sixteen is left to libFuzzer. */
#ifndef SP_TESTS_FUZZ_GRAPH_MUTATE_H
#define SP_TESTS_FUZZ_GRAPH_MUTATE_H

#include "operators.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { TEXT_LINES = 2048, TEXT_BYTES = 1 << 20, LINE_BYTES = 1 << 14 };
typedef struct line {
    const char *at;
    size_t n;
} line;
typedef struct text {
    uint64_t state;
    int n;
    line line[TEXT_LINES];
    size_t used;
    char bytes[TEXT_BYTES];
} text;

/* ------------------------------------------------------------------ tokens */
static inline bool is_token(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '%' || c == '-' || c == '+';
}

/* One of the tokens of a line, each as likely as another; n is 0 where there is none. From `from` bytes on. */
static inline line pick_token(text *t, line l, size_t from)
{
    line found = {l.at, 0};
    unsigned seen = 0;
    for (size_t i = from; i < l.n;) {
        size_t n = 0;
        while (i + n < l.n && is_token(l.at[i + n])) n++;
        if (n && odd_roll(&t->state, ++seen) == 0) found = (line){l.at + i, n};
        i += n + 1;
    }
    return found;
}

static inline line pick_line(text *t, int *at)
{
    *at = (int)odd_roll(&t->state, (unsigned)t->n);
    return t->line[*at];
}

/* The name that some line defines: its second token. */
static inline line some_name(text *t)
{
    int at;
    line l = pick_line(t, &at);
    size_t i = 0, n = 0;
    while (i < l.n && is_token(l.at[i])) i++;
    while (i < l.n && !is_token(l.at[i])) i++;
    while (i + n < l.n && is_token(l.at[i + n])) n++;
    return (line){l.at + i, n};
}

/* The line with other bytes in place of a token of it. */
static inline line with(text *t, line l, line token, const char *by, size_t n)
{
    size_t before = (size_t)(token.at - l.at), after = l.n - before - token.n;
    if (before + n + after > LINE_BYTES || t->used + LINE_BYTES > TEXT_BYTES) return l;
    char *to = t->bytes + t->used;
    memcpy(to, l.at, before);
    memcpy(to + before, by, n);
    memcpy(to + before + n, token.at + token.n, after);
    t->used += before + n + after;
    return (line){to, before + n + after};
}

static inline bool insert_line(text *t, int at, line l)
{
    if (t->n == TEXT_LINES) return false;
    memmove(t->line + at + 1, t->line + at, (size_t)(t->n - at) * sizeof *t->line);
    t->line[at] = l;
    t->n++;
    return true;
}

/* ------------------------------------------------------------------ changes */
static inline bool change_token(text *t)
{
    int at;
    char word[32];
    line l = pick_line(t, &at), token = pick_token(t, l, 4), name = some_name(t);
    if (!token.n) return false;
    const char *by = word, *end = token.at + token.n;
    if (isdigit((unsigned char)*token.at) || *token.at == '-') {
        if (memchr(token.at, '.', token.n))
            snprintf(word, sizeof word, "%g", (double)odd_float(&t->state));
        else
            snprintf(word, sizeof word, "%lld", (long long)odd_int(&t->state));
    } else if (end < l.at + l.n && *end == '(')
        by = operators[odd_roll(&t->state, OPERATORS)].name;
    else {
        t->line[at] = with(t, l, token, name.at, name.n);
        return true;
    }
    t->line[at] = with(t, l, token, by, strlen(by));
    return true;
}

static inline bool change_numbers(text *t)
{
    for (unsigned i = 1 + odd_roll(&t->state, 3); i > 0; i--) (void)change_token(t);
    return true;
}

/* Zeros where the elements of a constant fall into some of 16 slices. */
static inline bool mask_constant(text *t)
{
    int at;
    line l = pick_line(t, &at);
    unsigned slices = odd_roll(&t->state, 1u << 16), inner = 1 + odd_roll(&t->state, 8), seen = 0;
    const char *list = l.n > 5 && !memcmp(l.at, "const", 5) ? memchr(l.at, '=', l.n) : NULL;
    if (!list || t->used + l.n > TEXT_BYTES) return false;
    char *to = t->bytes + t->used, *out = to;
    for (const char *p = l.at; p < l.at + l.n;) {
        size_t n = 0;
        while (p + n < l.at + l.n && is_token(p[n])) n++;
        bool zero = p > list && n && slices >> (seen++ / inner % 16) & 1;
        if (zero)
            *out++ = '0';
        else
            out = (char *)memcpy(out, p, n) + n;
        p += n;
        if (p < l.at + l.n) *out++ = *p++;
    }
    t->line[at] = (line){to, (size_t)(out - to)};
    t->used += (size_t)(out - to);
    return true;
}

static inline void add_attribute(text *t, const char *op, char *to, size_t size)
{
    unsigned from = odd_roll(&t->state, ATTRIBUTES), i = from;
    do i = (i + 1) % ATTRIBUTES;
    while (i != from && strcmp(attributes[i].op, op));
    long long a = odd_int(&t->state), b = odd_int(&t->state);
    double f = (double)odd_float(&t->state);
    int type = attributes[i].type;
    const char *name = attributes[i].name;
    *to = 0;
    if (type == TYPE_INT) snprintf(to, size, " {%s=%lld}", name, a);
    if (type == TYPE_INTS) snprintf(to, size, " {%s=[%lld,%lld]}", name, a, b);
    if (type == TYPE_FLOAT) snprintf(to, size, " {%s=%g}", name, f);
    if (type == TYPE_STRING) snprintf(to, size, " {%s=\"%s\"}", name, odd_text(&t->state));
}

/* A node in front of another, which reads what it makes. */
static inline bool add_node(text *t)
{
    int at;
    char made[512], name[32], more[128] = "", in[256] = "";
    line reader = pick_line(t, &at);
    const char *open =
        reader.n > 4 && !memcmp(reader.at, "node", 4) ? memchr(reader.at, '(', reader.n) : NULL;
    line edge = open ? pick_token(t, reader, (size_t)(open - reader.at)) : (line){NULL, 0};
    unsigned op = odd_roll(&t->state, OPERATORS),
             spare = (unsigned)(operators[op].most - operators[op].least + 1);
    unsigned inputs =
        (unsigned)operators[op].least + (operators[op].most < 0 ? 1 : odd_roll(&t->state, spare));
    if (!edge.n || edge.n > 64) return false;
    snprintf(name, sizeof name, "%%n%x", odd_roll(&t->state, 1u << 16));
    for (unsigned i = 1; i < inputs && strlen(in) < sizeof in - 80; i++) {
        line x = some_name(t);
        if (x.n && x.n < 64) snprintf(in + strlen(in), sizeof in - strlen(in), ", %.*s", (int)x.n, x.at);
    }
    if (odd_roll(&t->state, 2)) add_attribute(t, operators[op].name, more, sizeof more);
    int n =
        snprintf(made, sizeof made, "node   %s: f32[1] = %s%s(%.*s%s)%s\n", name,
                 *operators[op].domain ? "sparta::" : "", operators[op].name, (int)edge.n, edge.at, in, more);
    line whole = with(t, (line){made, (size_t)n}, (line){made, 0}, "", 0);
    if (whole.at == made) return false; /* no room */
    t->line[at] = with(t, reader, edge, name, strlen(name));
    return insert_line(t, at, whole);
}

static inline bool move_lines(text *t)
{
    int a, b;
    line x = pick_line(t, &a), y = pick_line(t, &b);
    switch (odd_roll(&t->state, 3)) {
    case 0: t->line[a] = y, t->line[b] = x; return true;
    case 1: return insert_line(t, a, y);
    default:
        t->n--;
        memmove(t->line + a, t->line + a + 1, (size_t)(t->n - a) * sizeof *t->line);
        return true;
    }
}

/* An output is another value. */
static inline bool change_output(text *t)
{
    line name = some_name(t);
    char made[128];
    if (!name.n || name.n > 64) return false;
    int n = snprintf(made, sizeof made, "output %.*s\n", (int)name.n, name.at);
    line whole = with(t, (line){made, (size_t)n}, (line){made, 0}, "", 0);
    return whole.at != made && insert_line(t, t->n, whole);
}

/* ------------------------------------------------------------------ one mutation */
static inline void read_lines(text *t, const char *data, size_t size)
{
    t->n = 0;
    for (size_t i = 0; i < size && t->n < TEXT_LINES;) {
        const char *end = memchr(data + i, '\n', size - i);
        size_t n = end ? (size_t)(end - data) - i + 1 : size - i;
        t->line[t->n++] = (line){data + i, n};
        i += n;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static bool (*const changes[])(text *) = {change_token,  change_token,  change_token,  change_numbers,
                                              mask_constant, mask_constant, mask_constant, add_node,
                                              add_node,      move_lines,    change_output};
    static text t;
    static char copy[TEXT_BYTES];
    t.state = seed * 0x9e3779b97f4a7c15u + 1;
    t.used = 0;
    if (size < 8 || size > TEXT_BYTES || odd_roll(&t.state, 16) == 0)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(copy, data, size);
    read_lines(&t, copy, size);
    unsigned count = 1 + odd_roll(&t.state, 3);
    for (unsigned done = 0, tries = 0; done < count && tries < 32 && t.n; tries++)
        done += changes[odd_roll(&t.state, sizeof changes / sizeof *changes)](&t);
    size_t n = 0;
    for (int i = 0; i < t.n; i++) {
        if (n + t.line[i].n > most) return LLVMFuzzerMutate(data, size, most);
        memcpy(data + n, t.line[i].at, t.line[i].n);
        n += t.line[i].n;
    }
    return n ? n : LLVMFuzzerMutate(data, size, most);
}

#endif
