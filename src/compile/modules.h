/* modules.h: PyTorch's names of weights that an exporter gave another (modules.c), for masks that are named after parameters. */
#ifndef SP_COMPILE_MODULES_H
#define SP_COMPILE_MODULES_H

#include "schedule/schedule.h"

typedef struct sp_module_weight {
    const char *name; /* "encoder.layer.0.query.weight" */
    sp_value *value;
    bool turned;  /* the file has the parameter transposed: (in, out) where PyTorch has (out, in) */
    bool several; /* other weights have that name too */
} sp_module_weight;

typedef struct sp_modules {
    const sp_graph *g;
    sp_arena *arena;
    sp_map *by_name; /* name -> index in `weight` */
    sp_module_weight *weight;
    int n;
} sp_modules;

/* Of a graph that was just imported. Names that an initialiser has are left out. */
sparta_status sp_modules_find_all(sp_graph *g, sp_modules *out) SP_MUST;
const sp_module_weight *sp_modules_find(const sp_modules *m, const char *name); /* or NULL */
void sp_modules_free(sp_modules *m);

#endif
