/* What a file is, and which sizes its symbols get when nobody says. */
#include "import/import.h"
#include "measure/measure.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first bytes of a regular file. Anything else (a pipe, a device) could keep us waiting for ever:
 * O_NONBLOCK and refuse. */
static sparta_status first_bytes(sparta_ctx *cx, const char *path, uint8_t *head, size_t size)
{
    struct stat s;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sp_fail(cx, SPARTA_E_IO, "%s: cannot be opened: %s; look at the path", path, strerror(errno));
    bool regular = !fstat(fd, &s) && S_ISREG(s.st_mode);
    if (regular) n = read(fd, head, size);
    close(fd);
    if (!regular)
        return sp_fail(cx, SPARTA_E_IO, "%s: is no regular file; give a model, a package or an array", path);
    if (n < 0) return sp_fail(cx, SPARTA_E_IO, "%s: cannot be read; look at its disk", path);
    if (n == 0)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: is empty; give a model, a package or an array", path);
    return SPARTA_OK;
}

/* A program of torch.export is a zip archive, as arrays are. */
static sparta_status kind_of_archive(sparta_ctx *cx, const char *path, sparta_file_kind *out)
{
    bool model;
    SP_TRY(sp_import_is_program(cx, path, &model));
    *out = model ? SPARTA_FILE_ONNX : SPARTA_FILE_NPZ;
    return SPARTA_OK;
}

sparta_status sparta_file_kind_of(sparta_ctx *cx, const char *path, sparta_file_kind *out)
{
    uint8_t head[8] = {0};
    SP_TRY(first_bytes(cx, path, head, sizeof head));
    if (!memcmp(head, "SPARTA", 6)) /* the rest of the magic is for the package's reader to check */
        *out = SPARTA_FILE_PACKAGE;
    else if (!memcmp(head, "\x93NUMPY", 6))
        *out = SPARTA_FILE_NPY;
    else if (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4))
        return kind_of_archive(cx, path, out);
    else
        *out = SPARTA_FILE_ONNX;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ symbols */

typedef struct found {
    int n, most;
    const char **name;
} found;

static void count(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
}

static void keep(void *arg, const char *name)
{
    found *f = arg;
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->name[i], name)) return;
    if (f->n < f->most) f->name[f->n++] = name;
}

static void each_symbol(const sp_graph *g, void (*fn)(void *, const char *), void *arg)
{
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) sp_expr_symbols(g->input[i]->dims.dim[d], fn, arg);
}

sparta_status sp_graph_symbols(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const char *const **out,
                               int *n)
{
    found f = {0};
    each_symbol(g, count, &f.most);
    f.name = sp_arena_array(arena, (size_t)f.most + 1, sizeof *f.name);
    SP_NEED(cx, f.name);
    each_symbol(g, keep, &f);
    for (int i = 0; i < f.n; i++) {
        f.name[i] = sp_arena_string(arena, f.name[i]);
        SP_NEED(cx, f.name[i]);
    }
    *out = f.name;
    *n = f.n;
    return SPARTA_OK;
}

/* The model has few symbols: name them all. */
static sparta_status unknown_symbol(sparta_ctx *cx, const char *given, const char *const *name, int n)
{
    const char *near = sp_nearest(given, name, n);
    if (near)
        return sp_fail(cx, SPARTA_E_USAGE, "dim %s: the model has no such symbol; did you mean %s?", given,
                       near);
    if (!n)
        return sp_fail(cx, SPARTA_E_USAGE, "dim %s: all sizes of the model are fixed; leave it out", given);
    sp_text all;
    sp_text_init(&all, cx);
    for (int i = 0; i < n; i++) sp_text_printf(&all, "%s%s", i ? ", " : "", name[i]);
    sparta_status status = sp_fail(cx, SPARTA_E_USAGE, "dim %s: the model has no such symbol; it has %s",
                                   given, sp_text_str(&all));
    sp_text_free(&all);
    return status;
}

static sparta_status check_names(sparta_ctx *cx, const sp_graph *g, const sp_bindings *given,
                                 const char *const *name, int n)
{
    for (int i = 0; i < given->n; i++) {
        bool known = false;
        for (int j = 0; j < g->n_fixed; j++) known |= !strcmp(given->name[i], g->fixed[j].symbol);
        for (int j = 0; j < n; j++) known |= !strcmp(given->name[i], name[j]);
        if (!known) return unknown_symbol(cx, given->name[i], name, n);
    }
    return SPARTA_OK;
}

/* Sequences of 128, images of 224 by 224, 1 of everything else. */
static int64_t usual(const sp_graph *g, const char *name)
{
    if (sp_symbol_counts_tokens(g, name)) return 128;
    return sp_symbol_is_image_side(g, name) ? 224 : 1;
}

static sparta_status size_of(sparta_ctx *cx, const sp_graph *g, const sp_bindings *given, const char *name,
                             int64_t *out, bool *fixed)
{
    for (int i = 0; i < given->n; i++) {
        if (strcmp(given->name[i], name)) continue;
        const sp_bound bound = sp_symbol_bound(g, name);
        SP_TRY(sp_bound_check(cx, &bound, given->value[i]));
        *out = given->value[i];
        *fixed = true;
        return SPARTA_OK;
    }
    *out = sp_symbol_within(g, name, usual(g, name));
    return SPARTA_OK;
}

sparta_status sp_sizes_fill(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const sp_bindings *given,
                            sp_bindings *out)
{
    const char *const *name;
    int n;
    SP_TRY(sp_graph_symbols(cx, arena, g, &name, &n));
    SP_TRY(check_names(cx, g, given, name, n));
    int64_t *value = sp_arena_array(arena, (size_t)n + 1, sizeof *value);
    SP_NEED(cx, value);
    bool *fixed = sp_arena_array(arena, (size_t)n + 1, sizeof *fixed);
    SP_NEED(cx, fixed);
    for (int i = 0; i < n; i++) SP_TRY(size_of(cx, g, given, name[i], &value[i], &fixed[i]));
    SP_TRY(sp_sizes_that_run(cx, g, n, name, fixed, value));
    *out = (sp_bindings){n, name, value};
    return SPARTA_OK;
}

sparta_status sp_sizes_some(sparta_ctx *cx, const sp_bindings *sizes)
{
    for (int i = 0; i < sizes->n; i++)
        if (sizes->value[i] == 0)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "dim %s: 0 leaves nothing to compare or to time; give 1 or more", sizes->name[i]);
    return SPARTA_OK;
}
