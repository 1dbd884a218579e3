/* The flags that say how to compile, as the options of sparta.h. */
#include "cli.h"
#include <float.h>

/* Masks and schedules change the weights of a model; where only packages are given they would do nothing. */
static sparta_status needs_model(cli *c)
{
    const char *file[2] = {c->n_operands ? c->operand[0] : NULL, cli_text(c, CLI_AGAINST, NULL)};
    static const cli_option_id changes[] = {CLI_MASKS, CLI_SCHEDULE, CLI_REMOVE, CLI_MULTIPLE,
                                            CLI_NO_PROPAGATE};
    bool any = false;
    for (size_t i = 0; i < SP_COUNT(changes); i++) any |= cli_has(c, changes[i]);
    if (!any) return SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        sparta_file_kind kind;
        if (!file[i]) continue;
        if (sparta_file_kind_of(c->cx, file[i], &kind) != SPARTA_OK || kind == SPARTA_FILE_ONNX)
            return SPARTA_OK;
    }
    return sp_fail(
        c->cx, SPARTA_E_USAGE,
        "%s: --masks, --schedule, --remove, --multiple and --no-propagate are for an ONNX model, and none is "
        "given; compile it with them",
        c->verb->name);
}

/* In the options of compile 0 is the default; who says 0 wants the least there is. */
static double tolerance(const cli *c, cli_option_id id)
{
    const double given = cli_real(c, id, -1);
    return given < 0 ? 0 : given > 0 ? given : DBL_MIN;
}

sparta_status cli_compile_options(cli *c, sparta_compile_options *out)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    SP_TRY(needs_model(c));
    if (cli_has(c, CLI_REMOVE)) SP_TRY(cli_list(c, CLI_REMOVE, &o.remove));
    o.masks = cli_text(c, CLI_MASKS, NULL);
    o.target = cli_text(c, CLI_TARGET, NULL);
    o.schedule = cli_text(c, CLI_SCHEDULE, NULL);
    o.tokens = cli_text(c, CLI_TOKENS, NULL);
    o.multiple = (int)cli_int(c, CLI_MULTIPLE, 1);
    o.no_propagate = cli_has(c, CLI_NO_PROPAGATE);
    o.dense_only = cli_has(c, CLI_DENSE);
    o.no_measure = cli_has(c, CLI_NO_MEASURE);
    o.remeasure = cli_has(c, CLI_REMEASURE);
    o.limit = cli_real(c, CLI_LIMIT, 0);
    o.rtol = tolerance(c, CLI_RTOL);
    o.atol = tolerance(c, CLI_ATOL);
    o.threads = (int)cli_int(c, CLI_THREADS, 0);
    o.external_data_root = cli_text(c, CLI_EXTERNAL, NULL);
    o.db = cli_text(c, CLI_DB, NULL);
    o.progress = cli_progress_show;
    o.progress_user = c;
    *out = o;
    return SPARTA_OK;
}

/* Bounds ("batch=1:8:32") are for the library to read; that there is a name and something after it is looked at here. */
sparta_status cli_compile_dims(cli *c, const char *const **out)
{
    const cli_values *v = &c->option[CLI_DIM];
    for (int i = 0; i < v->n; i++) {
        const char *name, *rest;
        SP_TRY(cli_cut(c, CLI_DIM, v->value[i], &name, &rest));
    }
    return cli_list(c, CLI_DIM, out);
}
