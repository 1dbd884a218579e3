/* map: an epilogue without a product, element by element; panels of the same shape. Parameters: those of epilogue.h. */

KERNEL void sp_kernel_map(const void *args)
{
    const struct sp_map_args *a = (const struct sp_map_args *)args;
    for (long i = a->row0; i < a->row1; i++)
        for (long j = 0; j < a->vectors * SPLIT; j++) {
            const long at = i * SP_PANEL + LANES * j;
            store(a->e.y + at, end_vector(&a->e, load(a->a + at), load(a->e.residual + at)));
        }
}
