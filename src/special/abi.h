/* The arguments of specialised kernels. This very file is compiled into the library and stands at the head of every text, so it includes
 * nothing. */
#ifndef SP_SPECIAL_ABI
#define SP_SPECIAL_ABI

struct sp_special_args {
    void *const *array; /* values, positions and coordinates of every operand (special.h numbers them) */
    const long *size;   /* of indices, then of levels */
    long part, parts;   /* the share of this thread in the loop that is bound to threads */
};

#endif
