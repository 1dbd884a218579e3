/* special: what is refused and what is not, of expressions, sizes and schedules; golden texts; chosen kernels on every target that runs here. */
#include "special_bed.h"

/* ------------------------------------------------------------------ expressions */
static void wrong_expressions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", "the name of a result is missing"},
        {"C", "'=' is missing"},
        {"C(i", "')' is missing"},
        {"C(i) =", "an operand, a number or '(' is missing"},
        {"C(i) = A(i", "')' is missing"},
        {"C(i) = A(i))", "does not belong"},
        {"C(i) = A(i) A(i)", "does not belong"},
        {"C(I) = A(i)", "an index is one small letter"},
        {"C(i) = A(int)", "an index is one small letter"},
        {"C(i) = A(i)*/B(i)", "an operand, a number or '(' is missing"},
        {"C(i) = abcdefghijklmnopqrst(i)", "more than 19 characters"},
        {"C(i+1) = A(i)", "plain indices alone"},
        {"C(i,i) = A(i)", "stands twice"},
        {"C(i) = A(i)*A(i,j)", "A has 2 indices here and 1 before"},
        {"C(i) = A(0*i)", "times 0"},
        {"C(i) = A(i+i)", "stands twice in one place"},
        {"C(i) = A(99999999999*i)", "too large"},
        {"C(i) = exp(A(i),A(i))", "another number of arguments"},
        {"C(i) = sum(A(i))", "this word is none"},
        {"m(i) = 2*largest(A(i,j))", "of a whole statement"},
        {"m(i) = largest(A(i,j)) + 1", "all that a statement says"},
        {"m(i) += largest(A(i,j))", "written by '='"},
        {"m(i) = largest(A(i,j)", "')' is missing"},
        {"m(i) = largest(m(i)*A(i,j))", "cannot sum"},
        {"y(i) += y(i)*2", "adds to what it reads"},
        {"C(i) = less(A(i),A(i))", "this word is none"},
        {"exp(i) = A(i)", "a word is no operand"},
        {"C(i) = 1e999*A(i)", "no number"},
        {"C(i) = 1.2.3*A(i)", "no number"},
        {"y(i) = y(j)", "at other indices"},
        {"y(i) = y(i)*x(j)", "cannot sum"},
        {"y(i) = y(i) + x(i)", "one term"},
        {"C(i) = A(i,j,k,l,m,n,o,p,q)", "more dimensions than there are"},
        {"C(a) = A(a)*B(b)*C1(c)*D(d)*E(e)*F(f)*G(g)*H(h)*I(i)*J(j)*K(k)*L(l)", "more than 12"},
    };
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_special *s;
        if (!sp_special_parse(cx, wrong[i].text, &s)) fail_msg("'%s' is taken", wrong[i].text);
        says(wrong[i].words);
        assert_null(s);
    }
}

static void deep_and_long_expressions_end(void **state)
{
    (void)state;
    static const char *const pieces[] = {"(", "-", "exp(", "A(i)+", "A(i)*", "2*", "A(i+", "; y(i)="};
    char text[SP_SPECIAL_TEXT + 64];
    for (size_t p = 0; p < SP_COUNT(pieces); p++) {
        size_t n = (size_t)snprintf(text, sizeof text, "C(i)=");
        while (n + strlen(pieces[p]) < SP_SPECIAL_TEXT)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", pieces[p]);
        sp_special *s;
        fails(SPARTA_E_USAGE, sp_special_parse(cx, text, &s));
    }
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    sp_special *s;
    fails_saying(SPARTA_E_USAGE, "characters", sp_special_parse(cx, text, &s));
}

/* ------------------------------------------------------------------ formats and sizes */
static void formats_that_do_not_fit(void **state)
{
    (void)state;
    sp_special *s = expression("C(i,k) = A(i,j)*B(j,k)", NULL);
    fails_saying(SPARTA_E_USAGE, "no operand 'D'", sp_special_format(s, "D", "csr"));
    fails_saying(SPARTA_E_USAGE, "dimensions", sp_special_format(s, "A", "csf"));
    fails_saying(SPARTA_E_USAGE, "no levels", sp_special_format(s, "A", "quads(128)"));
    fails(SPARTA_E_USAGE, sp_special_format(s, "A", "csx"));
    ok(sp_special_format(s, "C", "csr"));
    fails_saying(SPARTA_E_UNSUPPORTED, "sparse format", sp_special_lower(s));
    sp_special_free(s);
    s = expression("C(i,j) = A(i,j)*B(i,j) + B(i,j)", (const char *const[]){"A", "csr", "C", "csr", NULL});
    fails_saying(SPARTA_E_UNSUPPORTED, "pattern of A", sp_special_lower(s));
    sp_special_free(s);
    s = expression("y(i) = A(i,i)*x(i)", (const char *const[]){"A", "csr", NULL});
    fails_saying(SPARTA_E_UNSUPPORTED, "twice", sp_special_lower(s));
    sp_special_free(s);
    s = expression("y(i) = A(i+p)*w(p)", (const char *const[]){"A", "(i)->(i:compressed)", NULL});
    fails_saying(SPARTA_E_UNSUPPORTED, "a sum", sp_special_lower(s));
    sp_special_free(s);
    s = expression("y(i) = y(i)*A(i)", (const char *const[]){"A", "(i)->(i:compressed)", NULL});
    fails_saying(SPARTA_E_UNSUPPORTED, "stored elements only", sp_special_lower(s));
    sp_special_free(s);
    s = expression("C(i,i0) = A(i,i0)", (const char *const[]){"A", "bsr(2,2)", NULL});
    fails_saying(SPARTA_E_USAGE, "rename", sp_special_lower(s));
    sp_special_free(s);
}

static void sizes_that_do_not_fit(void **state)
{
    (void)state;
    sp_special *s = expression("C(i,k) = A(i,j)*B(j,k)", NULL);
    ok(sp_special_shape(s, sp_special_find(s, "A"), (const int64_t[]){3, 4}));
    fails_saying(SPARTA_E_SHAPE, "B says that j has 5 values",
                 sp_special_shape(s, sp_special_find(s, "B"), (const int64_t[]){5, 6}));
    fails_saying(SPARTA_E_SHAPE, "--dim k=N", sp_special_sized(s));
    fails_saying(SPARTA_E_USAGE, "no index 'z'", sp_special_size(s, "z", 1));
    sp_special_free(s);
    s = expression("y(i) = A(i+p-1)*w(p)", NULL);
    ok(sp_special_shape(s, sp_special_find(s, "A"), (const int64_t[]){10}));
    ok(sp_special_size(s, "i", 8));
    ok(sp_special_size(s, "p", 3));
    fails_saying(SPARTA_E_SHAPE, "from -1 to 8", sp_special_sized(s));
    sp_special_free(s);
    s = expression("y(i) = x(i,j)*z(8*j+7)", NULL);
    ok(sp_special_shape(s, sp_special_find(s, "x"), (const int64_t[]){0, (int64_t)1 << 60}));
    fails_saying(SPARTA_E_SHAPE, "too large", sp_special_sized(s));
    sp_special_free(s);
    s = expression("y(i,j) = x(i+p,j+q)*w(p,q)", NULL);
    ok(sp_special_shape(s, sp_special_find(s, "x"), (const int64_t[]){10, 20}));
    ok(sp_special_shape(s, sp_special_find(s, "w"), (const int64_t[]){3, 5}));
    ok(sp_special_sized(s));
    assert_int_equal(s->operand[0].dim[0], 8);
    assert_int_equal(s->operand[0].dim[1], 16);
    sp_special_free(s);
}

