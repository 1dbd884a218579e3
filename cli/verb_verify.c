/* sparta verify: do two models give the same answer? Exit 3 when they do not. */
#include "verbs.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Why more was allowed; "" where nobody asked (close answers, --atol). */
static const char *print_unit(const sp_verify_output *o, const char *before, char out[160])
{
    *out = 0;
    if (o->unit > 0 || o->unit_broken)
        snprintf(out, 160, "%sone unit in the last place changes %.3g", before, o->unit);
    if (o->unit_broken)
        snprintf(out + strlen(out), 160 - strlen(out), " and makes %" PRId64 " elements NaN or Inf",
                 o->unit_broken);
    return out;
}

/* That answers differ is said by the error. */
static sparta_status report(cli *c, const sp_verify_result *r)
{
    static const char *const names[] = {"output", "same", "max_abs", "max_rel", "cosine"};
    cli_json j = cli_json_begin(c, "verify");
    cli_json_bool(&j, "ok", r->ok);
    cli_rows t = cli_rows_begin(c, &j, "outputs", (int)SP_COUNT(names), names);
    for (int i = 0; i < r->n_outputs; i++) {
        cli_rows_next(&t);
        cli_rows_text(&t, "name", r->output[i].name);
        cli_json_bool(&j, "ok", r->output[i].ok);
        cli_table_text(&t.table, r->output[i].ok ? "yes" : "no");
        cli_rows_real(&t, "max_abs", 9, r->output[i].max_abs);
        cli_rows_real(&t, "max_rel", 9, r->output[i].max_rel);
        cli_rows_real(&t, "cosine", 9, r->output[i].cosine);
        cli_json_real(&j, "allowed", r->output[i].allowed);
        cli_json_real(&j, "unit", r->output[i].unit);
        cli_json_int(&j, "unit_broken", r->output[i].unit_broken);
    }
    if (cli_wants_json(c) || !cli_has(c, CLI_QUIET)) SP_TRY(cli_rows_end(&t));
    for (int i = 0; i < r->n_outputs; i++) {
        const sp_verify_output *o = &r->output[i];
        char unit[160];
        if (*print_unit(o, ", as ", unit) && o->ok)
            sp_note(c->cx, "verify: %s differs by %.3g; allowed %.3g%s", o->name, o->max_abs, o->allowed,
                    unit);
    }
    cli_json_text(&j, "first_difference", r->first_difference);
    cli_json_open(&j, "sizes", '[');
    for (int i = 0; i < r->n_sizes; i++) cli_json_text(&j, NULL, r->sizes[i]);
    cli_json_close(&j, ']');
    cli_json_end(c, &j);
    if (!r->ok) return SPARTA_OK;
    cli_say(c, "the answers are the same");
    for (int i = 0; i < r->n_sizes; i++) cli_say(c, "%s%s", i ? "; " : " at ", r->sizes[i]);
    cli_say(c, "\n");
    return SPARTA_OK;
}

static sparta_status differs(cli *c, const sp_verify_request *r, const sp_verify_result *result)
{
    const sp_verify_output *o = result->output;
    char unit[160];
    while (o->ok) o++;
    return sp_fail(c->cx, SPARTA_E_DIFFER,
                   "%s: its answer differs from that of %s: %s by up to %.3g where %.3g is allowed, first at "
                   "%s%s; look at what computes that value, or give --rtol",
                   r->a, r->against, o->name, o->max_abs, o->allowed,
                   result->first_difference ? result->first_difference : o->name, print_unit(o, "; ", unit));
}

sparta_status cli_verb_verify(cli *c)
{
    sp_verify_request r = {
        .a = c->operand[0], .against = cli_text(c, CLI_AGAINST, NULL), .masks = cli_text(c, CLI_MASKS, NULL)};
    sp_verify_result result;
    cli_inputs in = {0};
    if (!r.against)
        return sp_fail(c->cx, SPARTA_E_USAGE, "verify: nothing to compare %s with; say --against B", r.a);
    r.tolerance = (sp_tolerance){cli_real(c, CLI_RTOL, -1), cli_real(c, CLI_ATOL, -1)};
    r.seed = (uint64_t)cli_int(c, CLI_SEED, 0);
    r.threads = (int)cli_int(c, CLI_THREADS, 0);
    SP_TRY(cli_compile_request(c, &r.compile));
    SP_TRY(cli_dims(c, &r.sizes));
    /* Names and shapes of inputs are those of B, the reference. */
    if (cli_has(c, CLI_INPUT) || cli_has(c, CLI_INPUTS)) SP_TRY(cli_inputs_of(c, r.against, &in));
    r.inputs = in.tensor;
    r.n_inputs = in.n;
    sparta_status status = sp_verify(c->cx, c->arena, &r, &result);
    cli_inputs_free(&in);
    SP_TRY(status);
    SP_TRY(report(c, &result));
    return result.ok ? SPARTA_OK : differs(c, &r, &result);
}
