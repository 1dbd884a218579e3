/* sparta specialize: a sub-graph's text in, its transformed text and kernels out, for other compilers. */
#include "file/file.h"
#include "tesa/attribute.h"
#include "verbs.h"
#include <string.h>

enum { TEXT = 64 << 20 }; /* the most bytes of a graph's text */

typedef struct job {
    cli *c;
    char *text;
    sparta_archive *weights;
    sp_tesas tesas;
    sparta_edge *edge;
    sparta_specialize_options options;
    sparta_specialized *made;
} job;

/* ------------------------------------------------------------------ in */
static sparta_status read_weights(job *j)
{
    const char *path = cli_text(j->c, CLI_WEIGHTS, NULL);
    if (!path) return SPARTA_OK;
    SP_TRY(sparta_archive_open(j->c->cx, path, &j->weights));
    int n = 0;
    while (sparta_archive_array(j->weights, n)) n++;
    sparta_named_tensor *list = sp_arena_array(j->c->arena, (size_t)n + 1, sizeof *list);
    SP_NEED(j->c->cx, list);
    for (int i = 0; i < n; i++) list[i] = *sparta_archive_array(j->weights, i);
    j->options.constant = list;
    j->options.constants = n;
    return SPARTA_OK;
}

/* A mask, zero where an element is gone, as an attribute. */
static sparta_status of_mask(job *j, int i, sparta_tesa **out)
{
    sparta_tesa_facts facts = SPARTA_OPTIONS(sparta_tesa_facts);
    sparta_tensor mask, *has = &facts.has;
    sp_text dims;
    SP_TRY(sp_tesas_mask(&j->tesas, i, &mask));
    SP_TRY(sp_tensor_alloc_in(j->c->arena, SPARTA_BOOL, mask.rank, mask.dim, has));
    const sparta_tensor *both[] = {has, &mask};
    for (sp_cursor at = sp_cursor_begin(mask.rank, mask.dim, 2, both); at.more; sp_cursor_next(&at))
        ((uint8_t *)has->data)[at.at[0]] = sp_element_get(mask.dtype, mask.data, at.at[1]) != 0;
    sp_text_init(&dims, j->c->cx);
    sp_text_printf(&dims, "[");
    for (int d = 0; d < mask.rank; d++) sp_text_printf(&dims, "%s%lld", d ? "," : "", (long long)mask.dim[d]);
    sp_text_printf(&dims, "]");
    facts.dims = sp_text_keep(&dims, j->c->arena);
    SP_NEED(j->c->cx, facts.dims);
    return sparta_tesa_create(j->c->cx, &facts, out);
}

static sparta_status read_tesa(job *j)
{
    const char *path = cli_text(j->c, CLI_TESA, NULL);
    for (int i = 0; path && i < j->tesas.n; i++) {
        const sp_named_tesa *t = &j->tesas.entry[i];
        sparta_tesa *tesa = NULL;
        SP_TRY(t->array ? of_mask(j, i, &tesa) : sparta_tesa_open(j->c->cx, path, t->name, &tesa));
        j->edge[j->options.edges++] = (sparta_edge){.value = t->name, .tesa = tesa};
    }
    return SPARTA_OK;
}

static sparta_status read_formats(job *j)
{
    const cli_values *v = &j->c->option[CLI_FORMAT];
    for (int i = 0; i < v->n; i++) {
        sparta_edge *e = &j->edge[j->options.edges];
        SP_TRY(cli_cut(j->c, CLI_FORMAT, v->value[i], &e->value, &e->format));
        j->options.edges++;
    }
    return SPARTA_OK;
}

static sparta_status read_all(job *j)
{
    size_t n;
    cli *c = j->c;
    j->options = SPARTA_OPTIONS(sparta_specialize_options);
    j->options.target = cli_text(c, CLI_TARGET, NULL);
    j->options.no_propagate = cli_has(c, CLI_NO_PROPAGATE);
    j->options.limit = cli_real(c, CLI_LIMIT, 0);
    SP_TRY(cli_list(c, CLI_DIM, &j->options.dims));
    SP_TRY(sp_file_read(c->cx, c->operand[0], TEXT, &j->text, &n));
    if (strlen(j->text) != n)
        return sp_fail(c->cx, SPARTA_E_FORMAT, "%s: it is no text; give a graph as text (docs/specialize.md)",
                       c->operand[0]);
    SP_TRY(read_weights(j));
    if (cli_has(c, CLI_TESA)) SP_TRY(sp_tesas_open(c->cx, cli_text(c, CLI_TESA, NULL), &j->tesas));
    j->edge = sp_arena_array(c->arena, (size_t)(j->tesas.n + c->option[CLI_FORMAT].n) + 1, sizeof *j->edge);
    SP_NEED(c->cx, j->edge);
    j->options.edge = j->edge;
    SP_TRY(read_tesa(j));
    return read_formats(j);
}