/* Nothing is built that would not end, or would not fit. */
static void too_much_is_refused_before_it_is_built(void **state)
{
    (void)state;
    sp_special_kernel k;
    sparta_tensor operand[SP_SPECIAL_OPERANDS] = {{0}};
    sp_special *s = expression("s = a(i)*b(j)*c(k)*d(l)", NULL);
    for (int i = 0; i < s->indices; i++) ok(sp_special_size(s, s->index[i].name, 65536));
    ok(sp_special_sized(s));
    ok(sp_special_lower(s));
    for (int i = 1; i < s->operands; i++)
        must(sp_tensor_alloc(cx, SPARTA_F32, 1, s->operand[i].dim, &operand[i]), "operand");
    fails_saying(SPARTA_E_LIMIT, "steps", sp_special_bind(s, operand, &k));
    sp_special_close(&k);
    for (int i = 1; i < s->operands; i++) sp_free(cx, operand[i].data);
    sp_special_free(s);
    s = expression("C(i,k) = A(i)*B(k)", NULL);
    ok(sp_special_size(s, "i", (int64_t)1 << 30));
    ok(sp_special_size(s, "k", (int64_t)1 << 30));
    ok(sp_special_sized(s));
    ok(sp_special_lower(s));
    operand[0] = (sparta_tensor){.dtype = SPARTA_F32, .rank = 2};
    assert_int_not_equal(sp_special_bind(s, operand, &k), SPARTA_OK);
    sp_special_close(&k);
    sp_special_free(s);
}

/* What a result with another's pattern held before has no place in it. */
static void patterns_begin_empty(void **state)
{
    (void)state;
    sp_special_kernel k;
    static float x[4] = {1, 0, 0, 2}, y[4];
    sparta_tensor operand[SP_SPECIAL_OPERANDS] = {
        {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 2}, .stride = {2, 1}, .data = x},
        {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 2}, .stride = {2, 1}, .data = x}};
    sp_special *s = expression("C(i,j) += 2*S(i,j)", (const char *const[]){"S", "csr", "C", "csr", NULL});
    ok(sp_special_shape(s, 1, operand[1].dim));
    ok(sp_special_sized(s));
    ok(sp_special_lower(s));
    fails_saying(SPARTA_E_UNSUPPORTED, "begins as 0", sp_special_bind(s, operand, &k));
    sp_special_close(&k);
    operand[0].data = y;
    ok(sp_special_bind(s, operand, &k));
    sp_special_close(&k);
    sp_special_free(s);
}

/* ------------------------------------------------------------------ schedules */
/* Parts of one value: j%1, i%1. */
#define OF_ONES                                                                                              \
    "(i,j,k)->(k%4:dense, j/3:singleton, i/3:compressed(nonunique), j%1:dense, i%3/1:dense, "                \
    "i%1:packed[20], "                                                                                       \
    "k/4:ragged, j%3/1:dense)"

