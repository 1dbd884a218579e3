/* map: y = act(a + b) element by element; panels of the same shape. Parameter: ACT. */
#ifndef MAP_ACT
#define MAP_ACT (a->act)
#endif

KERNEL void sp_kernel_map(const void *args)
{
    const struct sp_map_args *a = (const struct sp_map_args *)args;
    for (long i = a->row0; i < a->row1; i++)
        for (long j = 0; j < a->vectors * SPLIT; j++) {
            const long at = i * SP_PANEL + LANES * j;
            vec x = load(a->a + at);
            if (a->b) x += load(a->b + at);
            store(a->y + at, activate(x, MAP_ACT));
        }
}