/* ------------------------------------------------------------------ out */
static sparta_status say_values(job *j, cli_json *o)
{
    static const char *const names[] = {"value", "role", "format", "why"};
    const sparta_specialized_value *v;
    cli_table t = cli_table_begin(j->c, 4, names);
    cli_json_open(o, "values", '[');
    for (int i = 0; (v = sparta_specialized_value_at(j->made, i)); i++) {
        cli_json_open(o, NULL, '{');
        cli_json_text(o, "name", v->name);
        cli_json_text(o, "role", v->role);
        cli_json_text(o, "dtype", sparta_dtype_name(v->dtype));
        cli_json_ints(o, "shape", v->rank, v->dim);
        cli_json_text(o, "format", v->format);
        cli_json_text(o, "reason", v->reason);
        cli_json_close(o, '}');
        cli_table_text(&t, v->name);
        cli_table_text(&t, v->role);
        cli_table_text(&t, v->format ? v->format : "row-major");
        cli_table_text(&t, v->reason);
    }
    cli_json_close(o, ']');
    return cli_table_end(&t);
}

static sparta_status say(job *j, const char *folder)
{
    const sparta_specialized_step *s;
    const sparta_specialized_code *k;
    cli_json o = cli_json_begin(j->c, "specialize");
    int kernels = 0, steps = 0;
    cli_json_text(&o, "output", folder);
    SP_TRY(say_values(j, &o));
    cli_json_open(&o, "steps", '[');
    for (; (s = sparta_specialized_step_at(j->made, steps)); steps++) {
        kernels += s->symbol != NULL;
        cli_json_open(&o, NULL, '{');
        cli_json_text(&o, "name", s->name);
        cli_json_text(&o, "op", s->op);
        cli_json_text(&o, "symbol", s->symbol);
        cli_json_text(&o, "what", s->what);
        cli_json_close(&o, '}');
    }
    cli_json_close(&o, ']');
    cli_json_open(&o, "code", '[');
    for (int i = 0; (k = sparta_specialized_code_at(j->made, i)); i++) {
        cli_json_open(&o, NULL, '{');
        cli_json_text(&o, "target", k->target);
        cli_json_int(&o, "bytes", (int64_t)k->bytes);
        cli_json_bool(&o, "checked", k->fits);
        cli_json_close(&o, '}');
        cli_say(j->c, "%s: %d steps, %d kernels for %s, %s\n", folder, steps, kernels, k->target,
                k->fits ? "compared with the references" : "not checked: this machine does not run it");
    }
    cli_json_close(&o, ']');
    cli_json_end(j->c, &o);
    return SPARTA_OK;
}

static sparta_status work(job *j, const char *folder)
{
    SP_TRY(read_all(j));
    if (sparta_specialize(j->c->cx, j->text, &j->options, &j->made))
        return sp_fail_in(j->c->cx, "%s", j->c->operand[0]);
    SP_TRY(sparta_specialized_save(j->c->cx, j->made, folder));
    return say(j, folder);
}

sparta_status cli_verb_specialize(cli *c)
{
    const char *folder = cli_text(c, CLI_OUTPUT, NULL);
    job j = {.c = c};
    if (!folder)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "specialize: nowhere to write the kernels; say where with -o DIR");
    const sparta_status status = work(&j, folder);
    sparta_specialized_free(j.made);
    for (int i = 0; i < j.options.edges; i++) sparta_tesa_free((sparta_tesa *)j.edge[i].tesa);
    sp_tesas_close(&j.tesas);
    sparta_archive_close(j.weights);
    sp_free(c->cx, j.text);
    return status;
}