static void every_rule_of_schedules(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format, *schedule, *words; /* words NULL: it is legal */
    } rule[] = {
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); threads(k); vectorize(k,4)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "spilt(i,a,b,4)", "did you mean 'split'"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(i", "is expected"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i)",
         "has more than 24 arguments"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(i,z)", "there is no loop 'z'; loops are i, j, k"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(i,i)", "stands twice"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(j,i)", "level 1 of A, which lies under"},
        {"C(i,k) = A(i,j)*B(j,k)", "csc", "reorder(k,j,i)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b,4); split(k,c,d,16); reorder(a,c,b,j,d)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b)", "say split(i,i0,i1,16)"},
        {"C(i,k) = A(i,j)*B(j,k)", "coo", "split(j,a,b,4)", "goes over what A stores"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); reorder(a,i,b)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); reorder(b,a)", "would come after it"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); split(b,c,d,4)", "goes over what A stores"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); split(a,c,d,4)", "counts ranges"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); vectorize(a)", "counts ranges"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); threads(a)", "counts ranges"},
        {"y(i) = A(i,j)*x(j)", "csr", "split(j,a,b,4); unroll(b,4)", "one range at a time"},
        {"y(j) = A(i,j)*x(i)", "dcsr", "split(i,a,b,4); threads(b)", "one range at a time"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,a,4)", "both halves"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,k,4)", "a loop 'k' already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b,1048576); split(a,c,d,1048576); split(c,e,f,2)",
         "more than 1099511627776 values"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,A,b,4)", "no name of a loop"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b,1)", "no whole number from 2"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(6,4)", "split(i1,a,b,4)", "does not divide"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(6,4)", "split(i1,a,b,3)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "vectorize(k); split(k,a,b,4)", "bound already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "vectorize(i)", "do not lie side by side"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "vectorize(j)", "stored positions"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "vectorize(k,9)", "from 1 to 8"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "vectorize(k); vectorize(k)", "bound already"},
        {"C(i,k) = A(i)*B(k)", "(i)->(i:dense)", "vectorize(k); split(i,a,b,4); unroll(b)",
         "is unrolled, and k inside of it is not"},
        {"C(i,k) = A(i)*B(k)", "(i)->(i:dense)", "vectorize(k); split(i,a,b,4); reorder(a,k,b); unroll(b)",
         NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,64); reorder(a,b); vectorize(a)",
         "steps of more than one"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,64); vectorize(b)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,64); vectorize(b); reorder(b,a)",
         "a part of the same index"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "unroll(k)", "a varying number of"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "unroll(j)", "not the innermost loop"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,32); unroll(b)", "too many"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,4); unroll(b)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,4); unroll(b,4)", "say unroll(b)"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b,4); unroll(b)", "inside of it is not"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "threads(k); split(k,a,b,4)", "bound already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,4); threads(b); unroll(b)", "bound already"},
        {"y(i) = A(i,j)*x(j)", "csr", "unroll(j,8)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); unroll(j,4); vectorize(k)", "sums of their own"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); unroll(j,4); reorder(i,j,k)",
         "would not be the innermost"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); unroll(j,4); reorder(i,k)", NULL},
        {"y(i) = A(i,j)*x(j)", "csr", "unroll(j,1)", "from 2 to 8"},
        {"y(i) = A(i,j)*x(j)", "csr", "vectorize(j)", NULL},
        {"y(m,i) = A(i,j)*x(m,j)", "csr", "reorder(m,i,j); vectorize(j)", NULL},
        {"y(i) = A(i,j)*x(j)", "csr", "vectorize(j,2)", NULL},
        {"y(i) = A(i,j)*x(j)", "csr", "vectorize(j,9)", "from 1 to 8"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "vectorize(k,2); unroll(j,4)", NULL},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "unroll(j,4)", "not one sum, in vectors"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "vectorize(k); unroll(j,9)", "from 2 to 8"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "vectorize(k); unroll(j); unroll(j)", "bound already"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "vectorize(k); unroll(j,4); reorder(i,k,j)",
         "several positions at a time"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "bitmap", "vectorize(k); unroll(j,4)", "bits are found"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "vectorize(k); pos(j,p); unroll(p,4)", "it is cut"},
        {"C(i,j) = largest(A(i,j)*X(i,k)*Y(j,k))", "csr", "vectorize(k); unroll(j,4)", "takes no sum"},
        {"y(i) = A(i,j)*x(j)", "bitmap", "vectorize(j,2)", "lanes of one vector"},
        {"y(i) = A(i,j)*x(j)", "csr", "unroll(j,4); vectorize(j)", "bound already"},
        {"y(i) = largest(A(i,j)*x(j))", "csr", "vectorize(j)", "takes no sum"},
        {"C(i,k) = A(i,k)*b(i)", NULL, "split(k,k0,k1,16); reorder(k0,i,k1); fuse(i,k1,f); vectorize(k1)",
         "inside of a vector"},
        {"y(k) = A(i,k)*b(i)", NULL, "reorder(k,i); fuse(k,i,f); split(f,a,g,9); vectorize(k)",
         "inside of a vector"},
        {"y(i) = s(i)*A(i,j)", NULL,
         "split(i,i0,i1,2); split(j,j0,j1,4); reorder(i0,j0,i1,j1); unroll(j1); unroll(i1); precompute(j1)",
         "inside of a loop that is unrolled"},
        {"y(i) = A(i,j)*x(j); z(i) = y(i)*2", NULL, "0: threads(j,temporaries); 1: hfuse(i)",
         "inside of it is shared"},
        {"y(i) = A(i,j)*x(j)*b(i)", "csr", "precompute(j); vectorize(j)", "computed first"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); pos(b,p)", "one range at a time"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(j,a,b,4); fuse(i,a,f)", "goes over ranges"},
        {"y(i) = A(i,j)*x(j)", "bitmap", "vectorize(j)", NULL},
        {"y(i) = A(i,j)*x(j)", "coo", "vectorize(j)", NULL},
        {"y(i) = A(i,j)*x(j)", "csr, crd=i64", "vectorize(j)", "of a last level"},
        {"y(i) = A(i,j)*x(j)*b(i)", "csr", "vectorize(j)", "with its index last"},
        {"y(i) = A(i,j)*x(j,i)", "csr", "vectorize(j)", "with its index last"},
        {"y(i) = A(i,j)*x(j,j)", "csr", "vectorize(j)", "index once"},
        {"y(j) = A(i,j)*x(i)", "csr", "vectorize(j)", "the result has its index"},
        {"y(i) = A(i,j)*x(j)", "bitmap", "unroll(j,4)", "bits are found"},
        {"y(j) = A(i,j)*x(i)", "csr", "unroll(j,4)", "the result has its index"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "threads(i)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "threads(k)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csc", "threads(i)", "not the outermost"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "threads(k); threads(i)", "already"},
        {"C(i,k) = A(i,j)*B(j,k)", "dcsr", "threads(i); reorder(k,i,j)", "would not be the outermost"},
        {"y(j) = A(i,j)*x(i)", "csr", "threads(i)", "two threads would add to one element of y"},
        {"y(j) = A(i,j)*x(i)", "csr", "threads(i,temporaries)", NULL},
        {"y(j) = A(i,j)*x(i)", "csr", "threads(i,atomics)", "say threads(i) or threads(i,temporaries)"},
        {"y(j) = A(i,j)*x(i)", "csr", "threads(j,temporaries)", "not the outermost"},
        {"y(i) = A(i,j)*x(j)", "coo", "threads(i,temporaries)", NULL},
        {"y(i) = A(i,j)*x(j)", "(i,j)->(i:bitmap, j:compressed)", "threads(i,temporaries)",
         "bits cannot be cut"},
        {"y(i) = A(i,j)*x(j)", "coo", "threads(i)", "may come again"},
        {"y(i) = A(i,j)*x(j)", "dcsr", "threads(i)", NULL},
        {"y(i) = A(i,j)*x(j)", "(i,j)->(i:bitmap, j:compressed)", "threads(i)", "bits cannot be cut"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p,A); split(p,a,b,8); reorder(i,a,k,b); vectorize(k,4)",
         NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(i,p)", "goes over all values of an index"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p,B)", "positions of A, not of B"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,k)", "a loop 'k' already"},
        {"C(i,k) = A(i,j)*B(j,k)", "bitmap", "pos(j,p)", "no positions to cut"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); pos(p,q)", "bound already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); split(p,a,b,8); split(a,c,d,2)", "are pieces of 8"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); split(p,a,b,8); split(b,c,d,2)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); split(p,a,b,8); reorder(b,a)", "would be outside of it"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); split(p,a,b,8); unroll(a)", "each of which is a loop"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "pos(j,p); split(p,a,b,8); threads(b)", "share that"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr",
         "fuse(i,j,f); split(f,a,b,1024); reorder(a,b,k,i,j); vectorize(k,4)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "fuse(i,k,f)", "not directly inside"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); fuse(k,i,f); threads(f)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(i,k,j); fuse(i,k,f); reorder(k,i)",
         "the inner, would be outside"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "fuse(i,j,k)", "a loop 'k' already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "fuse(i,j,f); fuse(i,j,g)", "is cut by f already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "fuse(i,j,f); split(i,a,b,4)",
         "pieces that f gives it; split that"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "fuse(i,j,f); reorder(i,f,j)", "would be outside of it"},
        {"C(i,k) = A(i,j)*B(j,k)", "ell", "fuse(i,j,f)", "only those of a compressed level"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(i,a,b,4); fuse(b,j,f)", "not that of the level above"},
        {"C(i,k) = A(i,j)*B(j,k)", "dcsr", "fuse(i,j,f)", "it takes a loop over an index"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "threads(i); fuse(i,j,f)", "bound already"},
        {"y(i) = A(i,j)*x(j)", "csr", "fuse(i,j,f); threads(f)", "two threads would add to one element"},
        {"y(i) = A(i,j)*x(j)", "csr", "fuse(i,j,f); threads(f,temporaries)", NULL},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "fuse(i,j,f); threads(f); vectorize(k,4)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "hyb(1,2)", "*: reorder(i,j,k); 0: hfuse(i)",
         "i is not the outermost loop, over an index"},
        {"C(i,k) = A(i,j)*B(j,k)", "hyb(1,2)", "reorder(k,i,j); vectorize(k,2); threads(k); hfuse(k)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "hyb(1,2)", "reorder(k,i,j); 1: hfuse(k); vectorize(k,2)",
         "say this before hfuse"},
        {"C(i,k) = A(i,j)*B(j,k)", "hyb(1,2)", "reorder(k,i,j); 0: vectorize(k,2); *: hfuse(k)",
         "bound otherwise"},
        {"C(i,k) = A(i,j)*B(j,k)", "hyb(1,2)", "9: hfuse(k)", "there is no nest 9"},
        {"y(i) = A(i,j)*x(j); z(i) = y(i)*2", "csr", "threads(i); hfuse(i)", NULL},
        {"y(i) = A(i,j)*x(j); z(i) = y(i)*2; w(i) = z(i)", "csr", "threads(i); hfuse(i)", NULL},
        {"y(i) = A(i,j)*x(j); z(k) = y(k)*2", "csr", "1: hfuse(k); 0: threads(i)", "another outermost loop"},
        {"y(i) = A(i,j)*x(j); z(i) = y(k)*2", "csr", "hfuse(i)",
         "y is written by one nest and used by the other at other values of i"},
        {"y(j) = A(i,j)*x(i); z(i) = x(i)", "csr", "hfuse(i)", "or the result does not have it"},
        {"z(i) = y(i); y(i) = A(i,j)*x(j)", "csc", "1: reorder(j,i)", NULL},
        {"C(i,k) = X(i,k); X(i,k) += 2*C(i,k); X(i,k) = A(i,j)*C(j,k)", "csr", "hfuse(i)",
         "at other values of i"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr",
         "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); cache(X,a); vectorize(b)", NULL},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); vectorize(b)",
         "do not lie side by side"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "split(m,a,b,16); reorder(a,n,k,b); cache(X,a)", "say bound(k,64)"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "bound(k,500); split(m,a,b,16); reorder(a,n,k,b); cache(X,a)",
         "more than 4096"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); cache(A,a)",
         "it has a format"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "cache(Z,n)", "reads no operand 'Z'"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "cache(X,m)", "it is in a register"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr", "bound(k,64); split(m,a,b,16); reorder(b,n,k,a); cache(X,b)",
         "an inner part of m is outside"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr",
         "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); cache(X,a); cache(X,n)", "a tile already"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr",
         "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); cache(X,a); vectorize(b); reorder(b,a)",
         "a part of the same index"},
        {"C(n,m) = X(m,k)*A(n,k)", "csr",
         "bound(k,64); bound(m,16); reorder(n,m,k); cache(X,n); vectorize(m); reorder(m,n)",
         "do not lie side by side"},
        {"C(n,m) = X(k,m)*A(n,k)", "csr", "bound(k,64); reorder(m,n,k); vectorize(m); cache(X,m)",
         "in vectors would be outside of the tile"},
        {"y(i) = A(i,j)*X(i+j)", "csr", "bound(j,9); cache(X,i)", "an index of it is a sum"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr",
         "split(k,a,b,32); reorder(a,b,i,j); cache(B,a,scratch); vectorize(b,2); threads(i)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,32); reorder(a,b,i,j); cache(B,a,stack)",
         "say cache(B,a) or cache(B,a,scratch)"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "split(k,a,b,8); reorder(a,b,i,j); cache(B,a,scratch)",
         "cut by 16 or a multiple"},
        {"C(i,k) = A(i,j)*B(k,j)", "csr", "split(k,a,b,16); reorder(a,i,j,b); cache(B,a,scratch)",
         "cut by 16 or a multiple"},
        {"C(i,k) = A(i,j)*X(l,j,k)", "csr", "split(k,a,b,16); reorder(a,i,j,l,b); cache(X,a,scratch)",
         "nothing says how many values"},
        {"C(i,k) = A(i,j)*X(j,k)*Y(j,k)", "csr",
         "split(k,a,b,16); reorder(a,b,i,j); cache(X,a,scratch); cache(Y,a,scratch)",
         "lies in scratch already"},
        {"C(i,k) = A(i,j)*X(j,k)", "csr",
         "bound(j,1048576); split(k,a,b,32); reorder(a,b,i,j); cache(X,a,scratch)", "more than 16777216"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "bound(k,8); reorder(i,j,k); unroll(k)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "bound(z,8)", "no index 'z'"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "bound(k,0)", "no whole number from 1"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "bound(k,8); bound(k,9)", "said to have 8"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "precompute(k)", NULL},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "precompute(k); vectorize(k,4)", NULL},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "precompute(j)", "not everything inside of it is summed"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "precompute(k); reorder(i,k,j)", "not everything inside"},
        {"C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "csr", "precompute(k); precompute(k)", "already"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr", "reorder(k,i,j); precompute(j)", "no factor of the term is known"},
        {"y(i) = relu(A(i,j))*x(i)*z(i)", "csr", "precompute(j)", NULL},
        {"y(i) = largest(A(i,j)*x(i))", "csr", "precompute(j)", "takes no sum"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(4,2)", "tensorize(i1,j1,k)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(4,2)", "reorder(k,i0,j0,i1,j1); tensorize(i1,j1,k,4)", NULL},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(4,2)", "tensorize(i1,i1,k)", "stands twice"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(16,2)", "tensorize(i1,j1,k)", "rows of a tile"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(4,2)", "tensorize(i1,j0,k)", "no sum over a fixed number"},
        {"C(i,k) = A(i,j)*B(j,k)", "bsr(4,2)", "tensorize(j1,i1,k)", "does not have j1 and k"},
        {"C(i,k) = A(i,j)*B(k,j)", "bsr(4,2)", "tensorize(i1,j1,k)", "elements of B do not lie side by side"},
        {"y(i) = A(i,j)*x(j)", "dia", "vectorize(i)", NULL},
        {"y(i) = A(i,j)*x(j)", "dia", "reorder(i,A_0); vectorize(i)", "do not lie side by side"},
        {"y(i) = A(i,j)*x(j)", "dia", "vectorize(i); reorder(i,A_0)", "do not lie side by side"},
        {"y(j) = A(i,j)*x(i)", "dia", "vectorize(i)", "do not lie side by side"},
        {"y(i) = A(i,j)*x(j)*z(2*i)", "dia", "vectorize(i)", "do not lie side by side"},
        {"y(i) = A(i,j)*x(j)", "dia", "split(i,a,b,4); reorder(a,A_0,b); unroll(b)",
         "a diagonal depends on it"},
        {"y(i) = A(i,j)*x(j)", "dia", "pos(A_0,p); split(p,u,v,2)", NULL},
        {"y(i) = A(i,j)*x(j)", "dia", "pos(A_0,p); split(p,u,v,2); vectorize(i)", "do not lie side by side"},
        {"y(i) = A(i,j)*x(j)", "dia", "pos(A_0,p); vectorize(i); split(p,u,v,2)",
         "i is in vectors along a diagonal"},
        {"y(j) = smallest(A(i,j)*x(i))", "(i,j)->(j-i:compressed, j:range)",
         "pos(A_0,p); vectorize(j); split(p,u,v,3)", "j is in vectors along a diagonal"},
        {"C(i,j) = A(i,j,k)*x(k)", OF_ONES, "reorder(k1,j0,i0,j2,i1,A_5,k0,j1)", NULL},
        {"C(i,j) = A(i,j,k)*x(k)", OF_ONES, "reorder(k1,j0,i0,j1,i1,A_5,k0,j2)",
         "lies under loops that would come after it"}, /* where A_5 begins is said by j2, of one value */
        {"C(i,j) = max(A(i,j),X(i,j))", "csr", "vectorize(j)", "elements of A do not lie side by side"},
    };
    for (size_t i = 0; i < SP_COUNT(rule); i++) {
        sp_special *s = expression(rule[i].text,
                                   (const char *const[]){rule[i].format ? "A" : NULL, rule[i].format, NULL});
        ok(sp_special_lower(s));
        if (rule[i].words)
            fails_saying(SPARTA_E_USAGE, rule[i].words,
                         sp_special_schedule(s, rule[i].schedule, SP_TARGET_AVX512));
        else
            must(sp_special_schedule(s, rule[i].schedule, SP_TARGET_AVX512), rule[i].schedule);
        sp_special_free(s);
    }
}

