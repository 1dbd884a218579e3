/* The tensor of a file, whichever kind it is, as a packed one to convert from. Sparse files stay their entries: nothing is
 * made dense here.
 *
 *   .npy                         dense levels
 *   .npz  .safetensors           the only array, or --tensor NAME: dense levels
 *   .npz of sparta format pack   as it is stored
 *   .npz of SciPy  .mtx  .smtx   entries, as coo
 */
#include "verbs.h"
#include <string.h>

static sparta_status not_ours(cli *c, const char *path)
{
    return sp_fail(c->cx, SPARTA_E_FORMAT,
                   "%s: is no packed tensor of ours; make one with sparta format pack", path);
}

/* ------------------------------------------------------------------ dense arrays */

static sparta_status view_dense(cli *c, const char *path, const sparta_tensor *t, cli_source *s)
{
    if (t->rank < 1)
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED, "%s: the array has no dimensions; formats store 1 to %d",
                       path, SPARTA_RANK);
    SP_TRY(sp_tensor_plain_zeros(c->cx, t, &s->plain, &t));
    s->packed = sp_store_of_dense(t);
    return SPARTA_OK;
}

static sparta_status no_such(cli *c, const char *path, const char *name, const sp_arrays *a)
{
    const char **names = sp_arena_array(c->arena, (size_t)a->n + 1, sizeof *names);
    char hint[SP_HINT];
    SP_NEED(c->cx, names);
    for (int i = 0; i < a->n; i++) names[i] = a->entry[i].name;
    return sp_fail(c->cx, SPARTA_E_USAGE, "%s: has no array '%.100s'%s", path, name,
                   sp_did_you_mean(name, names, a->n, "; `sparta inspect` lists what it has", hint));
}

/* The array that --tensor names, or the only one. */
static sparta_status choose_array(cli *c, const char *path, const sp_arrays *a, const sparta_tensor **out)
{
    const char *name = cli_text(c, CLI_TENSOR, NULL);
    if (!name && a->n != 1)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "%s: holds %d arrays; say which with --tensor NAME, `sparta inspect` lists them", path,
                       a->n);
    for (int i = 0; i < a->n; i++)
        if (!name || !strcmp(a->entry[i].name, name)) {
            *out = &a->entry[i].tensor;
            return SPARTA_OK;
        }
    return no_such(c, path, name, a);
}

/* ------------------------------------------------------------------ the kinds of files */

static sparta_status view_coo(cli *c, const char *path, cli_source *s)
{
    if (s->coo.dense) return view_dense(c, path, &s->coo.values, s);
    s->packed = sp_store_of_coo(&s->coo, s->pos);
    return SPARTA_OK;
}

static sparta_status read_packed(cli *c, const char *path, cli_source *s)
{
    SP_TRY(sp_store_read(c->cx, path, &s->file));
    s->packed = s->file.packed;
    s->stored = true;
    return SPARTA_OK;
}

static sparta_status read_arrays(cli *c, const char *path, cli_source *s)
{
    const sparta_tensor *t = NULL;
    SP_TRY(sp_arrays_open(c->cx, path, &s->arrays));
    if (!cli_has(c, CLI_TENSOR) && sp_store_is_packed(&s->arrays.npz)) {
        sp_arrays_close(&s->arrays);
        return read_packed(c, path, s);
    }
    if (!cli_has(c, CLI_TENSOR) && sp_npz_is_scipy(&s->arrays.npz)) {
        sparta_status status = sp_scipy_matrix(c->cx, &s->arrays.npz, &s->coo);
        sp_arrays_close(&s->arrays); /* the entries are copies */
        if (status) return sp_fail_in(c->cx, "%s", path);
        return view_coo(c, path, s);
    }
    SP_TRY(choose_array(c, path, &s->arrays, &t));
    return view_dense(c, path, t, s);
}

/* --tensor that nothing looks at would be a choice that was not made. */
static sparta_status no_names(cli *c, const char *path)
{
    if (!cli_has(c, CLI_TENSOR)) return SPARTA_OK;
    return sp_fail(c->cx, SPARTA_E_USAGE, "%s: holds one array, without a name; leave --tensor out", path);
}

static sparta_status read_any(cli *c, const char *path, cli_source *s)
{
    sparta_file_kind kind;
    sp_holds holds = SP_HOLDS_OTHER;
    SP_TRY(sparta_file_kind_of(c->cx, path, &kind));
    if (kind == SPARTA_FILE_NPY) {
        SP_TRY(no_names(c, path));
        SP_TRY(sp_npy_read(c->cx, path, &s->array));
        return view_dense(c, path, &s->array, s);
    }
    SP_TRY(sp_file_holds(c->cx, path, &holds));
    if (holds == SP_HOLDS_NPZ || holds == SP_HOLDS_SAFETENSORS) return read_arrays(c, path, s);
    if (holds == SP_HOLDS_OTHER)
        return sp_fail(c->cx, SPARTA_E_FORMAT,
                       "%s: holds no array; give a .npy, .npz, .safetensors, .mtx or .smtx", path);
    SP_TRY(no_names(c, path));
    SP_TRY(sp_matrix_read(c->cx, path, &s->coo));
    return view_coo(c, path, s);
}

sparta_status cli_source_read(cli *c, const char *path, cli_source *out)
{
    *out = (cli_source){0};
    sparta_status status = read_any(c, path, out);
    if (status) cli_source_free(c, out);
    return status;
}

sparta_status cli_source_read_packed(cli *c, const char *path, cli_source *out)
{
    sp_holds holds = SP_HOLDS_OTHER;
    *out = (cli_source){0};
    SP_TRY(sp_file_holds(c->cx, path, &holds));
    if (holds != SP_HOLDS_NPZ) return not_ours(c, path);
    return read_packed(c, path, out);
}

sparta_status cli_source_dense(cli *c, const char *path, const cli_source *s, sparta_tensor *out)
{
    const sp_packed *p = &s->packed;
    if (p->rank != 2 || p->dim[0] < 1 || p->dim[1] < 1)
        return sp_fail(c->cx, SPARTA_E_SHAPE, "%s: is no matrix with rows and columns; give one", path);
    SP_TRY(sp_tensor_alloc_in(c->arena, p->dtype, 2, p->dim, out));
    return sp_store_unpack(c->cx, p, out);
}

void cli_source_free(cli *c, cli_source *s)
{
    sp_coo_free(&s->coo);
    sp_free(c->cx, s->array.data);
    sp_free(c->cx, s->plain.data);
    sp_arrays_close(&s->arrays);
    if (s->stored) sp_store_file_free(c->cx, &s->file);
    *s = (cli_source){0};
}
