/* The inside of a context: only base looks at it. */
#ifndef SP_BASE_CTX_H
#define SP_BASE_CTX_H

#include "base/base.h"
#include <stdatomic.h>

enum { SP_MESSAGE_SIZE = 1024, SP_NOTES_SIZE = 4096 };

struct sparta_ctx {
    sparta_ctx_options options;
    sparta_status status; /* of the last failure */
    char message[SP_MESSAGE_SIZE];
    char notes[SP_NOTES_SIZE];
    char warnings[SP_NOTES_SIZE]; /* those notes that are said in any case */
    atomic_int cancelled;
    /* Memory: atomic, so that a worker of a pool may free what its caller made. */
    atomic_size_t held, peak;
    atomic_uint_fast64_t asked;   /* allocations asked for */
    atomic_uint_fast64_t fail_at; /* the value of `asked` that fails; 0: none */
    atomic_bool fail_forever;
    sp_pool *team; /* lent by whoever runs with it; NULL: none */
    struct {
        void *thing;
        void (*free)(sparta_ctx *cx, void *thing);
    } slot[SP_SLOTS];
};

/* vsnprintf that writes 1.5 as 1.5 whatever locale the host has set. */
int sp_vformat(char *out, size_t size, const char *format, va_list args);

#endif