/* ------------------------------------------------------------------ golden texts */
/* Attention over a stored pattern, statement by statement: scores, the largest of a row, exponents less it, their sum, the quotient, the values. */
#define SOFTMAX                                                                                              \
    "S(i,j) = P(i,j)*Q(i,k)*K(j,k); m(i) = largest(S(i,j)); E(i,j) = P(i,j)*exp(S(i,j)-m(i)); "              \
    "d(i) = E(i,j); W(i,j) = E(i,j)/d(i); O(i,l) = W(i,j)*V(j,l)"

/* tests/fixtures/kernels/special_<name>.c, byte by byte; EMIT_GOLDEN=write writes them anew. */
static const struct {
    const char *name, *text, *format[9], *schedule;
} golden[] = {
    {"spmm_csr", "C(i,k) = A(i,j)*B(j,k)", {"A", "csr"}, NULL},
    {"spmm_csc", "C(i,k) = A(i,j)*B(j,k)", {"A", "csc"}, NULL},
    {"spmm_coo", "C(i,k) = A(i,j)*B(j,k)", {"A", "coo"}, NULL},
    {"spmm_dia", "C(i,k) += A(i,j)*B(j,k)", {"A", "dia"}, NULL},
    {"spmv_dia", "y(i) = A(i,j)*x(j)", {"A", "dia"}, NULL},
    {"spmv_bitmap", "y(i) = 2*A(i,j)*x(j)", {"A", "bitmap"}, NULL},
    {"spmv_csr", "y(i) = A(i,j)*x(j) + b(i); y(i) = relu(y(i))", {"A", "csr"}, NULL},
    {"sddmm_csr", "C(i,j) = S(i,j)*A(i,k)*B(j,k)", {"S", "csr", "C", "csr"}, NULL},
    {"strip_panel", "y(m,n) = x(m,k)*w(n,k)", {"w", "cv(2)", "x", "panel", "y", "panel"}, NULL},
    {"both", "C(i,j) = A(i,j)*B(i,j)", {"A", "bitmap", "B", "dcsc"}, NULL},
    {"merge", "C(i,j) = A(i,j)*B(i,j)", {"A", "csr", "B", "dcsr"}, NULL},
    {"largest", "m(i) = largest(A(i,j)*X(i,j)); y(k) = smallest(B(j,k))", {"A", "bsr(2,4)"}, NULL},
    {"softmax", SOFTMAX, {"P", "csr", "S", "csr", "E", "csr", "W", "csr"}, NULL},
    {"spmm_pos",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "csr"},
     "split(i,u,v,16); pos(j,p,A); split(p,a,b,8); reorder(u,v,a,k,b); threads(u); vectorize(k,1)"},
    {"spmv_fused", "y(i) = A(i,j)*x(j)", {"A", "csr"}, "fuse(i,j,f); threads(f,temporaries)"},
    {"softmax_joined",
     SOFTMAX,
     {"P", "csr", "S", "csr", "E", "csr", "W", "csr"},
     "0: vectorize(k,1); 5: vectorize(l,1); *: threads(i); hfuse(i)"},
    {"cached",
     "C(n,m) = X(m,k)*A(n,k)",
     {"A", "csr"},
     "bound(k,64); split(m,a,b,16); reorder(a,n,k,b); cache(X,a); vectorize(b)"},
    {"strips",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "csr"},
     "split(k,k0,k1,32); reorder(k0,k1,i,j); vectorize(k1,2); cache(B,k0,scratch); threads(k0)"},
    {"sddmm_apart",
     "C(i,j) = S(i,j)*A(i,k)*B(j,k)",
     {"S", "csr", "C", "csr"},
     "bound(k,64); vectorize(k); precompute(k)"},
    {"bsr_tile", "C(i,k) = A(i,j)*B(j,k)", {"A", "bsr(2,2)"}, "tensorize(i1,j1,k,1)"},
    {"one_side", "C(i,j) = max(A(i,j),X(i,j))", {"A", "coo"}, NULL},
    {"parts",
     "C(i,k) = A(i,j)*B(j,k)",
     {"A", "sum{colpart(3) -> csr}"},
     "reorder(i,k,j); vectorize(k,1)"}, /* the second and the third are one function */
    {"typed", "C(i,k) = A(i,j)*B(j,k); y(i) = A(i,j)*x(j)", {"A", "csr"}, NULL}, /* bf16 and f16 in turns */
};

