/* What several verbs share. */
#ifndef SP_CLI_VERBS_H
#define SP_CLI_VERBS_H

#include "cli.h"
#include "arrays/json_tree.h"
#include "compile/compile.h"
#include "store/store.h"
#include "measure/measure.h"

/* --dim NAME=N and --batch N as bindings. */
sparta_status cli_dims(cli *c, sp_bindings *out) SP_MUST;
void cli_json_sizes(cli_json *j, const sp_bindings *sizes); /* "sizes": {"batch": 1, ... */
/* How to compile what is measured or compared, and run next. */
sparta_status cli_compile_request(cli *c, sp_compile_request *out) SP_MUST;
/* A list of patterns with commas between them, as the option has it. */
sparta_status cli_patterns(cli *c, cli_option_id id, const char *list, const char *const **out,
                           int *n) SP_MUST;
void cli_note_noise(cli *c); /* a measurement that is not to be relied on */

/* The tensor of a file of any kind (source.c), for format's words. Must stay where it is: the view looks at it. */
typedef struct cli_source {
    sp_packed packed; /* a view of one of those below, which own it */
    bool stored;      /* the file is a packed tensor of ours: its format is packed.format */
    int64_t pos[2];
    sp_coo coo;
    sparta_tensor array, plain; /* plain: without -0.0, where there was some */
    sp_arrays arrays;
    sp_store_file file;
} cli_source;
sparta_status cli_source_read(cli *c, const char *path, cli_source *out) SP_MUST;
sparta_status cli_source_read_packed(cli *c, const char *path, cli_source *out) SP_MUST; /* ours only */
/* Its matrix as a dense array, in the arena. */
sparta_status cli_source_dense(cli *c, const char *path, const cli_source *s, sparta_tensor *out) SP_MUST;
void cli_source_free(cli *c, cli_source *s);

const char *cli_format_text(cli *c, const sp_format *f); /* canonical, in the arena; NULL: no memory */
void cli_stats(cli_rows *r, const sp_format *f, const sp_store_stats *s);
sparta_status cli_format_advise(cli *c, const char *in) SP_MUST;

sparta_status cli_kernel_show(cli *c) SP_MUST; /* sparta kernel show (kernel_show.c) */
sparta_status cli_kernel_text(cli *c, cli_json *j, const char *text) SP_MUST; /* a text is the answer */
sparta_status cli_kernel_target(cli *c, sp_target *out) SP_MUST; /* of --target, or the best here */
sparta_status cli_kernel_expr(cli *c) SP_MUST; /* show, run and bench of --expr (kernel_expr.c) */
sparta_status cli_kernel_gpu(cli *c) SP_MUST;  /* sparta kernel bench --device cuda:N (kernel_gpu.c) */
sparta_status cli_kernel_pack(cli *c) SP_MUST; /* sparta kernel pack (kernel_pack.c) */
/* What the flags say of a product on a GPU (kernel_gpu.c). */
sparta_status cli_gpu_request(cli *c, int gpu, sp_gpu_bench_request *q) SP_MUST;

sparta_status cli_doctor_times(cli *c) SP_MUST; /* doctor --times, --forget (doctor_times.c) */
/* Does a glob of --forget name a task: its key, or what is shown of it, which ends before the words of the machine? */
bool cli_names_task(const char *glob, const char *key, const char *machine);
/* Times of layers in PyTorch (doctor_torch.c): the file, in the arena, NULL where it is none to go by, which a note says; a row for each way;
 * how many of them a glob names (NULL: all); those go, without a glob the file. */
sparta_status cli_torch_times_read(cli *c, const char *path, const json_value **out) SP_MUST;
void cli_torch_times_show(cli *c, cli_rows *r, const json_value *file);
int cli_torch_times_named(const json_value *file, const char *glob);
sparta_status cli_torch_times_forget(cli *c, const char *path, const json_value *file,
                                     const char *glob) SP_MUST;

/* inspect --what-if (what_if.c): measure, then say. Interrupted with something to say: c->stands, and E_CANCELLED from the first. */
sparta_status cli_what_if(cli *c, sp_what_if *out) SP_MUST;
/* "what_if": [...] and what it was measured at, or tables. */
sparta_status cli_what_if_show(cli *c, cli_json *j, const sp_what_if *w) SP_MUST;

/* inspect, of files that are no model: a .npy; named arrays (.npz, .safetensors) or a matrix (.mtx, .smtx, SciPy's .npz). */
sparta_status cli_holds_arrays(cli *c, bool *out) SP_MUST; /* one of the latter? */
sparta_status cli_inspect_npy(cli *c) SP_MUST;
sparta_status cli_inspect_arrays(cli *c) SP_MUST;

#endif
