/* The arguments of specialised kernels. This very file is compiled into the library and stands at the head of every text, so it includes
 * nothing. */
#ifndef SP_SPECIAL_ABI
#define SP_SPECIAL_ABI

struct sp_special_args {
    void *const *array; /* values, positions and coordinates of every operand (special.h numbers them) */
    const long *size;   /* of indices, then of levels */
    long part, parts;   /* the share of this thread in the loop that is bound to threads */
    float *
        scratch; /* of this thread: a tile of sp_special_scratch elements, at a line of the cache; NULL: there is none */
};

#endif
