/* The arguments of generated kernels. This very file is compiled into the library and stands at the head of every generated text, so it
 * includes nothing. */
#ifndef SP_KERNEL_ABI
#define SP_KERNEL_ABI

#define SP_NEST_LOOPS    8
#define SP_NEST_OPERANDS 16

struct sp_nest_args {
    void *array[SP_NEST_OPERANDS]; /* of each operand, inputs first: where this part of the loops begins */
    long stride[SP_NEST_OPERANDS][SP_NEST_LOOPS]; /* elements from one index of a loop to the next */
    long size[SP_NEST_LOOPS];
    long block; /* DOWN: indices of the vector loop that are worked on together, 16 to 256 in sixteens */
    long line;  /* elements of a line that is kept between phases, in sixteens */
    void *work; /* 64-byte aligned: sp_nest_scratch bytes of this thread */
};

#endif
