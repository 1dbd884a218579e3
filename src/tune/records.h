/* Trials in memory, with the rules of the database: where there is no file, or no SQLite. */
#ifndef SPARTA_TUNE_RECORDS_H
#define SPARTA_TUNE_RECORDS_H

#include "tune/tune.h"

typedef struct sparta_records sparta_records;
sparta_records *sparta_records_create(sparta_ctx *cx); /* NULL: the context has the message */
void sparta_records_free(sparta_records *r);           /* NULL is fine */
/* As sparta_tune_find and sparta_tune_add. */
int sparta_records_find(const sparta_records *r, const char *key, sparta_trial *out, int most);
sparta_status sparta_records_add(sparta_records *r, const char *key, const sparta_trial *t) SPARTA_MUST;

#endif
