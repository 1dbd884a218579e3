/* Kernels and schedules that others published, in our words: TACO's (its scheduling tests), SparseTIR's (its examples), and the proposal's formats. Each is
 * applied, compiled, run by three threads, and compared with the same computed index by index. Where a schedule asks for what there is not on a CPU (warps,
 * atomics), the loops are the same and threads have temporaries. */
#include "special_bed.h"

typedef struct published {
    const char *name, *text, *format[11], *schedule;
} published;

static const published taco[] = {
    /* split(i,i0,i1,16); reorder(i0,i1,j); parallelize(i0,CPUThread,NoRaces) */
    {"SpMV", "y(i) = A(i,j)*x(j)", {"A", "csr"}, "split(i,u,v,16); reorder(u,v,j); threads(u)"},
    /* split(i,16); pos(j,jpos,A); split(jpos,8); reorder(i0,i1,jpos0,k,jpos1); CPUThread, CPUVector */
    {"SpMM",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "csr"},
     "split(i,u,v,16); pos(j,p,A); split(p,a,b,8); reorder(u,v,a,k,b); threads(u); vectorize(k)"},
    /* the same loops; lanes are those of the dense index, since positions are none */
    {"SDDMM",
     "A(i,k) = B(i,k)*C(i,j)*D(k,j)",
     {"B", "csr", "A", "csr"},
     "split(i,u,v,16); pos(k,p,B); split(p,a,b,8); reorder(u,v,a,b,j); threads(u); vectorize(j,2)"},
    /* fuse(i,j,f); pos(f,fpos,B); split(fpos,chunk,fpos2,16); parallelize(chunk,CPUThread) */
    {"TTV",
     "A(i,j) = B(i,j,k)*c(k)",
     {"B", "(i,j,k)->(i:dense, j:compressed, k:compressed)"},
     "fuse(i,j,f); split(f,a,b,16); threads(a)"},
    {"TTM",
     "A(i,j,l) = B(i,j,k)*C(k,l)",
     {"B", "(i,j,k)->(i:dense, j:compressed, k:compressed)"},
     "fuse(i,j,f); split(f,a,b,16); reorder(a,b,i,j,k,l); threads(a); vectorize(l)"},
    /* split(i,i1,i2,16); reorder(i1,i2,k,l,j); parallelize(i1,CPUThread) */
    {"MTTKRP",
     "A(i,j) = B(i,k,l)*D(l,j)*C(k,j)",
     {"B", "(i,k,l)->(i:dense, k:compressed, l:compressed)"},
     "split(i,u,v,16); reorder(u,v,k,l,j); threads(u); vectorize(j)"},
    /* precompute(B(i,k,l)*D(l,j)): what is summed over l meets C(k,j) once */
    {"MTTKRP with a workspace",
     "A(i,j) = B(i,k,l)*D(l,j)*C(k,j)",
     {"B", "csf"},
     "reorder(j,i,k,l); vectorize(j,2); precompute(l)"},
    /* GPU: fuse(i,j,f); pos(f,fpos,A); split into blocks, warps and threads, atomics */
    {"SpMV by elements",
     "y(i) = A(i,j)*x(j)",
     {"A", "csr"},
     "fuse(i,j,f); split(f,a,b,64); split(b,c,d,8); threads(a,temporaries)"},
    /* GPU: fuse(i,j,f); pos; split(k,dense,thread,32); bound(dense,4,MaxExact) */
    {"SpMM by elements",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "csr"},
     "bound(k,67); fuse(i,j,f); split(f,a,b,64); split(k,c,d,32); reorder(a,b,c,i,j,d); vectorize(d); "
     "threads(a,temporaries)"},
    {"SDDMM by elements",
     "A(i,k) = B(i,k)*C(i,j)*D(k,j)",
     {"B", "csr", "A", "csr"},
     "fuse(i,k,f); split(f,a,b,16); threads(a); vectorize(j)"},
};

static const published sparsetir[] = {
    {"SpMM of csr",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "csr"},
     "split(i,u,v,8); reorder(u,v,k,j); threads(u); vectorize(k,2)"},
    /* column parts and buckets, one launch by horizontal fusion; a row may be in several */
    {"SpMM of hyb",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "hyb(2,2)"},
     "reorder(k,i,j); vectorize(k,2); threads(k); hfuse(k)"},
    /* blockize and tensorize of a block of BSR */
    {"SpMM of bsr", "C(i,k) = A(i,j)*B(j,k)", {"A", "bsr(4,4)"}, "threads(i0); tensorize(i1,j1,k)"},
    {"SpMM of dbsr", "C(i,k) = A(i,j)*B(j,k)", {"A", "dbsr(4,4)"}, "threads(i0); tensorize(i1,j1,k)"},
    {"SpMM of sr-bcrs", "C(i,k) = A(i,j)*B(j,k)", {"A", "sr-bcrs(2,2)"}, NULL},
    /* sparse_fuse of I and J, rfactor over the features */
    {"SDDMM",
     "C(i,j) = A(i,j)*X(i,k)*Y(j,k)",
     {"A", "csr", "C", "csr"},
     "fuse(i,j,f); threads(f); vectorize(k,2); precompute(k)"},
    /* several relations, each with its matrix of weights */
    {"RGMS", "Y(i,l) = A(r,i,j)*X(j,k)*W(r,k,l)", {"A", "csf"}, "reorder(r,i,j,k,l); vectorize(l)"},
};

static const published proposal[] = {
    {"CscTensor", "y(m,n) = x(m,k)*w(n,k)", {"w", "csc"}, NULL},
    {"EllpackTensor", "y(m,n) = x(m,k)*w(n,k)", {"w", "(i,j)->(i:dense, j:packed[auto])"}, NULL},
    {"blocks of 16 in Ellpack, in them COO",
     "y(m,n) = x(m,k)*w(n,k)",
     {"w", "(i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton)"},
     NULL},
    {"BSR of 2x2 (the sp_iter of SparseTIR)",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "bsr(2,2)"},
     "reorder(i0,j0,i1,j1,k); threads(i0); vectorize(k)"},
    {"scores of attention",
     "S(i,j) = P(i,j)*Q(i,k)*K(j,k); O(i,l) = S(i,j)*V(j,l)",
     {"P", "bsr(4,4)", "S", "bsr(4,4)"},
     NULL},
};

static void run_all(const published *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool three =
            strstr(list[i].text, "k,l") || strstr(list[i].text, "(r,") || strstr(list[i].text, "j,k)*c");
        run_scheduled(sp_target_best(SP_DEVICE_CPU), three ? 3 : 30, list[i].text, list[i].format,
                      list[i].schedule);
        print_message("    %s\n", list[i].name);
    }
}

static void kernels_of_taco(void **state)
{
    (void)state;
    run_all(taco, SP_COUNT(taco));
}
static void kernels_of_sparsetir(void **state)
{
    (void)state;
    run_all(sparsetir, SP_COUNT(sparsetir));
}
static void formats_of_the_proposal(void **state)
{
    (void)state;
    run_all(proposal, SP_COUNT(proposal));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_of_taco, enter, leave),
        cmocka_unit_test_setup_teardown(kernels_of_sparsetir, enter, leave),
        cmocka_unit_test_setup_teardown(formats_of_the_proposal, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
