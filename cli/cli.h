/* cli: the door that people and scripts use: verbs, flags, exit codes and JSON are words that others rely on.
 *
 *   argv --options.c--> cli (verb, operands, flags) --verb_<name>.c--> text --main.c--> stdout, exit code
 *
 * One table of options (options.def, words of single verbs in shown.def) and one of verbs (verbs.def) make the parser, --help, the man page
 * (--man) and the shells' completion (--completion bash, zsh or fish). A verb writes what it has to say into c->out; main
 * prints it when the verb is done, so that an error leaves no half of an answer, and turns the status into
 * the exit code. Errors and notes go to stderr as "sparta: where: what; what to do"; with --json an error is
 * also an object on stdout.
 */
#ifndef SP_CLI_H
#define SP_CLI_H

#include "base/base.h"

/* ------------------------------------------------------------------ the tables */
typedef enum { CLI_FLAG, CLI_INT, CLI_REAL, CLI_TEXT, CLI_LIST, CLI_CHOICE, CLI_CHOICES, CLI_SIZE } cli_kind;

typedef struct cli_option {
    const char *name;
    char letter; /* 0: none */
    cli_kind kind;
    const char *metavar; /* of CLI_CHOICE: the choices, "md|csv"; of CLI_CHOICES also NAME=md, one each */
    double least, most;  /* of numbers */
    bool sweeps;         /* a comma list runs the verb once for each value */
    const char *verbs;   /* "run bench"; "* run": all, shown by run */
    const char *help;
} cli_option;

/* Is its value, or each of its values, one of the choices? */
static inline bool cli_chooses(const cli_option *o)
{
    return o->kind == CLI_CHOICE || o->kind == CLI_CHOICES;
}

typedef enum {
#define CLI_OPTION(id, name, letter, kind, metavar, least, most, sweeps, verbs, help) CLI_##id,
#include "options.def"
#undef CLI_OPTION
    CLI_OPTIONS
} cli_option_id;
extern const cli_option cli_options[CLI_OPTIONS];

/* Variables of the environment (environment.def) are rows of the same kind: CLI_CHOICE, CLI_REAL or CLI_TEXT. */
int cli_variable_count(void);
const cli_option *cli_variable_row(int i);

typedef struct cli cli;
typedef struct cli_verb {
    const char *name, *operands, *what, *examples;
    int least, most; /* operands */
    sparta_status (*run)(cli *c);
} cli_verb;
int cli_verb_count(void);
const cli_verb *cli_verb_row(int i);
const cli_verb *cli_verb_find(const char *name); /* or NULL */
/* Does the verb (NULL: the program itself) take the option? Does the option name it, so that its help shows it? */
bool cli_option_of(const cli_option *o, const cli_verb *verb);
bool cli_option_named(const cli_option *o, const cli_verb *verb);
bool cli_option_common(const cli_option *o); /* of every verb */
/* Options that the help of a verb shows, in the order of use, those of every verb last; how many. Its own words for each, or else the option's
 * (shown.def); verb NULL: the option's. */
int cli_shown(const cli_verb *verb, cli_option_id out[CLI_OPTIONS]);
const char *cli_shown_metavar(const cli_option *o, const cli_verb *verb);
const char *cli_shown_help(const cli_option *o, const cli_verb *verb);

/* ------------------------------------------------------------------ one call of the program */
typedef struct cli_values {
    int n;
    const char **value;
} cli_values;

typedef struct cli_progress {
    enum { CLI_PROGRESS_OFF, CLI_PROGRESS_LINE, CLI_PROGRESS_PLAIN, CLI_PROGRESS_JSON } mode;
    double last;   /* when something was shown */
    bool shown;    /* a line is on the terminal and must be wiped */
    char what[64]; /* was shown last, */
    int told;      /* and how much of it was done */
    /* The count is compile's, which tries other graphs and other numbers of tokens as it goes on: what is left is not known before it measures. */
    bool grows;
    /* Of the phase at hand. */
    bool counted;
    int first, done, all;
    double since;
} cli_progress;

struct cli {
    sparta_ctx *cx;
    sp_arena *arena;
    const cli_verb *verb;
    bool bare; /* nothing was said: the help is the answer */
    int n_operands;
    const char **operand;
    cli_values option[CLI_OPTIONS];
    sp_text out;         /* for stdout */
    const char *warning; /* said also with --quiet; NULL: nothing */
    bool stands;         /* what the verb said is an answer although it was interrupted, or failed later */
    cli_progress progress;
};

/* Fill verb, operands and values; E_USAGE says what is wrong and what was perhaps meant. --help and the like
 * are flags like others. */
