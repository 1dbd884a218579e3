/* A whole JSON text as a tree, for files that are read in another order than they are written in. Everything lives in an arena, whose
 * context counts the memory; depth is limited. Asking a value for what it is not gives NULL or false, never an error: who needs it says so.
 *
 *     {"sizes": [{"as_int": 4}], "dtype": 7}       sp_json_get(sp_json_first(sp_json_get(v, "sizes")), "as_int")
 */
#ifndef SP_ARRAYS_JSON_TREE_H
#define SP_ARRAYS_JSON_TREE_H

#include "arrays/json.h"

enum { JSON_TREE_DEPTH = 48 };

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json_value {
    json_kind kind;
    int n;                          /* elements of an array or object */
    const char *key;                /* in an object; else NULL */
    const char *text;               /* a string's, decoded; a number as it stands */
    bool yes;                       /* a bool's */
    const struct json_value *first; /* element of an array or object */
    const struct json_value *next;  /* element of what this is part of */
} json_value;

sparta_status sp_json_tree(sp_arena *arena, const char *text, size_t n, const json_value **out) SP_MUST;

/* All of these take NULL, too. */
const json_value *sp_json_get(const json_value *object,
                              const char *key); /* the first of that name, or NULL */
const json_value *sp_json_first(const json_value *v);
const char *sp_json_text(const json_value *v); /* of a string, or NULL */
bool sp_json_int(const json_value *v, int64_t *out);
bool sp_json_double(const json_value *v, double *out); /* also of "Infinity", "-Infinity" and "NaN" */

#endif
