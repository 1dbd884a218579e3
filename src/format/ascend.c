/* Indices of 16 bits looked at as fast as memory gives them: what verify asks of long arrays before it looks at them one by one. Compilers
 * make vectors of the loops (-O3 in the Makefile). */
#include "format/ascend.h"

enum { STRETCH = 1 << 14 }; /* so many falls fit into 16 bits */

sp_ascent sp_ascent_of(const uint16_t *index, int64_t n)
{
    sp_ascent all = {0, 0};
    for (int64_t from = 0; from < n; from += STRETCH) {
        const int64_t to = from + STRETCH < n ? from + STRETCH : n;
        uint16_t most = 0, falls = 0;
        for (int64_t i = from; i < to; i++) most = index[i] > most ? index[i] : most;
        for (int64_t i = from + !from; i < to; i++) falls = (uint16_t)(falls + (index[i] <= index[i - 1]));
        all.most = most > all.most ? most : all.most;
        all.falls += falls;
    }
    return all;
}
