/* Opaque formats: their table. */
#include "format/opaque.h"

static const sp_opaque *const rows[] = {
#define SP_OPAQUE(id) &sp_opaque_##id,
#include "format/opaque.def"
#undef SP_OPAQUE
};

int sp_opaque_count(void)
{
    return (int)SP_COUNT(rows);
}

const sp_opaque *sp_opaque_row(int i)
{
    return rows[i];
}
