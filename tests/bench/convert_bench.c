/* Our side of tools/bench_formats.py: converts one matrix over and over and says how long it took.
 *
 *     load ROWS COLS N FILE       entries: int32 rows, int32 columns, float32 values, in any order
 *     source FORMAT               what the next ones convert from
 *     time THREADS SECONDS FORMAT best and median seconds of as many conversions as fit into SECONDS, output arrays
 *                                 allocated and freed each time; and the path they took
 *     copy MIB SECONDS            bytes a second, read and written, of a copy between two arrays
 *
 * One line of answer a line of question; the first mistake ends it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/convert.h"

#define MOST_RUNS 10000

static sparta_ctx *cx;
static sp_packed entries, source;
static bool has_source;
static sp_pool *pool[9];

static void need(sparta_status status)
{
    if (status == SPARTA_OK) return;
    fprintf(stderr, "convert_bench: %s\n", sparta_message(cx));
    exit(1);
}

static sp_format format_of(const char *text)
{
    sp_format f;
    need(sp_format_parse(cx, text, &f));
    return f;
}

static void load(long long rows, long long cols, int64_t n, const char *path)
{
    FILE *f = fopen(path, "rb");
    sparta_tensor all;
    need(f ? SPARTA_OK : sp_fail(cx, SPARTA_E_IO, "%s: cannot be opened", path));
    sp_packed_free(cx, &entries);
    entries = (sp_packed){
        .format = format_of("(i,j)->(i:compressed(nonunique,nonordered), j:singleton(nonordered,soa))"),
        .dtype = SPARTA_F32,
        .rank = 2,
        .dim = {rows, cols}};
    need(sp_tensor_alloc(cx, SPARTA_I32, 1, &(int64_t){2}, &entries.pos[0]));
    ((int32_t *)entries.pos[0].data)[1] = (int32_t)n;
    for (int k = 0; k < 3; k++) {
        need(sp_tensor_alloc(cx, k < 2 ? SPARTA_I32 : SPARTA_F32, 1, &n, &all));
        if (fread(all.data, 4, (size_t)n, f) != (size_t)n)
            need(sp_fail(cx, SPARTA_E_IO, "%s: too short", path));
        *(k < 2 ? &entries.crd[k] : &entries.values) = all;
    }
    fclose(f);
    need(sp_packed_verify(cx, &entries));
    printf("loaded %lld\n", (long long)n);
}

/* "as loaded": the entries themselves. */
static void set_source(const char *text)
{
    if (has_source) sp_packed_free(cx, &source);
    has_source = false;
    if (strcmp(text, "as loaded")) {
        sp_format f = format_of(text);
        need(sp_store_convert(cx, &entries, &f, NULL, &source));
        has_source = true;
    }
    printf("source %s\n", text);
}

static const sp_packed *from(void)
{
    return has_source ? &source : &entries;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How convert.h gets from one to the other. */
static const char *path(const sp_format *source_format, const sp_format *to)
{
    sp_storage s, t;
    if (!sp_storage_of(source_format, &s) || !sp_storage_of(to, &t)) return "generic";
    if (s.turned == t.turned || t.kind == SP_STORAGE_DENSE) return "rows";
    return t.kind == SP_STORAGE_CSR ? "turn" : "turn, then rows";
}

static void time_it(const char *text, int threads, double seconds)
{
    static double t[MOST_RUNS];
    int n = 0;
    sp_format f = format_of(text);
    if (threads > 1 && !pool[threads]) pool[threads] = sp_pool_create(cx, threads);
    if (threads > 1 && !pool[threads]) need(sp_ctx_status(cx));
    for (double end = sp_now() + seconds; n < 3 || (sp_now() < end && n < MOST_RUNS); n++) {
        sp_packed out;
        double start = sp_now();
        need(sp_store_convert(cx, from(), &f, threads > 1 ? pool[threads] : NULL, &out));
        sp_packed_free(cx, &out);
        t[n] = sp_now() - start;
    }
    qsort(t, (size_t)n, sizeof t[0], by_size);
    printf("%.9f %.9f %s\n", t[0], t[n / 2], path(&from()->format, &f));
}

static void copy(size_t mib, double seconds)
{
    size_t size = mib << 20;
    char *a = sp_zalloc(cx, size), *b = sp_zalloc(cx, size);
    if (!a || !b) need(sp_ctx_status(cx));
    double best = 1e9;
    memset(a, 1, size);
    memset(b, 1, size);
    for (double end = sp_now() + seconds; best == 1e9 || sp_now() < end;) {
        double start = sp_now();
        memcpy(b, a, size);
        __asm__ volatile("" ::"r"(b) : "memory");
        best = SP_MIN(best, sp_now() - start);
    }
    printf("%.6g\n", 2.0 * (double)size / best);
    sp_free(cx, a);
    sp_free(cx, b);
}

int main(void)
{
    char line[600], text[400], path[400];
    long long rows, cols, n;
    int threads;
    double seconds;
    cx = sparta_ctx_create(NULL);
    if (!cx) return 1;
    /* The C library keeps what is freed up to the size of the largest so far, as in any process that has run for a while (Python's, at the
     * other end). */
    void *volatile large = malloc(31 << 20); /* volatile: the compiler would leave the pair out */
    free(large);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "load %lld %lld %lld %399[^\n]", &rows, &cols, &n, path) == 4)
            load(rows, cols, n, path);
        else if (sscanf(line, "source %399[^\n]", text) == 1)
            set_source(text);
        else if (sscanf(line, "time %d %lf %399[^\n]", &threads, &seconds, text) == 3 && threads >= 1 &&
                 threads <= 8)
            time_it(text, threads, seconds);
        else if (sscanf(line, "copy %lld %lf", &n, &seconds) == 2)
            copy((size_t)n, seconds);
        else
            need(sp_fail(cx, SPARTA_E_USAGE, "'%s' is no command", line));
        fflush(stdout);
    }
    if (has_source) sp_packed_free(cx, &source);
    sp_packed_free(cx, &entries);
    for (int i = 0; i < 9; i++) sp_pool_free(pool[i]);
    sparta_ctx_free(cx);
    return 0;
}