sparta_status cli_parse(cli *c, int argc, char **argv) SP_MUST;
bool cli_has(const cli *c, cli_option_id id);
const char *cli_text(const cli *c, cli_option_id id, const char *otherwise); /* the last one given */
int64_t cli_int(const cli *c, cli_option_id id, int64_t otherwise);
double cli_real(const cli *c, cli_option_id id, double otherwise);
size_t cli_parse_size(const char *text); /* 512M, 8GiB; 0: it is no size */
/* The values of an option as a list that ends with NULL. */
sparta_status cli_list(cli *c, cli_option_id id, const char *const **out) SP_MUST;
/* E_USAGE when a variable has a value that is none of its own. */
sparta_status cli_check_environment(cli *c) SP_MUST;
/* Is `value` one that a CLI_CHOICE, CLI_REAL or CLI_TEXT row takes? */
bool cli_value_fits(const cli_option *o, const char *value);
/* Files that are pipes ("--schedule <(...)") are read whole, and the options name the copies instead. */
sparta_status cli_keep_pipes(cli *c) SP_MUST;
/* The formats that the files of --formats name are known for the rest of the call. */
sparta_status cli_define_formats(cli *c) SP_MUST;
/* The shared libraries of --plugin are loaded and asked to register what they have (plugin.c). */
sparta_status cli_load_plugins(cli *c) SP_MUST;
/* "NAME=REST" of --dim or --input, cut in the arena. */
sparta_status cli_cut(cli *c, cli_option_id id, const char *text, const char **name,
                      const char **rest) SP_MUST;

/* Call fn once for every combination of the values that swept options list ("--batch 1,8 --threads 1,2"); c
 * has the single values meanwhile. `point` says which ("batch=8 threads=2"), "" without a sweep. *n gets the
 * number of points. */
sparta_status cli_sweep(cli *c, sparta_status (*fn)(cli *c, const char *point, void *arg), void *arg,
                        int *n) SP_MUST;

/* ------------------------------------------------------------------ what is printed */
void cli_help(cli *c);       /* of c->verb, or of the program */
void cli_man(cli *c);        /* roff */
void cli_completion(cli *c); /* of the shell that --completion names */

/* What a verb says it says once, whichever form is asked for: without --json the object that cli_json_begin begins takes nothing, with it
 * tables and cli_say do. */

/* JSON: values after values, objects and arrays opened and closed; commas are put in by themselves. */
typedef struct cli_json {
    sp_text *t; /* NULL: what is written goes nowhere */
    int depth;
    bool filled[16]; /* something stands at this depth already */
} cli_json;
cli_json cli_json_begin(cli *c, const char *verb);              /* { "schema": "sparta.<verb>/1" */
void cli_json_end(cli *c, cli_json *j);                         /* notes, } and a newline */
void cli_json_open(cli_json *j, const char *key, char bracket); /* '{' or '['; key NULL inside arrays */
void cli_json_close(cli_json *j, char bracket);
void cli_json_text(cli_json *j, const char *key, const char *value); /* NULL is null */
void cli_json_words(cli_json *j, const char *key, const char *text); /* the same, in the words of flags */
void cli_json_int(cli_json *j, const char *key, int64_t value);
void cli_json_ints(cli_json *j, const char *key, int n, const int64_t *value); /* an array, as of a shape */
void cli_json_real(cli_json *j, const char *key, double value); /* what is no finite number is null */
void cli_json_bool(cli_json *j, const char *key, bool value);
void cli_json_range(cli_json *j, const char *key, double from, double to); /* [from, to] */

/* Tables: aligned for people, or as --table says. A cell is text, or a number with the digits to show; NAN is an empty cell, null in
 * JSON: there is nothing to say. */
typedef struct cli_cell {
    const char *text;
    bool number;
    double value;
} cli_cell;
typedef struct cli_table {
    cli *c; /* NULL: what is written goes nowhere */
    int columns, cells, capacity;
    const char *const *name;
    const char *keeps; /* columns that stay on a narrow terminal, "pattern density"; NULL: none */
    cli_cell *cell;
    sparta_status status; /* sticky */
} cli_table;
cli_table cli_table_begin(cli *c, int columns, const char *const *names);
void cli_table_text(cli_table *t, const char *s); /* copied */
void cli_table_real(cli_table *t, int digits, double v);
void cli_table_int(cli_table *t, int64_t v);
sparta_status cli_table_end(cli_table *t) SP_MUST; /* prints into c->out */

/* Rows of a table, or the objects of an array: each value is a cell and a member. What belongs to one of the two alone is written to it
 * directly. */
