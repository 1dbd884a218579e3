/* Types, numbers and statements of nests as C spells them: what text.c fills its loops with. Inside of room emit. */
#ifndef SP_EMIT_SPELL_H
#define SP_EMIT_SPELL_H

#include "emit/emit.h"

/* The types that are computed with: of vectors; in memory; a number in every lane; what functions of it end with; as which type lines of it are kept. */
typedef struct sp_spell_type {
    const char *name, *scalar, *splat, *end, *kept;
} sp_spell_type;
extern const sp_spell_type sp_spell_vec, sp_spell_ints, sp_spell_longs, sp_spell_doubles;
const sp_spell_type *sp_spell_type_of(sparta_dtype d);
const char *sp_spell_stored(sparta_dtype d); /* an element in memory */

/* Reductions: where they start, how two are put together, how the lanes of one are. */
typedef struct sp_spell_folding {
    int word;
    const char *start_real, *start_int, *start_long, *step, *fold;
} sp_spell_folding;
const sp_spell_folding *sp_spell_fold(const sp_nest_statement *s);
const char *sp_spell_start(const sp_nest_statement *s);

/* What the nest calls a statement: by the operand that it is stored to, or by its number. */
typedef struct sp_spell_name {
    char s[16];
} sp_spell_name;
sp_spell_name sp_spell_name_of(const sp_nest *n, int statement);
/* An argument; a number as one of type `number`. */
void sp_spell_arg(const sp_nest *n, const sp_nest_arg *a, const sp_spell_type *number, sp_text *out);
/* How a word of f32 is written: $0 and $1 are its arguments. */
const char *sp_spell_word(int word);
/* The right side of a statement that does not reduce, of a nest whose phases are decided. */
void sp_spell_expression(const sp_nest *n, const sp_nest_statement *s, sp_text *out);

#endif
