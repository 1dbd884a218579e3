/* fuzz_args.c: libFuzzer's target for the command line. An input is a line, one word between newlines. Any words are refused with a
 * message, or give a verb and values that the table of options allows; help, sweeps and sizes work on them. No verb is run. */
#include "../../cli/verbs.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS = 64, POINTS = 1000 };

static void check(sparta_ctx *cx, sparta_status s)
{
    if (s == SPARTA_E_INTERNAL || (s != SPARTA_OK && !*sparta_message(cx))) abort();
}

/* What the parser let through is what the table says. */
static void check_values(const cli *c)
{
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *o = &cli_options[i];
        if (!cli_has(c, (cli_option_id)i)) continue;
        if (!cli_option_of(o, c->verb)) abort();
        const double v = o->kind == CLI_INT ? (double)cli_int(c, (cli_option_id)i, 0)
                                            : cli_real(c, (cli_option_id)i, o->least);
        if ((o->kind == CLI_INT || o->kind == CLI_REAL) && !(v >= o->least && v <= o->most)) abort();
        if (o->kind == CLI_SIZE && !cli_parse_size(cli_text(c, (cli_option_id)i, "1"))) abort();
    }
}

static sparta_status at_point(cli *c, const char *point, void *arg)
{
    sp_bindings b;
    int *points = arg;
    if (!point) abort();
    if (++*points > POINTS) return sp_fail(c->cx, SPARTA_E_LIMIT, "enough");
    check_values(c);
    check(c->cx, cli_dims(c, &b));
    return SPARTA_OK;
}

static void use(cli *c)
{
    static const cli_option_id pairs[] = {CLI_INPUT, CLI_DIM};
    int points = 0, n = 0;
    for (size_t k = 0; k < SP_COUNT(pairs); k++)
        for (int i = 0; i < c->option[pairs[k]].n; i++) {
            const char *name, *rest;
            check(c->cx, cli_cut(c, pairs[k], c->option[pairs[k]].value[i], &name, &rest));
        }
    if (cli_has(c, CLI_HELP)) cli_help(c);
    check(c->cx, cli_sweep(c, at_point, &points, &n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)16 << 20;
    options.cache_dir = options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    char *line = malloc(size + 1), *argv[WORDS + 2] = {"sparta"};
    int argc = 1;
    if (!cx || !line) abort();
    memcpy(line, data, size);
    line[size] = 0;
    for (char *at = line, *word; argc < WORDS && (word = strsep(&at, "\n"));) argv[argc++] = word;
    cli c = {.cx = cx};
    sp_text_init(&c.out, cx);
    c.arena = sp_arena_create(cx);
    if (!c.arena) abort();
    const sparta_status s = cli_parse(&c, argc, argv);
    check(cx, s);
    if (s == SPARTA_OK) use(&c);
    sp_text_free(&c.out);
    sp_arena_free(c.arena);
    if (sp_ctx_memory(cx)) abort();
    sparta_ctx_free(cx);
    free(line);
    return 0;
}
