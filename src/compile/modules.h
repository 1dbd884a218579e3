/* modules.h: PyTorch's names of weights that an exporter gave another (modules.c), for masks that are named after parameters. */
#ifndef SPARTA_COMPILE_MODULES_H
#define SPARTA_COMPILE_MODULES_H

#include "schedule/schedule.h"

typedef struct sparta_module_weight {
    const char *name; /* "encoder.layer.0.query.weight" */
    sparta_value *value;
    bool turned;  /* the file has the parameter transposed: (in, out) where PyTorch has (out, in) */
    bool several; /* other weights have that name too */
} sparta_module_weight;

typedef struct sparta_modules {
    const sparta_graph *g;
    sparta_arena *arena;
    sparta_map *by_name; /* name -> index in `weight` */
    sparta_module_weight *weight;
    int n;
} sparta_modules;

/* Of a graph that was just imported. Names that an initialiser has are left out. */
sparta_status sparta_modules_find_all(sparta_graph *g, sparta_modules *out) SPARTA_MUST;
const sparta_module_weight *sparta_modules_find(const sparta_modules *m, const char *name); /* or NULL */
void sparta_modules_free(sparta_modules *m);

#endif
