/* Another compiler's side of `sparta specialize`: a graph executor that knows nothing of sparta but the files it writes.
 *
 *     specialize make WORK          writes WORK/layer.txt and WORK/weights.safetensors, a small sub-graph with pruned weights
 *     sparta specialize WORK/layer.txt --weights WORK/weights.safetensors -o WORK/layer
 *     specialize run WORK/layer     reads plan.json and weights.bin, loads the kernels, runs them, compares with loops of its own
 *
 * Nothing but libc and dlopen: cc specialize.c -ldl -lm. docs/specialize.md says what the files are. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 48, IN = 256, HIDDEN = 512, OUT = 40 };

static void stop(const char *what, const char *which)
{
    fprintf(stderr, "specialize: %s %s\n", what, which);
    exit(1);
}

static char *path_of(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    if (!path) stop("no memory for", name);
    sprintf(path, "%s/%s", folder, name);
    return path;
}

/* ------------------------------------------------------------------ the sub-graph: y = softmax(relu(x w + b) v) */
static const char graph[] = "graph \"layer\"\n"
                            "input x: f32[48,256]\n"
                            "const w: f32[256,512] @\"w\"\n"
                            "const b: f32[512] @\"b\"\n"
                            "const v: f32[512,40] @\"v\"\n"
                            "node m: ? = MatMul(x, w) \"up\"\n"
                            "node a: ? = Add(m, b) \"bias\"\n"
                            "node h: ? = Relu(a) \"relu\"\n"
                            "node s: ? = MatMul(h, v) \"down\"\n"
                            "node y: ? = Softmax(s) \"softmax\"\n"
                            "output y\n";
static float x[TOKENS * IN], w[IN * HIDDEN], b[HIDDEN], v[HIDDEN * OUT];

/* The same numbers in both halves; of w every tenth block of 4 outputs is there, of v every fifth element. */
static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (1 << 23) - 1;
}
static void make_numbers(void)
{
    uint32_t r = 1;
    for (int i = 0; i < TOKENS * IN; i++) x[i] = next_number(&r);
    for (int i = 0; i < HIDDEN; i++) b[i] = next_number(&r) / 8;
    for (int i = 0; i < IN * HIDDEN / 4; i++) {
        const int there = next_number(&r) > 0.8f;
        for (int k = 0; k < 4; k++) w[4 * i + k] = there ? next_number(&r) : 0;
    }
    for (int i = 0; i < HIDDEN * OUT; i++) v[i] = next_number(&r) > 0.6f ? next_number(&r) : 0;
}

static void make(const char *folder)
{
    char head[512], *path = path_of(folder, "layer.txt");
    FILE *f = fopen(path, "wb");
    if (!f || fputs(graph, f) < 0 || fclose(f)) stop("cannot write", path);
    free(path);
    path = path_of(folder, "weights.safetensors");
    f = fopen(path, "wb");
    const size_t nw = sizeof w, nb = sizeof b, nv = sizeof v;
    const uint64_t n =
        (uint64_t)snprintf(head, sizeof head,
                           "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]},"
                           "\"b\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]},"
                           "\"v\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}}",
                           IN, HIDDEN, nw, HIDDEN, nw, nw + nb, HIDDEN, OUT, nw + nb, nw + nb + nv);
    if (!f || fwrite(&n, 8, 1, f) != 1 || fwrite(head, n, 1, f) != 1 || fwrite(w, nw, 1, f) != 1 ||
        fwrite(b, nb, 1, f) != 1 || fwrite(v, nv, 1, f) != 1 || fclose(f))
        stop("cannot write", path);
    free(path);
}

/* ------------------------------------------------------------------ files, and as much of JSON as a plan has */
static char *read_whole(const char *folder, const char *name)
{
    char *path = path_of(folder, name), *data = NULL;
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) stop("cannot read", path);
    const long n = ftell(f);
    rewind(f);
    if (n < 0 || posix_memalign((void **)&data, 64, (size_t)n + 1) ||
        (n && fread(data, (size_t)n, 1, f) != 1))
        stop("cannot read", path);
    data[n] = 0;
    fclose(f);
    free(path);
    return data;
}

typedef struct
    json { /* a value: its first child and the next of its siblings; texts and numbers as they stand */
    char *key, *text;
    struct json *child, *next;
} json;

static char *skip(char *p)
{
    return p + strspn(p, " \t\r\n,:");
}
static char *quoted(char *p, char **out) /* escapes stay as they are: names of this graph have none */
{
    *out = ++p;
    while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
    if (!*p) stop("plan.json ends", "in a string");
    *p = 0;
    return p + 1;
}
static char *parse(char *p, json **out)
{
    json *j = calloc(1, sizeof *j), **last = &j->child;
    if (!j) stop("no memory for", "the plan");
    *out = j;
    if (*p == '"') return quoted(p, &j->text);
    if (*p != '{' && *p != '[') {
        const size_t n = strcspn(p, ",]} \n");
        if (!(j->text = strndup(p, n)) || !n) stop("plan.json is", "no plan");
        return p + n;
    }
    const char end = *p == '{' ? '}' : ']';
    for (p = skip(p + 1); *p != end; p = skip(p)) {
        char *key = NULL;
        if (!*p) stop("plan.json ends", "too early");
        if (end == '}') p = skip(quoted(p, &key));
        p = parse(p, last);
        (*last)->key = key;
        last = &(*last)->next;
    }
    return p + 1;
}
static json *get(const json *j, const char *key)
{
    for (json *c = j->child; c; c = c->next)
        if (c->key && !strcmp(c->key, key)) return c;
    stop("plan.json has no", key);
    return NULL;
}
static const char *text(const json *j, const char *key)
{
    return get(j, key)->text;
}

