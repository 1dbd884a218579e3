/* called: y = w x and its epilogue on vectors [vector0, vector0 + vectors) of one panel, the sums by a function of the caller's.
 *
 *      sums(what, x, y, tokens)  -->  y
 *      then, 4 rows at a time, bias and epilogue over y
 *
 * Parameters: those of epilogue.h.
 */

KERNEL void sp_kernel_called(const void *args)
{
    const struct sp_called_args *a = (const struct sp_called_args *)args;
    end_begin(&a->e);
    if (a->vectors <= 0) return;
    a->sums(a->what, a->x + 16 * a->vector0, a->e.y + 16 * a->vector0, 16 * a->vectors);
    end_stored(&a->e, a->n, a->vector0, a->vectors);
}
