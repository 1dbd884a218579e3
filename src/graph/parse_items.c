/* parse_items.c: the small things of the text form: words, strings, numbers, lists, attributes. The text may
 * be hostile: a list is counted before memory is asked for, so that memory is bounded by the length of the
 * text, and nothing recurses. */
#include "graph/text.h"
#include <math.h>
#include <string.h>

sparta_status sp_graph_bad(sp_graph_reader *r, const char *what)
{
    char near[24] = "";
    for (int i = 0; i < 20 && r->at[i] && r->at[i] != '\n'; i++) near[i] = r->at[i] >= 32 ? r->at[i] : '?';
    return sp_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: %s near '%s'", r->line, what, near);
}

void sp_graph_skip(sp_graph_reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
}

bool sp_graph_eat(sp_graph_reader *r, char c)
{
    sp_graph_skip(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

sparta_status sp_graph_expect(sp_graph_reader *r, char c)
{
    char what[] = "expected ' '";
    what[10] = c;
    return sp_graph_eat(r, c) ? SPARTA_OK : sp_graph_bad(r, what);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string, escapes undone; -1: wrong, and then `at` stays. */
static int string_byte(const char **at)
{
    const char *s = *at;
    if ((unsigned char)*s < 32) return -1; /* the end of the text, too */
    if (*s != '\\') {
        *at = s + 1;
        return (unsigned char)*s;
    }
    if (s[1] == '"' || s[1] == '\\') {
        *at = s + 2;
        return s[1];
    }
    if (s[1] != 'x' || hex_digit(s[2]) < 0 || hex_digit(s[3]) < 0) return -1;
    int byte = hex_digit(s[2]) * 16 + hex_digit(s[3]);
    if (!byte) return -1;
    *at = s + 4;
    return byte;
}

sparta_status sp_graph_read_string(sp_graph_reader *r, const char **out)
{
    SP_TRY(sp_graph_expect(r, '"'));
    size_t raw = 0;
    while (r->at[raw] && r->at[raw] != '"' && r->at[raw] != '\n')
        raw += r->at[raw] == '\\' && r->at[raw + 1] ? 2 : 1;
    char *s = sp_arena_alloc(r->scratch, raw + 1);
    SP_NEED(r->cx, s);
    size_t n = 0;
    while (*r->at != '"') {
        int c = string_byte(&r->at);
        if (c < 0) return sp_graph_bad(r, "the string does not end or has a wrong escape");
        s[n++] = (char)c;
    }
    r->at++;
    *out = s;
    return SPARTA_OK;
}

sparta_status sp_graph_read_word(sp_graph_reader *r, const char **out)
{
    sp_graph_skip(r);
    size_t n = 0;
    while (sp_graph_word_byte(r->at[n], n == 0)) n++;
    if (!n) return sp_graph_bad(r, "expected a name");
    *out = sp_arena_bytes(r->scratch, r->at, n);
    SP_NEED(r->cx, *out);
    r->at += n;
    return SPARTA_OK;
}

sparta_status sp_graph_read_name(sp_graph_reader *r, const char **out)
{
    sp_graph_skip(r);
    return *r->at == '"' ? sp_graph_read_string(r, out) : sp_graph_read_word(r, out);
}

sparta_status sp_graph_read_dims(sp_graph_reader *r, sp_arena *arena, sp_dims *out)
{
    size_t n = strcspn(r->at, "]\n");
    if (r->at[n] != ']') return sp_graph_bad(r, "the dims do not end");
    char *text = sp_arena_bytes(r->scratch, r->at, n + 1);
    SP_NEED(r->cx, text);
    if (sp_dims_parse(arena, text, out) != SPARTA_OK) {
        sparta_status status = sp_ctx_status(r->cx); /* whatever is wrong with a text of ours is its form */
        if (status == SPARTA_E_MEMORY || status == SPARTA_E_LIMIT) return status;
        return sp_graph_bad(r, "the dims are wrong");
    }
    r->at += n + 1;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ numbers */

#define NUMBER 48 /* the longest text of one */

/* The text of a number, up to one of the bytes that end it. */
static sparta_status number_text(sp_graph_reader *r, char out[NUMBER])
{
    sp_graph_skip(r);
    size_t n = strcspn(r->at, ",]} \n");
    if (n == 0 || n >= NUMBER) return sp_graph_bad(r, "expected a number");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
    return SPARTA_OK;
}

static bool float_of(const char *s, double *out)
{
    if (strcmp(s, "nan") == 0)
        *out = (double)NAN;
    else if (strcmp(s, "inf") == 0)
        *out = (double)INFINITY;
    else if (strcmp(s, "-inf") == 0)
        *out = -(double)INFINITY;
    else
        return sp_parse_double(s, out);
    return true;
}

static bool unsigned_of(const char *s, uint64_t *out)
{
    uint64_t x = 0;
    if (!*s) return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(x, (uint64_t)10, &x)) return false;
        if (__builtin_add_overflow(x, (uint64_t)(*s - '0'), &x)) return false;
    }
    *out = x;
    return true;
}

static sparta_status read_element(sp_graph_reader *r, sparta_tensor *t, int64_t at)
{
    char text[NUMBER];
    double x;
    int64_t i;
    uint64_t u;
    SP_TRY(number_text(r, text));
    if (sp_dtype_is_float(t->dtype)) {
        if (!float_of(text, &x)) return sp_graph_bad(r, "not a number");
        sp_element_set(t->dtype, t->data, at, x);
    } else if (t->dtype == SPARTA_U64) {
        if (!unsigned_of(text, &u)) return sp_graph_bad(r, "not a number of this type");
        sp_element_set_int(t->dtype, t->data, at, (int64_t)u);
    } else {
        if (!sp_parse_int(text, &i) || i < sp_dtype_lowest(t->dtype) || i > sp_dtype_highest(t->dtype))
            return sp_graph_bad(r, "not a number of this type");
        sp_element_set_int(t->dtype, t->data, at, i);
    }
    return SPARTA_OK;
}

/* Entries of the list whose first byte after '[' is at r->at; -1: it does not end. */
static int64_t count_list(const sp_graph_reader *r)
{
    int64_t commas = 0;
    bool any = false;
    const char *s = r->at;
    for (; *s && *s != ']' && *s != '\n'; s++) {
        commas += *s == ',';
        any |= *s != ' ';
    }
    return *s == ']' ? commas + any : -1;
}

sparta_status sp_graph_read_elements(sp_graph_reader *r, sp_arena *arena, sparta_tensor *t)
{
    SP_TRY(sp_graph_expect(r, '['));
    int64_t n = sparta_tensor_elements(t);
    if (n < 0 || n != count_list(r)) return sp_graph_bad(r, "as many elements as the dims say are wanted");
    SP_TRY(sp_tensor_alloc_in(arena, t->dtype, t->rank, t->dim, t));
    for (int64_t i = 0; i < n; i++) {
        if (i) SP_TRY(sp_graph_expect(r, ','));
        SP_TRY(read_element(r, t, i));
    }
    return sp_graph_expect(r, ']');
}

/* ------------------------------------------------------------------ attributes */

/* [..] (ints) and floats[..] are tensors of one dimension while they are read. */
static sparta_status read_list(sp_graph_reader *r, sp_attr *a, sparta_dtype dtype)
{
    r->at++;
    int64_t n = count_list(r);
    r->at--;
    if (n < 0 || n > INT32_MAX) return sp_graph_bad(r, "the list does not end");
    sparta_tensor t = sparta_tensor_view(dtype, 1, &n, NULL);
    SP_TRY(sp_graph_read_elements(r, r->scratch, &t));
    a->n = (int)n;
    a->kind = dtype == SPARTA_I64 ? SP_ATTR_INTS : SP_ATTR_FLOATS;
    if (dtype == SPARTA_I64)
        a->ints = t.data;
    else
        a->floats = t.data;
    return SPARTA_OK;
}

static sparta_status read_tensor(sp_graph_reader *r, sp_attr *a, sparta_dtype dtype)
{
    sp_dims dims;
    int64_t dim[SPARTA_RANK];
    SP_TRY(sp_graph_read_dims(r, r->scratch, &dims));
    if (!sp_dims_const(&dims, dim)) return sp_graph_bad(r, "a tensor has numbers as dims");
    for (int i = 0; i < dims.rank; i++)
        if (dim[i] < 0) return sp_graph_bad(r, "a dim is negative");
    SP_TRY(sp_graph_expect(r, '='));
    sparta_tensor *t = sp_arena_alloc(r->scratch, sizeof *t);
    SP_NEED(r->cx, t);
    *t = sparta_tensor_view(dtype, dims.rank, dim, NULL);
    SP_TRY(sp_graph_read_elements(r, r->scratch, t));
    a->kind = SP_ATTR_TENSOR;
    a->tensor = t;
    return SPARTA_OK;
}

static sparta_status read_number(sp_graph_reader *r, sp_attr *a)
{
    char text[NUMBER];
    double x;
    SP_TRY(number_text(r, text));
    if (sp_parse_int(text, &a->i)) {
        a->kind = SP_ATTR_INT;
        return SPARTA_OK;
    }
    if (!float_of(text, &x))
        return sp_graph_bad(r, "expected a number, a string, [..], floats[..] or a tensor");
    a->kind = SP_ATTR_FLOAT;
    a->f = (float)x;
    return SPARTA_OK;
}

static sparta_status read_value(sp_graph_reader *r, sp_attr *a)
{
    sp_graph_skip(r);
    if (*r->at == '"') {
        a->kind = SP_ATTR_STRING;
        return sp_graph_read_string(r, &a->s);
    }
    char word[8] = "";
    size_t n = 0;
    while (n < sizeof word - 1 &&
           ((r->at[n] >= 'a' && r->at[n] <= 'z') || (r->at[n] >= '0' && r->at[n] <= '9')))
        n++;
    if (r->at[n] != '[') return read_number(r, a);
    memcpy(word, r->at, n);
    r->at += n;
    sparta_dtype dtype;
    if (n == 0) return read_list(r, a, SPARTA_I64);
    if (strcmp(word, "floats") == 0) return read_list(r, a, SPARTA_F32);
    if (!sp_dtype_parse(word, &dtype)) return sp_graph_bad(r, "no such type");
    return read_tensor(r, a, dtype);
}

sparta_status sp_graph_read_attrs(sp_graph_reader *r, sp_attrs *out)
{
    enum { most = 16 }; /* no operator has half as many */
    sp_attr *list = sp_arena_array(r->scratch, most, sizeof *list);
    SP_NEED(r->cx, list);
    int n = 0;
    SP_TRY(sp_graph_expect(r, '{'));
    do {
        if (n == most) return sp_graph_bad(r, "too many attributes");
        SP_TRY(sp_graph_read_name(r, &list[n].name));
        SP_TRY(sp_graph_expect(r, '='));
        SP_TRY(read_value(r, &list[n]));
        n++;
    } while (sp_graph_eat(r, ','));
    SP_TRY(sp_graph_expect(r, '}'));
    *out = (sp_attrs){n, list};
    return SPARTA_OK;
}
