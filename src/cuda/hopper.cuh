/* hopper.cuh: instructions of sm_90a as inline PTX.
 *
 *   barriers   mbarrier in shared memory: a phase ends when all have arrived and all bytes that were announced have come
 *   copies     boxes of a matrix by TMA, into one block or into several of a cluster (multicast), and out again
 *   wgmma      64 x N products of a warpgroup (4 warps), both operands in shared memory, f32 sums in registers
 *   stmatrix   fragments of sums to shared memory, turned or not
 *   launch     the next kernel may begin (programmatic dependent launch)
 *
 * A tile in shared memory has lines of 128, 64 or 32 bytes (LINE), swizzled by TMA: the 16-byte chunk c of line r lies at c ^ (r & 7), c ^ (r >> 1 & 3),
 * c ^ (r >> 2 & 1). It begins on a multiple of 8 lines. wgmma reads it either way:
 *
 *   along K     a line is a row of the operand (M or N), its elements are k.    k16 further: 32 bytes further
 *   along MN    a line is one k, its elements are rows (M or N).                k16 further: 16 lines further; where the operand has more rows than
 *               a line has elements, the next tile begins `apart` bytes further
 *
 * Of the sums d[N / 2] of a warpgroup, thread t has rows 16 * (t / 32) + (t % 32) / 4 (+ 8), columns 8 * j + 2 * (t % 4) (+ 1):
 * d[4 * j], d[4 * j + 1] of the upper row, d[4 * j + 2], d[4 * j + 3] of the lower.
 */
struct __align__(64) map {
    char opaque[128]; /* a tensor map, by value as __grid_constant__ */
};
DEVICE u32 shared_address(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}

/* ------------------------------------------------------------------ barriers */
DEVICE void barrier_make(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/* After the last barrier_make, before others (also in the cluster, also the copy engine) meet them; then a barrier of threads. */
DEVICE void barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* One arrival, and so many bytes to come. */
DEVICE void barrier_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void barrier_arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* At the same barrier of another block of the cluster. */
DEVICE void barrier_arrive_at(u32 barrier, u32 rank)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
DEVICE void barrier_wait(u32 barrier, u32 phase)
{
    u32 done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(phase)
                     : "memory");
    } while (!done);
}
/* Threads of some warps of this block; id 0 is __syncthreads'. */
DEVICE void threads_meet(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEVICE u32 cluster_rank()
{
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE void cluster_meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* ------------------------------------------------------------------ copies */
DEVICE void map_prefetch(const map *m)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory");
}
/* The box at (inner, outer) to shared memory; what lies outside of the matrix is 0, and its bytes count. */
DEVICE void box_load(u32 to, const map *m, int inner, int outer, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(m), "r"(inner), "r"(outer), "r"(barrier)
                 : "memory");
}
/* The same to this place in every block of the cluster that `blocks` has a bit for. */
DEVICE void box_load_to(u32 to, const map *m, int inner, int outer, u32 barrier, u16 blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
                 "[%4], %5;" ::"r"(to),
                 "l"(m), "r"(inner), "r"(outer), "r"(barrier), "h"(blocks)
                 : "memory");
}
/* A run of bytes, a multiple of 16, both ends aligned to 16. */
DEVICE void bulk_load(u32 to, const void *from, u32 bytes, u32 barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}
/* Out of shared memory; what lies outside of the matrix is dropped. Writers fence first (written), then meet, then one thread stores and closes. */
DEVICE void box_store(const map *m, int inner, int outer, u32 from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(m), "r"(inner), "r"(outer),
                 "r"(from)
                 : "memory");
}
DEVICE void written()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void stores_close()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* All but the last N groups have been read out of shared memory; N 0 and done: are written. */
template <int N> DEVICE void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
DEVICE void stores_done()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* ------------------------------------------------------------------ registers */
template <int N> DEVICE void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> DEVICE void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ------------------------------------------------------------------ wgmma */
DEVICE void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_close()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* All but the last N groups are done. */
template <int N> DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* The compiler moves no use of these sums across. */
template <int N> DEVICE void wgmma_hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

/* Descriptors of operands. */
template <int LINE> DEVICE u64 tile_of(u32 address, u32 apart)
{
    return (u64)((address & 0x3ffff) >> 4) | (u64)(apart >> 4) << 16 | (u64)(8 * LINE >> 4) << 32 |
           (u64)(LINE == 128 ? 1 : LINE == 64 ? 2 : 3) << 62;
}
template <int LINE> DEVICE u64 tile_along_k(u32 address)
{
    return tile_of<LINE>(address, 16);
}
template <int LINE> DEVICE u64 tile_along_mn(u32 address, u32 apart)
{
    return tile_of<LINE>(address, apart);
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
#define R32                                                                                                                      \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                                                    \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R64                                                                                                                      \
    R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                                      \
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define R128                                                                                                                     \
    R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"                                                      \
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"                                                       \
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"                                           \
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
/* d = a b + (more ? d : 0) for k16; A_MN, B_MN 1: that operand lies along MN. */
#if defined DTYPE && DTYPE < 2
#define WGMMA(COLUMNS, SUMS, REGISTERS, A, B, MORE, A_MN_AT, B_MN_AT, ...)                                                       \
    template <int A_MN, int B_MN> DEVICE void wgmma(float (&d)[SUMS], u64 a, u64 b, int more)                                    \
    {                                                                                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MORE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #COLUMNS                 \
                     "k16.f32." ETYPE "." ETYPE " {" REGISTERS "}, " A ", " B ", p, 1, 1, " A_MN_AT ", " B_MN_AT ";\n}"           \
                     : __VA_ARGS__                                                                                               \
                     : "l"(a), "l"(b), "r"(more), "n"(A_MN), "n"(B_MN));                                                         \
    }
WGMMA(64, 32, R32, "%32", "%33", "%34", "%35", "%36", D32(0))
WGMMA(128, 64, R64, "%64", "%65", "%66", "%67", "%68", D32(0), D32(32))
WGMMA(256, 128, R128, "%128", "%129", "%130", "%131", "%132", D32(0), D32(32), D32(64), D32(96))
#endif

/* ------------------------------------------------------------------ fragments to shared memory: four 8x8 matrices of 16-bit elements */
DEVICE void stmatrix(u32 to, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}
DEVICE void stmatrix_turned(u32 to, u32 a, u32 b, u32 c, u32 d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

DEVICE uint4 shared_load(u32 from)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}

/* ------------------------------------------------------------------ programmatic dependent launch */
/* The next kernel of the stream may begin its prologue. */
DEVICE void launch_next()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/* What kernels before this one wrote is there. */
DEVICE void launch_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
