/* A program that one talks with, line by line: started by argv without a shell, in a process group of its own, stopped while it has nothing to
 * do, so that it takes no core from what is measured meanwhile, and killed with its group at the end. */
#ifndef SP_MEASURE_TALK_H
#define SP_MEASURE_TALK_H

#include "base/base.h"

typedef struct sp_talk {
    sparta_ctx *cx;
    int pid;    /* 0: none */
    int socket; /* its stdin and stdout */
    char heard[512];
    size_t n; /* bytes of `heard` after the last line that was taken */
} sp_talk;

/* What it says on stderr goes to the file `errors`. A name without a slash is looked for along PATH. E_IO: it cannot be run. */
sparta_status sp_talk_start(sparta_ctx *cx, const char *const *argv, const char *errors,
                            sp_talk *out) SP_MUST;
/* Say a line (NULL: nothing) and wait for the answer, at most `seconds`. E_IO: it ended, was silent for too long, or said too
 * much for a line; E_CANCELLED: the context was. */
sparta_status sp_talk_ask(sp_talk *t, const char *line, double seconds, char *answer, size_t size) SP_MUST;
void sp_talk_pause(sp_talk *t); /* until it is asked again */
void sp_talk_end(sp_talk *t);   /* zeros are fine */

#endif
