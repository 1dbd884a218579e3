/* Tiles of operands (tile.c); inside of room special. */
#ifndef SP_SPECIAL_TILE_H
#define SP_SPECIAL_TILE_H

#include "special/writer.h"

typedef struct sp_special_tile_dim {
    int index;
    int64_t part, size; /* index % part, which has `size` values; part 0: all of the index */
} sp_special_tile_dim;
typedef struct sp_special_tile {
    bool
        scratch; /* it lies in memory that runs lend; its first dimension may then be all of an index, size 0 */
    int n;
    sp_special_tile_dim dim[SPARTA_RANK]; /* the last lies side by side */
    int64_t elements;                     /* but for a first dimension of size 0 */
} sp_special_tile;
/* What loops inside of `loop` read of a use; NULL, or why it cannot be copied: text in `why`. */
const char *sp_special_tile_of(const sp_special *s, const sp_special_nest *n, int loop, int use,
                               sp_special_tile *t, char why[160]);
/* The loop inside of which a use has a tile; -1: none. */
int sp_special_cached(const sp_special_nest *n, int use);
/* Tiles that begin inside of a loop are declared and filled. */
void sp_write_tiles(const writer *w, int loop);
/* Where in its tile the element of a use lies; false: not known yet. */
bool sp_write_tile_place(writer *w, int use, char out[64]);

#endif