static void check_golden(const char *path, const char *text)
{
    static char was[1 << 16];
    FILE *f = fopen(path, getenv("EMIT_GOLDEN") ? "w" : "r");
    if (!f) fail_msg("%s is missing; EMIT_GOLDEN=write writes it", path);
    if (getenv("EMIT_GOLDEN")) {
        fputs(text, f);
        fclose(f);
        return;
    }
    const size_t n = fread(was, 1, sizeof was - 1, f);
    was[n] = 0;
    fclose(f);
    if (strcmp(was, text))
        fail_msg("%s differs from what is generated now; EMIT_GOLDEN=write writes it anew:\n%s", path, text);
}

static void golden_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(golden); i++) {
        char path[128];
        sp_text text;
        sp_special *s = expression(golden[i].text, golden[i].format);
        for (int o = 0; o < s->operands && !strcmp(golden[i].name, "typed"); o++)
            ok(sp_special_dtype(s, s->operand[o].name, o % 2 ? SPARTA_F16 : SPARTA_BF16));
        ok(sp_special_lower(s));
        must(sp_special_schedule(s, golden[i].schedule, SP_TARGET_AVX512), golden[i].name);
        sp_text_init(&text, cx);
        sp_special_print(s, &text);
        sp_special_functions(s, "sp_special_", &text);
        ok(text.status);
        snprintf(path, sizeof path, "tests/fixtures/kernels/special_%s.c", golden[i].name);
        check_golden(path, sp_text_str(&text));
        sp_text_free(&text);
        sp_special_free(s);
    }
}

/* ------------------------------------------------------------------ kernels on every target */
static void run_on(sp_target target, const char *text, const char *const *formats)
{
    run_scheduled(target, 30, text, formats, NULL);
}

/* Where sums are unrolled, each has a place of its own in the pattern. */
static void unrolled_sums_of_a_pattern(void **state)
{
    (void)state;
    run_scheduled(sp_target_best(SP_DEVICE_CPU), 30, "S(i,j) = A(i,j)*X(i,k)*Y(j,k)",
                  (const char *const[]){"A", "dbsr(3,2)", "S", "dbsr(3,2)", NULL},
                  "reorder(i0,j0,k,i1,j1); unroll(j1); unroll(i1)");
    /* and where the last level binds nothing that is not known before it */
#define LAST_OF_ONE                                                                                          \
    "(i,j)->(i/3:dense, j:packed[auto](pad=zero), i%3/1:packed[auto](pad=zero), i%1:loose(nonunique))"
    run_scheduled(sp_target_best(SP_DEVICE_CPU), 30, "S(i,j) = A(i,j)*X(i,k)*Y(j,k)",
                  (const char *const[]){"A", LAST_OF_ONE, "S", LAST_OF_ONE, NULL}, "vectorize(k,2)");
}

/* Rows that are longer than a vector, by the default of each statement: lanes of positions are for sums. */
static void long_rows(void **state)
{
    (void)state;
    static const char *const texts[] = {"y(i) = A(i,j)*x(j)", "m(i) = largest(A(i,j))",
                                        "m(i) = smallest(A(i,j)*x(j))"};
    static const char *const formats[] = {"csr", "coo", "bitmap"};
    for (size_t i = 0; i < SP_COUNT(texts) * SP_COUNT(formats); i++)
        run_scheduled(sp_target_best(SP_DEVICE_CPU), 300, texts[i / 3],
                      (const char *const[]){"A", formats[i % 3], NULL}, NULL);
    for (sp_target t = 0; t < SP_TARGETS; t++) /* bits as lanes, where they are not the default too */
        for (int i = 0; sp_target_device(t) == SP_DEVICE_CPU && sp_target_fits(t) && i < 2; i++)
            run_scheduled(t, 300, i ? "y(i) = 2*A(i,j) - A(i,j)*X(i,j)" : "y(i) = A(i,j)*x(j)",
                          (const char *const[]){"A", "bitmap", NULL}, "vectorize(j)");
}

/* Lanes along diagonals, of matrices with more rows than columns and the other way round, by one thread and by three. */
static void lanes_of_diagonals(void **state)
{
    (void)state;
    static const char *const texts[] = {"y(i) = A(i,j)*x(j)", "y(i) = A(i,j)*x(j)*z(i)",
                                        "m(i) = largest(A(i,j)*x(j))", "C(l,i) = A(i,j)*X(l,j)",
                                        "y(j) = A(i,j)*x(i)"};
    static const int steps[] = {-7, 0, 41};
    for (size_t i = 0; i < SP_COUNT(texts) * SP_COUNT(steps); i++)
        run_scheduled(sp_target_best(SP_DEVICE_CPU), steps[i % 3], texts[i / 3],
                      (const char *const[]){"A", "dia", NULL}, NULL);
}

/* Stored coordinates a range at a time: from where the range before ended, or from a search on; more ranges than one in either index, the last cut short. */
static void positions_in_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format, *schedule;
    } one[] = {
        {"C(i,k) = A(i,j)*B(j,k)", "csc",
         "split(j,j0,j1,32); split(i,i0,i1,16); reorder(k,j0,i0,j1,i1); vectorize(k,2)"},
        {"C(i,k) = A(i,j)*B(j,k)", "dcsc", "split(i,a,b,16); reorder(k,a,j,b); vectorize(k,2)"},
        {"C(i,k) = A(i,j)*B(j,k)", "csc, crd=u16", "split(i,a,b,8); reorder(k,a,j,b); vectorize(k)"},
        {"C(i,k) = A(i,j)*B(j,k)", "csr",
         "split(j,a,b,32); split(i,c,d,16); reorder(k,c,a,d,b); vectorize(k,2); threads(c)"},
        {"y(j) = A(i,j)*x(i)", "csr", "split(i,c,d,8); split(j,a,b,16); reorder(c,a,d,b)"},
    };
    for (size_t i = 0; i < SP_COUNT(one); i++)
        run_scheduled(sp_target_best(SP_DEVICE_CPU), 30, one[i].text,
                      (const char *const[]){"A", one[i].format, NULL}, one[i].schedule);
    run_scheduled(sp_target_best(SP_DEVICE_CPU), 300, "y(m,n) = x(m,k)*A(n,k)",
                  (const char *const[]){"A", "csc", "x", "panel", "y", "panel", NULL}, NULL);
    for (int t = 0; t < 3; t++) /* lanes of positions, and what is left of them */
        run_scheduled(sp_target_best(SP_DEVICE_CPU), 90 + t, "y(m,i) = A(i,j)*x(m,j)",
                      (const char *const[]){"A", t ? "csr" : "ell", NULL},
                      t == 1 ? "reorder(m,i,j); vectorize(j,3)" : "reorder(m,i,j); vectorize(j)");
}

/* Several positions of the result at a time: rows with fewer of them, lanes that are left, factors inside of the sum and outside of it. */
static void positions_together(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "C(i,j) = A(i,j)*X(i,k)*Y(j,k)", "C(i,j) = D(i,j) - A(i,j)*X(i,k)*Y(j,k)",
        "C(i,j) = 2*A(i,j)*b(i)*relu(A(i,j)*X(i,k))*Y(j,k)", "C(i,j) = b(j)*A(i,j)*Y(j,k)"};
    static const char *const formats[] = {"csr", "dcsr", "ell", "coo", "csc"};
    static const char *const schedules[] = {"reorder(i,j,k); vectorize(k,2); precompute(k); unroll(j,8)",
                                            "vectorize(k); unroll(j,3)", NULL};
    for (sp_target t = 0; t < SP_TARGETS; t++)
        for (size_t i = 0; sp_target_device(t) == SP_DEVICE_CPU && sp_target_fits(t) && i < SP_COUNT(texts);
             i++)
            for (size_t f = 0; f < SP_COUNT(formats); f++) {
                const char *schedule = schedules[i == 1 || f > 2 ? 2 : f]; /* of two nests: the default */
                run_scheduled(t, 20 + (int)f, texts[i], (const char *const[]){"A", formats[f], NULL},
                              schedule);
            }
}

