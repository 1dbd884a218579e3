/* stored: y = w x and its epilogue on vectors [vector0, vector0 + vectors) of one panel, w in any format.
 *
 *      stored_sums(a)  -->  y        generated for the format (room special, implement/stored.c) and standing before this text
 *      then, 4 rows at a time, bias and epilogue over y
 *
 * There is no portable one: kernel walk does the same for every format. Parameters: those of epilogue.h.
 */

KERNEL void sp_kernel_stored(const void *args)
{
    const struct sp_stored_args *a = (const struct sp_stored_args *)args;
    end_begin(&a->e);
    if (a->vectors <= 0) return;
    stored_sums(a);
    end_stored(&a->e, a->n, a->vector0, a->vectors);
}
