/* sparta kernel show: the kernels of a package, the C text of one of them, or the text that a nest becomes. Runs no code of the package. */
#include "verbs.h"
#include "implement/implement.h"
#include <string.h>

/* ------------------------------------------------------------------ who runs a kernel */

/* The plans of a package: the usual one, then those for other numbers of tokens. */
static const sp_graph *plan_of(const sparta_package *p, int i)
{
    if (!i) return p->plan;
    return i <= p->n_others ? p->other[i - 1].plan : NULL;
}

static int64_t code_of(const sp_node *n)
{
    return sp_attr_find(&n->attrs, "kernel") ? sp_attr_int(&n->attrs, "code", -1) : -1;
}

/* The chain of a node, 0: none. Each has two nodes at least, so that larger numbers are none of a plan that holds. */
static int64_t chain_of(const sp_graph *plan, const sp_node *n)
{
    const int64_t chain = sp_attr_int(&n->attrs, "chain", 0);
    return chain > 0 && chain < plan->n_nodes ? chain : 0;
}

/* Numbers of the kernels that run the nodes of a plan, by themselves or with their chain; -1: the reference does. */
static sparta_status find_codes(cli *c, const sp_graph *plan, int64_t **out)
{
    const size_t n = (size_t)plan->n_nodes + 1;
    int64_t *code = sp_arena_array(c->arena, n, sizeof *code),
            *of_chain = sp_arena_array(c->arena, n, sizeof *of_chain);
    if (!code || !of_chain) return sp_ctx_status(c->cx);
    memset(of_chain, -1, n * sizeof *of_chain);
    for (int i = 0; i < plan->n_nodes; i++) {
        const int64_t chain = chain_of(plan, plan->node[i]);
        code[i] = code_of(plan->node[i]);
        if (chain && code[i] >= 0) of_chain[chain] = code[i];
    }
    for (int i = 0; i < plan->n_nodes; i++)
        if (code[i] < 0) code[i] = of_chain[chain_of(plan, plan->node[i])];
    *out = code;
    return SPARTA_OK;
}

typedef struct uses {
    int steps, nodes; /* nodes: those of chains counted one by one */
    const char *first;
} uses;