/* All of the first 7 elements are infinite. */
static void run_infinite(sp_target t, const char *text, const sparta_tensor *operand, const char *schedule)
{
    special_case c = {
        .s = expression(text, strchr(text, 'A') ? (const char *const[]){"A", "csr", NULL} : NULL)};
    sparta_tensor got;
    for (int o = 1; o < c.s->operands; o++) ok(sp_special_shape(c.s, o, operand[o].dim));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    ok(sp_special_schedule(c.s, schedule, t));
    ok(sp_special_build(c.s, operand, t, &c.kernel));
    ok(sp_special_run(&c.kernel, NULL));
    ok(sp_special_result(&c.kernel, 0, &got));
    for (int j = 0; j < 7; j++) assert_true(((float *)got.data)[j] == INFINITY);
    sp_free(cx, got.data);
    end_case(&c);
}

/* Infinite factors of a sampled product, whose rows have 7 elements: some together, the others by themselves. Lanes that nothing came to have no part in it. */
static void infinite_factors(void **state)
{
    (void)state;
    static const char *const schedules[] = {NULL, "vectorize(k,2); precompute(k)",
                                            "reorder(i,j,k); vectorize(k); precompute(k); unroll(j,3)"};
    static float a[2 * 7], b[7], x[7 * 8];
    for (int j = 0; j < 7; j++) a[j] = a[7 + j] = b[j] = INFINITY;
    for (int k = 0; k < 7 * 8; k++) x[k] = 1;
    const sparta_tensor C = {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 7}, .stride = {7, 1}},
                        A = {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 7}, .stride = {7, 1}, .data = a},
                        X = {.dtype = SPARTA_F32, .rank = 2, .dim = {2, 8}, .stride = {8, 1}, .data = x},
                        Y = {.dtype = SPARTA_F32, .rank = 2, .dim = {7, 8}, .stride = {8, 1}, .data = x},
                        y = {.dtype = SPARTA_F32, .rank = 1, .dim = {7}, .stride = {1}, .data = b},
                        one = {.dtype = SPARTA_F32, .rank = 1, .dim = {2}, .stride = {1}, .data = x};
    for (sp_target t = 0; t < SP_TARGETS; t++) {
        if (sp_target_device(t) != SP_DEVICE_CPU || !sp_target_fits(t)) continue;
        for (size_t i = 0; i < SP_COUNT(schedules); i++) {
            run_infinite(t, "C(i,j) = A(i,j)*X(i,k)*Y(j,k)", (const sparta_tensor[]){C, A, X, Y},
                         schedules[i]);
            run_infinite(t, "C(i,j) = A(i,j)/d(i)*X(i,k)*Y(j,k)", (const sparta_tensor[]){C, A, one, X, Y},
                         schedules[i]);
        }
        run_infinite(t, "y(i) = b(i)*Y(i,k)*X(l,k)", (const sparta_tensor[]){y, y, Y, X},
                     "reorder(i,k,l); vectorize(k,2); precompute(l)");
    }
}

/* An index in as many parts as there are loops, each with the longest name that it may have. */
static void indices_in_many_parts(void **state)
{
    (void)state;
    const sp_target t = sp_target_best(SP_DEVICE_CPU);
    char text[1024];
    size_t n = 0;
    n += (size_t)snprintf(text, sizeof text, "split(i,a000000,b000000,2)");
    for (int i = 1; i < 22; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "; split(a%06d,a%06d,b%06d,2)", i - 1, i, i);
    run_scheduled(t, 30, "y(i) = x(i)", NULL, text);
    run_scheduled(t, 300, "y(j,i) = x(j,i)", NULL, "split(i,a,b,1024); split(b,c,d,64); vectorize(d)");
}

/* Whatever the lanes of the default are, they read types as they lie; a result that is read first has what was given for it. */
static void other_types(void **state)
{
    (void)state;
    static const char *const formats[] = {"bitmap", "csr", "coo", "dia", "ell", "hyb(1,2)"};
    for (sp_target t = 0; sp_target_device(t) == SP_DEVICE_CPU; t++) {
        if (!sp_target_fits(t)) continue;
        for (size_t i = 0; i < SP_COUNT(formats); i++) {
            run_on(t, "y(i) = A(i,j)*x(j)", (const char *const[]){"A", formats[i], "A", "f16", NULL});
            run_on(t, "y(i) = A(i,j)*x(j)", (const char *const[]){"A", formats[i], "x", "bf16", NULL});
        }
        run_on(t, "y(i) = y(i)*x(i)", (const char *const[]){"y", "f16", NULL});
        run_on(t, "z(i) = y(i); y(i) = A(i,j)*x(j)", (const char *const[]){"A", "csr", "y", "bf16", NULL});
    }
}

static void chosen_kernels_on_every_target(void **state)
{
    (void)state;
    for (sp_target t = 0; sp_target_device(t) == SP_DEVICE_CPU; t++) {
        if (!sp_target_fits(t)) continue;
        run_on(t, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "bsr(4,4)", NULL});
        run_on(t, "y(m,n) = x(m,k)*w(n,k)",
               (const char *const[]){"w", "strip(4)", "x", "panel", "y", "panel", NULL});
        run_on(t, "C(i,j) = S(i,j)*A(i,k)*B(j,k)",
               (const char *const[]){"S", "hyb(1,2)", "C", "hyb(1,2)", NULL});
        run_scheduled(t, 0, "C(i,j) = S(i,j)*S(j,i)",
                      (const char *const[]){"S", "hyb(1,2)", "C", "hyb(1,2)", NULL}, NULL);
        run_on(t, "C(i,l) = A(i,j,k)*X(j,l)*Y(k,l)", (const char *const[]){"A", "csf", NULL});
        run_on(t, "s = A(i,j)*B(i,j)", (const char *const[]){"A", "csr", "B", "csc", NULL});
        run_on(t, "s = A(i,j)*B(i,j)", (const char *const[]){"A", "csr", "B", "bitmap", NULL});
        /* names that the text has, too, or that begin alike */
        run_on(t, "y(q) = A(q,j)*x(j)", (const char *const[]){"A", "csr", NULL});
        run_on(t, "y(a,k) = A(a,j)*x(j,k)", (const char *const[]){"A", "csr", NULL});
        run_on(t, "y(v) = n*end*x(v)", NULL);
        run_on(t, "y(i) = n(i,n1)", NULL);
        run_on(t, "y(i) = sum0(i,j)", (const char *const[]){"sum0", "dcsr", NULL});
        run_on(t, "s = abcdefgh1(i,j)*abcdefgh2(i,j)",
               (const char *const[]){"abcdefgh1", "csr", "abcdefgh2", "csr", NULL});
        run_scheduled(t, 0, "s = A(i,j)*A(j,i)*A2(i,j)", (const char *const[]){"A", "csr", "A2", "csr", NULL},
                      NULL);
    }
}

