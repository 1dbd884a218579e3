/* window: what a condition says of how far a key lies from a query, apart from everything else it says.
 *
 *     And(LessOrEqual(key, query), padding)                     keys up to the query's own: right = 0; the rest is padding
 *     And(Greater(key, query - 64), LessOrEqual(key, query))    left = 63, right = 0; no rest
 *     LessOrEqual(Abs(query - key), 32)                         left = right = 32
 *
 * key and query are Ranges along the last axis and the one before it. Query i of Q stands at key i + K - Q of K (builtin.h, Attention), and
 * Ranges are read relative to that, so a comparison counts only when it says the same at all sizes. */
#ifndef SP_COMPILE_WINDOW_H
#define SP_COMPILE_WINDOW_H

#include "compile/match.h"

typedef struct sp_window {
    const sp_expr *queries, *keys; /* how many there are */
    int64_t left, right;           /* keys before and after its own that a query sees; -1: all */
} sp_window;

/* Where `condition` (when `hides`: where it does not hold) a key is seen. What can be said so goes into the window, which may have
 * limits already; *taken: something did, and *rest is the condition under which a key of the window is seen, NULL: always. */
sparta_status sp_window_take(sp_match *m, const char *name, sp_value *condition, bool hides, sp_window *w,
                             sp_value **rest, bool *taken) SP_MUST;
/* The same of a constant: a mask of bools, or one that is added, 0 where a key is seen and one very low number elsewhere, *hidden (of bools: -inf). Does it say
 * nothing but a window, alike for all items and heads? */
bool sp_window_is(const sp_value *mask, sp_window *w, double *hidden);

#endif
