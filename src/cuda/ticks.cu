/* ticks.cu: how fast a multiprocessor runs now: cycles and nanoseconds of a wait, by its own counters. Entry ticks, one thread; no parameters.
 *
 *     globaltimer  |....|....|....|....|     steps of a microsecond or less; the wait begins with a step
 *     clock        ||||||||||||||||||||
 */
#define WAIT 2000000ull /* nanoseconds */

DEVICE u64 nanoseconds()
{
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

KERNEL ticks(u64 *out)
{
    const u64 before = nanoseconds();
    u64 begin = before, end;
    while (begin == before) begin = nanoseconds();
    const i64 first = clock64();
    do end = nanoseconds();
    while (end - begin < WAIT);
    out[0] = (u64)(clock64() - first);
    out[1] = end - begin;
}
