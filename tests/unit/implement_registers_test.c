/* The compiled linear kernels keep their accumulators in registers: looks at the compiler's assembly of the innermost loop.
 *
 * 16 multiply-adds need 4 rows of tokens, 4 weights and (sparse) one coordinate from memory: 9 operands. A compiler that folds a row's
 * load into each of its uses, or stores accumulators to the stack in every round, does several times as much and halves the
 * speed; the answers stay right, so only this test sees it.
 */
#include "implement_bed.h"
#include "jit/inside.h"

enum { MOST_LINES = 60000, MOST_ARGV = 64 };

typedef struct loop { /* lines (first, last): from a label to the jump back to it */
    int first, last;
    int fma, other;    /* multiply-adds onto an accumulator; other ones (polynomials of an epilogue) */
    int memory, stack; /* instructions with a memory operand; those of vectors on the stack */
    int weights;       /* that are spread over a vector */
} loop;

static char *line[MOST_LINES];
static int n_lines;

static void read_lines(char *text)
{
    n_lines = 0;
    for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
        p += strspn(p, " \t");
        if (*p == '#' || !*p || (*p == '.' && !strchr(p, ':'))) continue; /* comments and directives */
        assert_true(n_lines < MOST_LINES);
        line[n_lines++] = p;
    }
}

static bool is_label(const char *s)
{
    return strcspn(s, ":") < strcspn(s, " \t\"");
}
static bool has_vector(const char *s)
{
    return strstr(s, "%zmm") != NULL;
}
static bool on_stack(const char *s)
{
    return strstr(s, "%rsp") || strstr(s, "%rbp") || strstr(s, "%esp");
}

/* The line of the label that a jump goes to, or -1. */
static int jumps_to(const char *s)
{
    char label[64];
    if (*s != 'j' || sscanf(s, "%*s %62[^ \t,]", label) != 1) return -1;
    const size_t n = strlen(label);
    for (int i = 0; i < n_lines; i++)
        if (is_label(line[i]) && !strncmp(line[i], label, n) && line[i][n] == ':') return i;
    return -1;
}

static bool reads_memory(const char *s)
{
    if (!strncmp(s, "lea", 3) || !strncmp(s, "nop", 3) || !strncmp(s, "prefetch", 8) || *s == 'j')
        return false;
    return strchr(s, '(') != NULL;
}

static loop look_at(int first, int last)
{
    loop l = {.first = first, .last = last};
    for (int i = first + 1; i < last; i++) {
        if (!strncmp(line[i], "vfmadd231ps", 11))
            l.fma++;
        else if (!strncmp(line[i], "vfmadd", 6) || !strncmp(line[i], "vfnmadd", 7))
            l.other++;
        if (reads_memory(line[i])) l.memory++;
        if (!strncmp(line[i], "vbroadcastss", 12) || strstr(line[i], "{1to16}")) l.weights++;
        if (reads_memory(line[i]) && has_vector(line[i]) && on_stack(line[i])) l.stack++;
    }
    return l;
}

static bool innermost(int first, int last)
{
    for (int i = first + 1; i < last; i++) {
        const int to = jumps_to(line[i]);
        if (to > first && to <= i) return false;
    }
    return true;
}

