/* Trials in memory, with the rules of the database: where there is no file, or no SQLite. */
#ifndef SP_TUNE_RECORDS_H
#define SP_TUNE_RECORDS_H

#include "tune/tune.h"

typedef struct sp_records sp_records;
sp_records *sp_records_create(sparta_ctx *cx); /* NULL: the context has the message */
void sp_records_free(sp_records *r);           /* NULL is fine */
/* As sp_tune_find and sp_tune_add. */
int sp_records_find(const sp_records *r, const char *key, sp_trial *out, int most);
sparta_status sp_records_add(sp_records *r, const char *key, const sp_trial *t) SP_MUST;

#endif