/* A last block goes past the end: its slots there are no elements, and meet no infinity. */
static void last_blocks_and_infinity(void **state)
{
    (void)state;
    static float a[5 * 5], b[5 * 16];
    sparta_tensor got;
    special_case c = {.s =
                          expression("C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "bsr(4,4)", NULL})};
    a[0] = a[24] = 1;
    for (int k = 0; k < 16; k++) b[k] = 3, b[4 * 16 + k] = INFINITY;
    const sparta_tensor operand[] = {
        {.dtype = SPARTA_F32, .rank = 2, .dim = {5, 16}, .stride = {16, 1}},
        {.dtype = SPARTA_F32, .rank = 2, .dim = {5, 5}, .stride = {5, 1}, .data = a},
        {.dtype = SPARTA_F32, .rank = 2, .dim = {5, 16}, .stride = {16, 1}, .data = b}};
    for (int i = 1; i < 3; i++) ok(sp_special_shape(c.s, i, operand[i].dim));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    ok(sp_special_schedule(c.s, NULL, sp_target_best(SP_DEVICE_CPU)));
    ok(sp_special_build(c.s, operand, sp_target_best(SP_DEVICE_CPU), &c.kernel));
    ok(sp_special_run(&c.kernel, NULL));
    ok(sp_special_result(&c.kernel, 0, &got));
    for (int k = 0; k < 16; k++) {
        assert_true(((float *)got.data)[k] == 3);
        assert_true(((float *)got.data)[4 * 16 + k] == INFINITY);
    }
    sp_free(cx, got.data);
    end_case(&c);
}

/* Words: what is no whole number is close. */
static void words_of_expressions(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(9);
    special_case c = {.s = expression("C(i,j) = tanh(A(i,j))*exp(X(i,j)) + sqrt(abs(A(i,j)))",
                                      (const char *const[]){"A", "csr", NULL})};
    ok(sp_special_size(c.s, "i", 9));
    ok(sp_special_size(c.s, "j", 40));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    ok(sp_special_schedule(c.s, NULL, sp_target_best(SP_DEVICE_CPU)));
    make_operands(&c, &r, 50);
    ok(sp_special_build(c.s, c.operand, sp_target_best(SP_DEVICE_CPU), &c.kernel));
    ok(sp_special_run(&c.kernel, NULL));
    by_index(c.s, c.operand, &c.kernel);
    sparta_tensor got;
    ok(sp_special_result(&c.kernel, 0, &got));
    for (int64_t k = 0; k < sparta_tensor_elements(&got); k++) {
        const float want = ((float *)c.operand[0].data)[k];
        assert_true(fabsf(((float *)got.data)[k] - want) <= 2e-6f * (1 + fabsf(want)));
    }
    sp_free(cx, got.data);
    end_case(&c);
}

/* Tiles, sums that are computed first, sizes that are known: the same answers. */
static void tiles_and_sums_apart(void **state)
{
    (void)state;
    const sp_target t = sp_target_best(SP_DEVICE_CPU);
    run_scheduled(t, 30, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "bsr(4,2)", NULL},
                  "reorder(k,i0,j0,i1,j1); tensorize(i1,j1,k)");
    run_scheduled(t, 1, "C(i,j) = A(i,j)*X(i,k)*Y(j,k) - 2*A(i,j)*X(i,k)*Y(j,k)",
                  (const char *const[]){"A", "csr", NULL}, "precompute(k); vectorize(k,2); bound(k,39)");
    run_scheduled(t, 30, "C(i,l) = A(i,j,k)*X(j,l)*Y(k,l)", (const char *const[]){"A", "csf", NULL},
                  "reorder(l,i,j,k); vectorize(l,2); precompute(k)");
    run_scheduled(t, 30, "C(i,j) = b(i)*X(i,k)*Y(j,k)", NULL,
                  "split(j,u,v,16); reorder(i,u,k,v); vectorize(k,8); unroll(v); precompute(k)");
    run_scheduled(t, 0, "C(i,k) = A(i,j)*B(j,k)*z(k)", (const char *const[]){"A", "bsr(2,2)", NULL},
                  "reorder(k,i0,j0,j1,i1); vectorize(k,2); unroll(i1); precompute(j1)");
    special_case c = {.s = expression("y(i) = A(i,j)*x(j)", NULL)};
    sp_special_kernel k;
    for (int i = 0; i < 2; i++) ok(sp_special_size(c.s, c.s->index[i].name, 5));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    fails_saying(SPARTA_E_USAGE, "j has 5 values", sp_special_schedule(c.s, "bound(j,6)", t));
    c.s->index[1].size = -1;
    ok(sp_special_schedule(c.s, "bound(j,6)", t));
    c.s->index[1].size = 5;
    fails_saying(SPARTA_E_SHAPE, "bound(j,6), and j has 5 values", sp_special_bind(c.s, c.operand, &k));
    sp_special_close(&k);
    sp_special_free(c.s);
}

/* Elements that do not lie side by side do in a tile. */
static void tiles_of_operands(void **state)
{
    (void)state;
    const sp_target t = sp_target_best(SP_DEVICE_CPU);
    run_scheduled(t, 3, "C(n,m) = X(m,k)*A(n,k)", (const char *const[]){"A", "csr", NULL},
                  "bound(k,43); split(m,a,b,16); reorder(a,n,k,b); cache(X,a); vectorize(b); threads(a)");
    run_scheduled(t, 3, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "bsr(4,4)", NULL},
                  "split(k,a,b,32); reorder(a,i0,j0,i1,j1,b); cache(B,j0); vectorize(b,2)");
    run_scheduled(t, 3, "C(i,k) = X(i,j)*Y(k,j)", NULL,
                  "split(i,a,b,4); split(j,c,d,8); split(k,e,f,16); reorder(a,e,c,b,d,f); cache(X,c); "
                  "cache(Y,c); vectorize(f)");
}

/* Strips in scratch, on one thread and on several: columns that are no whole strip, rows that are cut as well. */
static void tiles_in_scratch(void **state)
{
    (void)state;
    static const char *const schedules[] = {
        "split(k,a,b,32); reorder(a,b,i,j); vectorize(b,2); cache(B,a,scratch); threads(i)",
        "split(k,a,b,32); reorder(a,b,i,j); vectorize(b,1); cache(B,a,scratch); threads(a)",
        "split(k,a,b,16); split(i,c,d,5); reorder(a,c,d,j,b); vectorize(b); cache(B,a,scratch)",
        "bound(j,43); split(k,a,b,16); reorder(a,b,i,j); vectorize(b); cache(B,a,scratch)"};
    for (size_t i = 0; i < SP_COUNT(schedules); i++)
        run_scheduled(sp_target_best(SP_DEVICE_CPU), 3, "C(i,k) = A(i,j)*B(j,k)",
                      (const char *const[]){"A", i % 2 ? "coo" : "csr", NULL}, schedules[i]);
    run_scheduled(sp_target_best(SP_DEVICE_CPU), 3, "C(i,k) = X(i,j)*Y(j,k)", NULL,
                  "split(j,c,d,8); split(k,e,f,16); reorder(c,e,i,d,f); cache(Y,e,scratch); vectorize(f)");
}

/* A matrix of features that the L2 cache does not hold, whose rows are read often, is gone through in strips that it holds; else not. */
static void strips_by_default(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(6);
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    const int64_t rows = (int64_t)sp_cpu_info()->l2 / (4 * 32);
    if (!rows) skip();
    for (int often = 0; often < 2; often++) {
        special_case c = {.s = expression("C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "csr", NULL})};
        sp_text text;
        ok(sp_special_size(c.s, "i", 3));
        ok(sp_special_size(c.s, "j", rows));
        ok(sp_special_size(c.s, "k", 71));
        sp_special_count(c.s, sp_special_find(c.s, "A"), often ? 16 * rows : rows);
        ok(sp_special_sized(c.s));
        ok(sp_special_lower(c.s));
        ok(sp_special_schedule(c.s, NULL, target));
        sp_text_init(&text, cx);
        sp_special_print(c.s, &text);
        assert_int_equal(!!strstr(sp_text_str(&text), "scratch_B"), often);
        sp_text_free(&text);
        make_operands(&c, &r, 5);
        ok(sp_special_build(c.s, c.operand, target, &c.kernel));
        ok(sp_special_run(&c.kernel, NULL));
        compare_case(&c, "strips");
        end_case(&c);
    }
}

/* Rows that are cut wherever they end, and pieces of them, on one thread and on several: the same answers. */
static void pieces_of_positions(void **state)
{
    (void)state;
    const sp_target t = sp_target_best(SP_DEVICE_CPU);
    static const char *const spmm[] = {"pos(j,p,A); split(p,a,b,3); reorder(i,a,k,b); vectorize(k,2)",
                                       "pos(j,p); split(p,a,b,6); split(b,c,d,2)",
                                       "fuse(i,j,f); split(f,a,b,7); reorder(a,b,k,i,j); vectorize(k,2)",
                                       "fuse(i,j,f); threads(f,temporaries)",
                                       "fuse(i,j,f); split(f,a,b,50); threads(a,temporaries)",
                                       "fuse(i,j,f); pos(j,p); split(p,a,b,3)",
                                       "reorder(k,i,j); fuse(k,i,f); split(f,a,b,10); threads(a)",
                                       "reorder(i,k,j); fuse(i,k,f); threads(f); vectorize(k)"};
    for (size_t i = 0; i < SP_COUNT(spmm); i++)
        run_scheduled(t, 30, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "csr", NULL}, spmm[i]);
    run_scheduled(t, 30, "C(i,j) = A(i,j)*X(i,k)*Y(j,k)", (const char *const[]){"A", "csr", "C", "csr", NULL},
                  "fuse(i,j,f); threads(f); vectorize(k,2)");
    run_scheduled(t, 30, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "bsr(2,3)", NULL},
                  "fuse(i0,j0,f); split(f,a,b,5); vectorize(k)");
    run_scheduled(t, 30, "C(i,k) = X(i,k)*Y(k,i)", NULL, "fuse(i,k,f); split(f,a,b,10)");
    run_scheduled(t, 30, "C(i,k) = X(i,k)*z(k)", NULL, "fuse(i,k,f); threads(f); vectorize(k,2)");
    run_scheduled(t, 30, "C(i,k) = X(i,k)*z(k)", NULL, "split(k,a,b,32); fuse(a,b,f); vectorize(b,2)");
}

