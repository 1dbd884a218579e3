/* --plugin: shared libraries of users, which register sparsifiers and kernels through the public header (include/sparta.h, "plugins"); --kernel: the
 * text of a kernel. Both are code that runs with everything the user may do, loaded from the path that is given and nowhere else. */
#include "verbs.h"
#include <dlfcn.h>
#include <string.h>

/* dlopen looks a name without a slash up in the system's folders: nobody means that. */
static sparta_status open_plugin(cli *c, const char *path, void **out)
{
    if (!strchr(path, '/'))
        return sp_fail(c->cx, SPARTA_E_USAGE, "--plugin %s: is no path; say ./%s", path, path);
    *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*out) return SPARTA_OK;
    const char *why = dlerror();
    return sp_fail(c->cx, SPARTA_E_IO,
                   "--plugin %s: cannot be loaded: %.300s; build it with cc -shared -fPIC", path,
                   why ? why : "no reason is known");
}

/* It stays loaded: what it registers is called until the end. */
static sparta_status load(cli *c, const char *path)
{
    void *library;
    sparta_status (*enter)(sparta_ctx * cx);
    SP_TRY(open_plugin(c, path, &library));
    *(void **)&enter = dlsym(library, "sparta_plugin");
    if (!enter)
        return sp_fail(
            c->cx, SPARTA_E_FORMAT,
            "--plugin %s: has no function sparta_plugin(sparta_ctx *cx); docs/schedules.md shows one", path);
    const sparta_status status = enter(c->cx);
    if (!status) return SPARTA_OK;
    if (!*sparta_message(c->cx)) return sp_fail(c->cx, status, "--plugin %s: sparta_plugin failed", path);
    return sp_fail_in(c->cx, "--plugin %s", path);
}

sparta_status cli_load_plugins(cli *c)
{
    const cli_values *v = &c->option[CLI_PLUGIN];
    const cli_values *kernels = &c->option[CLI_KERNEL];
    for (int i = 0; i < v->n; i++) SP_TRY(load(c, v->value[i]));
    for (int i = 0; i < kernels->n; i++) SP_TRY(sparta_kernel_open(c->cx, kernels->value[i]));
    return SPARTA_OK;
}