/* Steps and nodes of all plans that each kernel runs. */
static sparta_status count_uses(cli *c, const sparta_package *p, uses **out)
{
    uses *u = sp_arena_array(c->arena, (size_t)p->n_kernels + 1, sizeof *u);
    const sp_graph *plan;
    SP_NEED(c->cx, u);
    for (int k = 0; (plan = plan_of(p, k)); k++) {
        int64_t *code;
        SP_TRY(find_codes(c, plan, &code));
        for (int i = 0; i < plan->n_nodes; i++) {
            if (code[i] < 0 || code[i] >= p->n_kernels) continue;
            uses *mine = &u[code[i]];
            mine->nodes++;
            if (code_of(plan->node[i]) < 0) continue;
            mine->steps++;
            if (!mine->first) mine->first = plan->node[i]->name;
        }
    }
    *out = u;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the list */

static void steps_json(cli_json *j, const sparta_package *p, int number)
{
    const sp_graph *plan;
    cli_json_open(j, "steps", '[');
    for (int k = 0; (plan = plan_of(p, k)); k++)
        for (int i = 0; i < plan->n_nodes; i++)
            if (code_of(plan->node[i]) == number) cli_json_text(j, NULL, plan->node[i]->name);
    cli_json_close(j, ']');
}

static void targets_json(cli_json *j, const sp_kernel *k)
{
    cli_json_open(j, "targets", '[');
    for (int i = 0; i < k->n_code; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", sp_target_name(k->code[i].target));
        cli_json_int(j, "bytes", (int64_t)k->code[i].size);
        cli_json_bool(j, "checked", !k->code[i].unchecked);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static const char *targets_text(cli *c, const sp_kernel *k)
{
    const char *all = k->n_code ? sp_target_name(k->code[0].target) : "none";
    for (int i = 1; all && i < k->n_code; i++)
        all = sp_arena_printf(c->arena, "%s, %s", all, sp_target_name(k->code[i].target));
    return all;
}

static sparta_status list(cli *c, const sparta_package *p)
{
    static const char *const names[] = {"number", "kernel", "steps", "nodes",
                                        "first",  "target", "bytes", "parameters"};
    cli_json j = cli_json_begin(c, "kernel");
    uses *u;
    SP_TRY(count_uses(c, p, &u));
    cli_json_text(&j, "name", c->operand[1]);
    cli_rows t = cli_rows_begin(c, &j, "kernels", (int)SP_COUNT(names), names);
    for (int i = 0; i < p->n_kernels; i++) {
        const sp_kernel *k = &p->kernel[i];
        size_t bytes = 0;
        for (int n = 0; n < k->n_code; n++) bytes += k->code[n].size;
        cli_rows_next(&t);
        cli_rows_int(&t, "number", i);
        cli_rows_text(&t, "kernel", k->kernel);
        cli_table_int(&t.table, u[i].steps);
        steps_json(&j, p, i);
        cli_rows_int(&t, "nodes", u[i].nodes);
        cli_table_text(&t.table, u[i].first ? u[i].first : "");
        cli_table_text(&t.table, targets_text(c, k));
        targets_json(&j, k);
        cli_rows_int(&t, "bytes", (int64_t)bytes);
        cli_rows_text(&t, "parameters", k->parameters);
    }
    SP_TRY(cli_rows_end(&t));
    cli_say(c, "\nthe C text of one: sparta kernel show %s --number N\n", c->operand[1]);
    cli_json_end(c, &j);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ a text */

static bool begins(const char *line, const char *with)
{
    return !strncmp(line, with, strlen(with));
}
static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

/* Behind the comment that begins at a line; the line itself where none does. */
static const char *behind_comment(const char *line)
{
    if (!begins(line, "/*")) return line;
    const char *end = strstr(line, "*/");
    return end ? next_line(end) : line + strlen(line);
}
/* The same of a header. Headers have a guard: #ifndef X, #define X; nothing else in a text begins so. */
static const char *behind_header(const char *line)
{
    int depth = 0;
    if (!begins(line, "#ifndef SP_") || !begins(next_line(line), "#define SP_")) return line;
    do {
        depth += begins(line, "#if");
        depth -= begins(line, "#endif");
        line = next_line(line);
    } while (*line && depth > 0);
    return line;
}

static sparta_status put_lines(cli *c, const char *from, const char *to, sp_text *out)
{
    while (from < to) {
        char *line = sp_arena_printf(c->arena, "%.*s", (int)strcspn(from, "\n"), from);
        SP_NEED(c->cx, line);
        sp_clean(line); /* it may be that of a hostile file */
        sp_text_printf(out, "%s\n", line);
        from = next_line(from);
    }
    return out->status;
}

/* The lines of a text without the headers that all texts have in common, and the comments above these, unless --whole asks for them. */
static sparta_status own_lines(cli *c, const char *text, sp_text *out)
{
    const bool whole = cli_has(c, CLI_WHOLE);
    while (*text) {
        const char *comment = behind_comment(text), *header = behind_header(comment);
        const char *end = header != comment ? header : comment != text ? comment : next_line(text);
        if (whole || header == comment) SP_TRY(put_lines(c, text, end, out));
        text = end;
    }
    return out->status;
}

/* A text is the answer itself: --quiet does not silence it. */
sparta_status cli_kernel_text(cli *c, cli_json *j, const char *text)
{
    sp_text lines;
    sp_text_init(&lines, c->cx);
    const sparta_status s = own_lines(c, text, &lines);
    cli_json_text(j, "text", sp_text_str(&lines));
    if (s == SPARTA_OK && !cli_wants_json(c)) sp_text_put(&c->out, sp_text_str(&lines), lines.size);
    sp_text_free(&lines);
    cli_json_end(c, j);
    return s;
}

static sparta_status show_number(cli *c, const sparta_package *p, int64_t number)
{
    if (number >= p->n_kernels)
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: %s has %d kernels, counted from 0; there is no %lld",
                       c->operand[1], p->n_kernels, (long long)number);
    const sp_kernel *k = &p->kernel[number];
    cli_json j = cli_json_begin(c, "kernel");
    cli_json_text(&j, "name", c->operand[1]);
    cli_json_int(&j, "number", number);
    cli_json_text(&j, "kernel", k->kernel);
    cli_json_text(&j, "parameters", k->parameters);
    steps_json(&j, p, (int)number);
    targets_json(&j, k);
    return cli_kernel_text(c, &j, k->source);
}

static sparta_status show_step(cli *c, const sparta_package *p, const char *name)
{
    const sp_graph *plan;
    for (int k = 0; (plan = plan_of(p, k)); k++) {
        int64_t *code;
        SP_TRY(find_codes(c, plan, &code));
        for (int i = 0; i < plan->n_nodes; i++) {
            if (strcmp(plan->node[i]->name, name)) continue;
            if (code[i] >= 0) return show_number(c, p, code[i]);
            return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: '%s' has no kernel; its reference runs it", name);
        }
    }
    return sp_fail(c->cx, SPARTA_E_USAGE,
                   "kernel: %s has no step '%s'; sparta inspect lists them by their names", c->operand[1],
                   name);
}

static sparta_status show_package(cli *c)
{
    const char *step = cli_text(c, CLI_STEP, NULL);
    sparta_package *p;
    if (step && cli_has(c, CLI_NUMBER))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: --step and --number both name a kernel; leave one out");
    SP_TRY(sparta_package_open(c->cx, c->operand[1], &p));
    const sparta_status s = step                     ? show_step(c, p, step)
                            : cli_has(c, CLI_NUMBER) ? show_number(c, p, cli_int(c, CLI_NUMBER, 0))
                                                     : list(c, p);
    sparta_package_close(p);
    return s;
}

/* ------------------------------------------------------------------ of a nest */

sparta_status cli_kernel_target(cli *c, sp_target *out)
{
    const char *name = cli_text(c, CLI_TARGET, NULL);
    *out = sp_target_best(SP_DEVICE_CPU);
    if (name && (!sp_target_parse(name, out) || sp_target_device(*out) != SP_DEVICE_CPU))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: kernels are generated for no target '%s'; give avx512, avx2 or portable",
                       name);
    return SPARTA_OK;
}

static sparta_status write_nest(cli *c, const sp_nest *n, sp_target target)
{
    const char *kernel = sp_nest_lanes(n) ? "nest_lanes" : "nest";
    sp_text nest, text;
    sp_text_init(&nest, c->cx), sp_text_init(&text, c->cx);
    sp_nest_print(n, &nest);
    sparta_status s = nest.status;
    if (s == SPARTA_OK) s = sp_implement_text(kernel, sp_text_str(&nest), target, &text);
    if (s == SPARTA_OK) {
        cli_json j = cli_json_begin(c, "kernel");
        cli_json_text(&j, "kernel", kernel);
        cli_json_text(&j, "target", sp_target_name(target));
        cli_json_text(&j, "parameters", sp_text_str(&nest));
        s = cli_kernel_text(c, &j, sp_text_str(&text));
    }
    sp_text_free(&nest), sp_text_free(&text);
    return s;
}

static sparta_status show_nest(cli *c)
{
    sp_nest *n = sp_arena_array(c->arena, 1, sizeof *n);
    sp_target target;
    SP_NEED(c->cx, n);
    SP_TRY(cli_kernel_target(c, &target));
    sparta_status s = sp_nest_parse(c->cx, cli_text(c, CLI_NEST, ""), n);
    if (s == SPARTA_OK) s = write_nest(c, n, target);
    /* a text of a flag is wrong, not a file */
    return s == SPARTA_E_FORMAT ? sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --nest: %s", sparta_message(c->cx))
                                : s;
}

sparta_status cli_kernel_show(cli *c)
{
    const bool nest = cli_has(c, CLI_NEST), package = c->n_operands > 1;
    if (nest == package)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       nest ? "kernel: a package or --nest, not both; leave one out"
                            : "kernel: show what? sparta kernel show P.sparta, or --nest TEXT");
    if (nest && (cli_has(c, CLI_NUMBER) || cli_has(c, CLI_STEP)))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: --number and --step are for a package; leave them out");
    if (package && cli_has(c, CLI_TARGET))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: --target is for --nest; a package has the targets it was compiled for");
    return nest ? show_nest(c) : show_package(c);
}