/* Formats with zeros in them have an element in each row here: those zeros, less the largest of nothing, would be NaN. */
static void run_softmax(const char *format, bool zeros, const char *schedule)
{
    sp_rng r = sp_rng_seed(11);
    sparta_tensor got;
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    special_case c = {.s = expression(SOFTMAX, (const char *const[]){"P", format, "S", format, "E", format,
                                                                     "W", format, NULL})};
    for (int i = 0; i < c.s->indices; i++) ok(sp_special_size(c.s, c.s->index[i].name, 19 + i));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    must(sp_special_schedule(c.s, schedule, target), format);
    make_operands(&c, &r, 20);
    float *p = c.operand[sp_special_find(c.s, "P")].data;
    for (int i = 0; i < 19 * 20; i++) p[i] = p[i] != 0 || i % 20 == 7; /* a mask */
    if (!zeros) memset(p + 3 * 20, 0, 20 * sizeof *p);                 /* row 3 has nothing */
    must(sp_special_build(c.s, c.operand, target, &c.kernel), format);
    ok(sp_special_run(&c.kernel, NULL));
    by_index(c.s, c.operand, &c.kernel);
    const int at = sp_special_find(c.s, "O");
    ok(sp_special_result(&c.kernel, at, &got));
    for (int64_t k = 0; k < sparta_tensor_elements(&got); k++) {
        const float want = ((float *)c.operand[at].data)[k];
        if (!(fabsf(((float *)got.data)[k] - want) <= 4e-6f * (1 + fabsf(want))))
            fail_msg("%s: O[%lld] is %g, not %g", format, (long long)k, (double)((float *)got.data)[k],
                     (double)want);
    }
    sp_free(cx, got.data);
    end_case(&c);
}

/* Several nests in one function: parts of a format, statements that follow one another, all of a softmax. */
static void nests_in_one_function(void **state)
{
    (void)state;
    const sp_target t = sp_target_best(SP_DEVICE_CPU);
    run_scheduled(t, 30, "C(i,k) = A(i,j)*B(j,k)", (const char *const[]){"A", "hyb(1,2)", NULL},
                  "reorder(k,i,j); vectorize(k,2); threads(k); hfuse(k)");
    run_scheduled(t, 30, "y(i) = A(i,j)*x(j) + b(i); y(i) = relu(y(i))",
                  (const char *const[]){"A", "csr", NULL}, "threads(i); hfuse(i)");
    run_scheduled(t, 30, "m(i) = largest(A(i,j)); C(i,k) = A(i,j)*X(j,k)*m(i); y(i) = C(i,k)",
                  (const char *const[]){"A", "csr", NULL},
                  "1: reorder(i,j,k); vectorize(k,2); *: threads(i); hfuse(i)");
    run_softmax("csr", false, "0: vectorize(k,2); 5: vectorize(l,2); *: threads(i); hfuse(i)");
}

static void softmax_over_a_pattern(void **state)
{
    (void)state;
    static const char *const formats[] = {"csr", "coo", "bitmap", "dcsc", "bsr(4,3)", "hyb(1,2)", "ell"};
    for (size_t i = 0; i < SP_COUNT(formats); i++) run_softmax(formats[i], i > 3, NULL);
}

/* Every allocation of the way from text to storage fails once: the message says so, and nothing is lost. */
static sparta_status whole_way(const sparta_tensor *operand)
{
    sp_special *s;
    sp_special_kernel k = {0};
    sp_text text;
    SP_TRY(sp_special_parse(cx, "C(i,j) = S(i,j)*A(i,k)*B(j,k)", &s));
    sp_text_init(&text, cx);
    sparta_status status = sp_special_format(s, "S", "hyb(1,2)");
    if (!status) status = sp_special_format(s, "C", "hyb(1,2)");
    for (int i = 0; !status && i < s->indices; i++) status = sp_special_size(s, s->index[i].name, 8);
    if (!status) status = sp_special_sized(s);
    if (!status) status = sp_special_lower(s);
    if (!status) status = sp_special_schedule(s, NULL, SP_TARGET_AVX2);
    if (!status) sp_special_functions(s, "f", &text);
    if (!status) status = text.status;
    if (!status) status = sp_special_bind(s, operand, &k);
    if (k.s) sp_special_close(&k);
    sp_text_free(&text);
    sp_special_free(s);
    return status;
}

static void memory_that_fails(void **state)
{
    (void)state;
    static float x[64];
    sparta_tensor operand[SP_SPECIAL_OPERANDS] = {{0}};
    for (int i = 0; i < 64; i++) x[i] = (float)(i % 5 == 0);
    for (int i = 0; i < 4; i++)
        operand[i] = (sparta_tensor){
            .dtype = SPARTA_F32, .rank = 2, .dim = {8, 8}, .stride = {8, 1}, .data = i ? x : NULL};
    ok(whole_way(operand)); /* sums of formats stay with the context */
    const size_t held = sp_ctx_memory(cx);
    int failed = 0;
    for (uint64_t n = 1; n < 10000; n++) {
        const uint64_t before = sp_ctx_alloc_count(cx);
        sp_ctx_fail_alloc(cx, n, false);
        const sparta_status status = whole_way(operand);
        const bool reached = sp_ctx_alloc_count(cx) >= before + n;
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), held);
        if (!reached) break;
        assert_true(!status || status == SPARTA_E_MEMORY);
        failed += status != SPARTA_OK;
    }
    assert_true(failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_expressions, enter, leave),
        cmocka_unit_test_setup_teardown(deep_and_long_expressions_end, enter, leave),
        cmocka_unit_test_setup_teardown(formats_that_do_not_fit, enter, leave),
        cmocka_unit_test_setup_teardown(sizes_that_do_not_fit, enter, leave),
        cmocka_unit_test_setup_teardown(too_much_is_refused_before_it_is_built, enter, leave),
        cmocka_unit_test_setup_teardown(patterns_begin_empty, enter, leave),
        cmocka_unit_test_setup_teardown(every_rule_of_schedules, enter, leave),
        cmocka_unit_test_setup_teardown(golden_texts, enter, leave),
        cmocka_unit_test_setup_teardown(chosen_kernels_on_every_target, enter, leave),
        cmocka_unit_test_setup_teardown(other_types, enter, leave),
        cmocka_unit_test_setup_teardown(unrolled_sums_of_a_pattern, enter, leave),
        cmocka_unit_test_setup_teardown(long_rows, enter, leave),
        cmocka_unit_test_setup_teardown(lanes_of_diagonals, enter, leave),
        cmocka_unit_test_setup_teardown(positions_in_ranges, enter, leave),
        cmocka_unit_test_setup_teardown(positions_together, enter, leave),
        cmocka_unit_test_setup_teardown(infinite_factors, enter, leave),
        cmocka_unit_test_setup_teardown(indices_in_many_parts, enter, leave),
        cmocka_unit_test_setup_teardown(words_of_expressions, enter, leave),
        cmocka_unit_test_setup_teardown(softmax_over_a_pattern, enter, leave),
        cmocka_unit_test_setup_teardown(tiles_and_sums_apart, enter, leave),
        cmocka_unit_test_setup_teardown(pieces_of_positions, enter, leave),
        cmocka_unit_test_setup_teardown(nests_in_one_function, enter, leave),
        cmocka_unit_test_setup_teardown(last_blocks_and_infinity, enter, leave),
        cmocka_unit_test_setup_teardown(tiles_of_operands, enter, leave),
        cmocka_unit_test_setup_teardown(tiles_in_scratch, enter, leave),
        cmocka_unit_test_setup_teardown(strips_by_default, enter, leave),
        cmocka_unit_test_setup_teardown(memory_that_fails, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