/* Is the loop that ends in line i one of a product: innermost, whole rounds of 16 accumulations and no other arithmetic of its kind? */
static bool is_product(int i, loop *out)
{
    const int to = jumps_to(line[i]);
    if (to < 0 || to > i || !innermost(to, i)) return false;
    *out = look_at(to, i);
    return out->fma >= 16 && !out->other;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long n = ftell(f);
    rewind(f);
    char *text = calloc(1, (size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

/* Words of `flags` behind argv[n]; words that would make a shared object of it are left out. */
static int add_words(const char **argv, int n, char *flags)
{
    for (char *word = strtok(flags, " "); word; word = strtok(NULL, " "))
        if (strcmp(word, "-shared") && strcmp(word, "-nostdlib")) argv[n++] = word;
    assert_true(n < MOST_ARGV - 8);
    return n;
}

/* Assembly of a kernel's text with the flags that jit uses; free it. NULL: no compiler for the target here. */
static char *assembly(const char *kernel, const char *parameters)
{
    char folder[] = "/tmp/sparta-registers-XXXXXX", c[64], s[64], common[512], own[256];
    const char *argv[MOST_ARGV];
    sp_jit_state state;
    sp_text text, said;
    int n = 0, code = -1;
    sp_jit_describe(cx, &state);
    if (!state.compiler[0] || !sp_target_fits(SP_TARGET_AVX512)) {
        print_message("skipped: %s\n",
                      state.compiler[0] ? "this machine has no AVX-512" : "there is no compiler");
        return NULL;
    }
    assert_non_null(mkdtemp(folder));
    snprintf(c, sizeof c, "%s/k.c", folder);
    snprintf(s, sizeof s, "%s/k.s", folder);
    sp_text_init(&text, cx);
    sp_text_init(&said, cx);
    ok(sp_implement_text(kernel, parameters, SP_TARGET_AVX512, &text));
    write_file(c, sp_text_str(&text));
    snprintf(common, sizeof common, "%s", sp_compiler_flags(SP_DEVICE_CPU));
    snprintf(own, sizeof own, "%s", sp_target_flags(SP_TARGET_AVX512));
    argv[n++] = state.compiler;
    n = add_words(argv, n, common);
    n = add_words(argv, n, own);
    argv[n++] = c, argv[n++] = "-S", argv[n++] = "-o", argv[n++] = s, argv[n] = NULL;
    ok(sp_spawn(cx, argv, &(sp_spawn_options){.timeout = 60}, &said, &code));
    if (code) fail_msg("%s: %s", state.compiler, sp_text_str(&said));
    char *out = read_file(s);
    unlink(c), unlink(s), rmdir(folder);
    sp_text_free(&text);
    sp_text_free(&said);
    return out;
}

/* Where a panel has one vector of tokens, every multiply-add has a weight of its own, where it has two, every other one: 12 and 4 more, with the pointers of
 * strips side by side. */
static void judge(const loop *l, const char *parameters, int most)
{
    const int own = l->weights == l->fma ? 12 : l->weights * 2 == l->fma ? 4 : 0;
    const bool bad = l->stack || l->memory * 16 > (most + own) * l->fma;
    for (int i = l->first; bad && i <= l->last; i++) print_error("%s\n", line[i]);
    if (l->stack)
        fail_msg("linear %s: %d vectors go over the stack in the innermost loop", parameters, l->stack);
    if (bad) fail_msg("linear %s: %d memory operands for %d multiply-adds", parameters, l->memory, l->fma);
}

/* At most `most` memory operands for 16 multiply-adds, in every loop of a product; `fewer`: a panel that is not full has loops of its own, for one
 * vector of tokens and for three. */
static void keeps_registers(const char *parameters, int most, bool fewer)
{
    char *text = assembly("linear", parameters);
    int products = 0, one = 0, three = 0;
    loop l;
    if (!text) skip();
    read_lines(text);
    for (int i = 0; i < n_lines; i++)
        if (is_product(i, &l)) {
            judge(&l, parameters, most);
            products++;
            one += l.weights == l.fma;
            three += l.fma == 24;
        }
    if (!products) fail_msg("linear %s: no innermost loop has 16 multiply-adds", parameters);
    if (fewer && (!one || !three)) fail_msg("linear %s: a panel that is not full has no loop", parameters);
    free(text);
}

static void sparse_products_stay_in_registers(void **state)
{
    (void)state;
    keeps_registers("FORM=1 CRD=2 EPILOGUE=v STAT=0", 9, false);
}

static void dense_products_stay_in_registers(void **state)
{
    (void)state;
    keeps_registers("FORM=0 CRD=2 EPILOGUE=v STAT=0", 9, true);
}

/* Behind 16 multiply-adds a pointer that lives on the stack (a load and a store) is not felt; a vector would be. */
static void epilogues_cost_no_vectors(void **state)
{
    (void)state;
    keeps_registers("FORM=1 CRD=4 EPILOGUE=word_add(word_gelu(v),residual) STAT=1", 11, false);
    keeps_registers("FORM=0 CRD=2 EPILOGUE=word_add(word_tanh(v),residual) STAT=1", 11, true);
}

/* The test itself: it must see what it looks for. */
static void sees_a_spill(void **state)
{
    (void)state;
    char text[] = "f:\n\t.cfi_startproc\n.L2:\n\tvmovups (%rdi), %zmm1\n.L3:\n\tvfmadd231ps %zmm1, %zmm2, "
                  "%zmm3\n\tvfmadd231ps (%rax){1to16}, %zmm2, %zmm4\n"
                  "\tvmovaps %zmm3, 64(%rsp)\n\tleaq 64(%rsp), %rdx\n\tincq %rax\n\tjne .L3\n\tvmovups "
                  "%zmm4, (%rsp)\n\tjmp .L2\n";
    read_lines(text);
    const loop l = look_at(3, 9);
    assert_true(innermost(3, 9) && !innermost(1, 11));
    assert_int_equal(jumps_to(line[9]), 3);
    assert_int_equal(jumps_to(line[11]), 1);
    assert_int_equal(l.fma, 2);
    assert_int_equal(l.memory, 2);
    assert_int_equal(l.stack, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_products_stay_in_registers),
        cmocka_unit_test(dense_products_stay_in_registers),
        cmocka_unit_test(epilogues_cost_no_vectors),
        cmocka_unit_test(sees_a_spill),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
