/* grouped: what exporters repeat before attention, taken as it was before: heads of k and v that several heads of q share, and masks
 * that are the same for every so many items.
 *
 *     k (B,g,T,e) --Unsqueeze, Expand--> (B,g,r,T,e) --Reshape--> (B,g*r,T,e)         heads of q come in groups of r
 *     mask (1,w,1,S,T) --Expand--> (B,w,1,S,T) --Reshape--> (B*w,1,S,T)               windows of an image: every image has the same
 */
#ifndef SP_COMPILE_GROUPED_H
#define SP_COMPILE_GROUPED_H

#include "compile/chain.h"

/* k (B,heads,e,T) and v (B,heads,T,d) with as many heads as they have before they are repeated; that many, or `heads`. */
sparta_status sp_ungroup(sp_match *m, const char *name, int64_t heads, sp_value **k, sp_value **v,
                         int64_t *groups) SP_MUST;
/* A mask (B*w, ...), also a sum of some, as (w, ...) where all items of B have the same. */
sparta_status sp_mask_of_some(sp_match *m, const char *name, sp_value **mask) SP_MUST;

#endif