/* ------------------------------------------------------------------ the executor: tensors by name, steps in order */
typedef struct tensor {
    const char *value, *array;
    void *data;
    struct tensor *next;
} tensor;
static tensor *tensors;

static tensor *find(const char *value, const char *array)
{
    for (tensor *t = tensors; t; t = t->next)
        if (!strcmp(t->value, value) && !strcmp(t->array, array)) return t;
    return NULL;
}
static tensor *add(const char *value, const char *array, void *data)
{
    tensor *t = malloc(sizeof *t);
    if (!t) stop("no memory for", value);
    *t = (tensor){value, array, data, tensors};
    return tensors = t;
}

static size_t width(const char *dtype)
{
    return strstr(dtype, "64") ? 8 : strstr(dtype, "32") ? 4 : strstr(dtype, "16") ? 2 : 1;
}

/* Where an argument is: in the file of constants, scratch, or a tensor that is made when it is first met. */
static void *pointer(const json *argument, char *weights)
{
    const char *role = text(argument, "role"), *value = text(argument, "value");
    const long long elements = atoll(text(argument, "elements"));
    void *data = NULL;
    if (!strcmp(role, "constant")) return weights + atoll(text(argument, "offset"));
    tensor *t = strcmp(role, "scratch") ? find(value, text(argument, "array")) : NULL;
    if (t) return t->data;
    if (elements < 0) stop("this executor stores no sparse activations:", value);
    if (posix_memalign(&data, 64, (size_t)elements * width(text(argument, "dtype")) + 64))
        stop("no memory for", value);
    return strcmp(role, "scratch") ? add(value, text(argument, "array"), data)->data : data;
}

static void run_step(const json *step, void *library, char *weights)
{
    void *argument[64];
    int n = 0;
    for (const json *a = get(step, "arguments")->child; a; a = a->next) {
        if (n == 64) stop("too many arguments:", text(step, "name"));
        if (n == 1 && !strcmp(text(step, "symbol"), "null")) { /* the same memory, another shape */
            add(text(a, "value"), text(a, "array"), argument[0]);
            return;
        }
        argument[n++] = pointer(a, weights);
    }
    void *address = dlsym(library, text(step, "symbol"));
    void (*kernel)(void *const *, long, long, long);
    if (!address) stop("no function", text(step, "symbol"));
    memcpy(&kernel, &address, sizeof kernel);
    for (long phase = 0; phase < atol(text(step, "phases")); phase++) kernel(argument, phase, 0, 1);
}

static void *load(const char *folder, const json *plan)
{
    for (const json *c = get(plan, "code")->child; c; c = c->next) {
        if (strcmp(text(c, "checked"), "true")) continue; /* for another machine */
        char *path = path_of(folder, text(c, "code"));
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) stop("cannot load", path);
        printf("kernels for %s\n", text(c, "target"));
        free(path);
        return library;
    }
    stop("no code runs here; specialize again with --target", "portable");
    return NULL;
}

/* ------------------------------------------------------------------ the same with plain loops */
static void reference(float *y)
{
    static double h[HIDDEN], s[OUT];
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0, most = -1e30;
        for (int j = 0; j < HIDDEN; j++) {
            h[j] = (double)b[j];
            for (int i = 0; i < IN; i++) h[j] += (double)x[t * IN + i] * (double)w[i * HIDDEN + j];
            if (h[j] < 0) h[j] = 0;
        }
        for (int o = 0; o < OUT; o++) {
            s[o] = 0;
            for (int j = 0; j < HIDDEN; j++) s[o] += h[j] * (double)v[j * OUT + o];
            if (s[o] > most) most = s[o];
        }
        for (int o = 0; o < OUT; o++) sum += s[o] = exp(s[o] - most);
        for (int o = 0; o < OUT; o++) y[t * OUT + o] = (float)(s[o] / sum);
    }
}

static void run(const char *folder)
{
    static float want[TOKENS * OUT];
    char *weights = read_whole(folder, "weights.bin");
    json *plan;
    parse(read_whole(folder, "plan.json"), &plan);
    void *library = load(folder, plan);
    add("x", "values", x);
    for (const json *s = get(plan, "steps")->child; s; s = s->next) {
        printf("%-10s %s\n", text(s, "name"), text(s, "what"));
        run_step(s, library, weights);
    }
    const tensor *y = find("y", "values");
    if (!y) stop("the plan makes no", "y");
    reference(want);
    double worst = 0;
    for (int i = 0; i < TOKENS * OUT; i++)
        worst = fmax(worst, fabs((double)((float *)y->data)[i] - (double)want[i]));
    printf("largest difference to plain loops: %.1e\n", worst);
    if (!(worst < 1e-4)) stop("the answers", "differ");
}

int main(int argc, char **argv)
{
    make_numbers();
    if (argc == 3 && !strcmp(argv[1], "make"))
        make(argv[2]);
    else if (argc == 3 && !strcmp(argv[1], "run"))
        run(argv[2]);
    else
        stop("usage: specialize make WORK, or specialize run", "FOLDER");
    return 0;
}