typedef struct cli_rows {
    cli_json *json;
    cli_table table;
    enum {
        CLI_ROWS_BARE,
        CLI_ROWS_NONE,
        CLI_ROWS_SOME
    } array; /* BARE: one row, whose members are the object's at hand */
} cli_rows;
cli_rows cli_rows_begin(cli *c, cli_json *j, const char *key, int columns, const char *const *names);
void cli_rows_next(cli_rows *r);                                     /* before every row */
void cli_rows_text(cli_rows *r, const char *key, const char *value); /* NULL: null, and an empty cell */
void cli_rows_int(cli_rows *r, const char *key, int64_t value);
void cli_rows_real(cli_rows *r, const char *key, int digits, double value);
sparta_status cli_rows_end(cli_rows *r) SP_MUST;

bool cli_wants_json(const cli *c);
/* A line for people, or a piece of one: only without --json, --table and --quiet. New lines of the format stand at its ends;
 * between them the text is cleaned, since names come out of files. */
void cli_say(cli *c, const char *format, ...) SP_PRINTF(2, 3);

/* What the library says of "options.dims" says --dim, of sparta_compile sparta compile (words.c): in place, or as a copy in the arena. */
void cli_words(char *text);
const char *cli_words_of(cli *c, const char *text);

/* A mapped file that is truncated while it is read ends the program with an error instead of a signal (fault.c). */
void cli_watch_faults(bool json);
/* Signals that ask the program to stop cancel the context (signals.c), until it is left, just before the context goes: all is said and
 * written by then, and one that comes still later changes nothing. */
void cli_watch_signals(sparta_ctx *cx);
void cli_leave_signals(void);

void cli_progress_show(void *c, int done, int all, const char *what); /* as room compile calls it */
void cli_progress_end(cli *c);
/* Seconds that the rest takes, when it goes on as it did; NAN: too early to tell, or nothing is left. To be asked each time something is done. */
double cli_progress_left(cli_progress *p, double now, int done, int all);
void cli_progress_time(double seconds, char *out, size_t size); /* "40 s"; "": NAN */

/* ------------------------------------------------------------------ what verbs on sparta.h alone share */

/* The flags that say how to compile, --dim excepted, whose meaning differs (compile_flags.c). Flags that change a model, where only packages
 * are given, are E_USAGE. */
sparta_status cli_compile_options(cli *c, sparta_compile_options *out) SP_MUST;
/* --dim as options.dims has it: sizes, or bounds. */
sparta_status cli_compile_dims(cli *c, const char *const **out) SP_MUST;
/* --dim NAME=N and --batch N as texts, the same ended by NULL. */
sparta_status cli_sizes(cli *c, const char *const **out) SP_MUST;
/* An ONNX file on its references, at the sizes of --dim where they are needed for its shapes. */
sparta_status cli_open_model(cli *c, const char *path, sparta_model **out) SP_MUST;
/* Inputs of a package, or else of a model, as --input, --inputs, --dim and --seed say (inputs.c). Given in part: E_USAGE naming the others. */
typedef struct cli_inputs {
    int n;
    const sparta_named_tensor *tensor;
    sparta_inputs *made;
    int n_files;
    sparta_archive **file;
} cli_inputs;
sparta_status cli_inputs_make(cli *c, const sparta_package *p, const sparta_model *m,
                              cli_inputs *out) SP_MUST;
/* Of the package or model in a file, which is closed again. */
sparta_status cli_inputs_of(cli *c, const char *path, cli_inputs *out) SP_MUST;
void cli_inputs_free(cli_inputs *in);
/* Fail now, not after minutes of work, when the folder of `path` cannot be written. */
sparta_status cli_writable(cli *c, const char *path) SP_MUST;
sparta_status cli_make_folder(cli *c, const char *path) SP_MUST; /* with those above it */
sparta_status cli_file_size(cli *c, const char *path, size_t *out) SP_MUST;
void cli_tensor_json(cli_json *j, const sparta_tensor *t);   /* "dtype", "shape" */
const char *cli_tensor_text(cli *c, const sparta_tensor *t); /* "f32 3x4" */
const char *cli_dims_text(cli *c, const sparta_tensor *t);   /* "64x3x7x7" */
const char *cli_shape(cli *c, int64_t n, int64_t k);         /* "768x3072"; "" when n is 0 */
/* Of a report (report.c): "layers": [...], or their table; "unaccelerated_share" and why; "targets": [...]; `before` "avx512, avx2 (not checked)", or ""
 * when the package has code for none. */
sparta_status cli_layers(cli *c, cli_json *j, const sparta_report *r) SP_MUST;
void cli_coverage_json(cli_json *j, const sparta_report *r);
void cli_targets_json(cli_json *j, const sparta_report *r);
const char *cli_targets_text(cli *c, const sparta_report *r, const char *before);

/* ------------------------------------------------------------------ the verbs */
#define CLI_VERB(id, name, operands, least, most, what, examples) sparta_status cli_verb_##id(cli *c);
#define CLI_LATER(name, what)
#include "verbs.def"
#undef CLI_VERB
#undef CLI_LATER

#endif
