/* fence: memory of a bed, with words on both sides that nobody may write.
 *
 *     | 16 KiB of words | what a contender is given | 16 KiB of words |
 *
 * Compiled kernels carry no checks of their own, and what one writes beyond its operands may be a header of the allocator, which is found much later and somewhere else. A fence that
 * changed names the operand, and the bed knows whose turn it was. Words differ from place to place, so that one copied from another place does not pass, and read as floats
 * in [1, 2), so that kernels that load whole vectors are neither slow nor wrong because of them.
 */
#ifndef SP_TUNE_FENCE_H
#define SP_TUNE_FENCE_H

#include "tensor/tensor.h"

typedef struct sp_fence {
    struct sp_fence *next;
    const char *what; /* "input 2" */
    char *at;
    size_t size;
} sp_fence;

/* Cleared memory from the arena with a fence around it, which joins the list. `what` outlives it. */
void *sp_fence_alloc(sp_arena *a, sp_fence **list, const char *what, size_t size);
/* As sp_tensor_alloc_in, of this type and these dims. */
sparta_status sp_fence_tensor(sp_arena *a, sp_fence **list, const char *what, sparta_tensor *like) SP_MUST;
/* What has been written around, and all is mended; NULL: nothing. */
const char *sp_fence_broken(const sp_fence *list);

#endif
