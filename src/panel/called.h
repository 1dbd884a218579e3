/* Functions of callers that compute the product of a linear layer, by name (sparta_kernel_function_register). They belong to a context: a package has
 * the name, and whoever runs it registers the function. */
#ifndef SP_PANEL_CALLED_H
#define SP_PANEL_CALLED_H

#include "panel/panel.h"

enum { SP_CALLED_MOST = 8, SP_CALLED_NAME = 33 };

typedef struct sp_called_function {
    char name[SP_CALLED_NAME];
    char *text; /* of its format, as it was given */
    sp_format format;
    void (*product)(void *user, const sparta_product *p);
    int (*when)(void *user, int64_t n, int64_t k, int64_t tokens, double density);
    void *user;
} sp_called_function;

typedef struct sp_called_functions { /* of a context: SP_SLOT_CALLED */
    int n;
    sp_called_function function[SP_CALLED_MOST];
} sp_called_functions;

/* All of a context, or NULL; the place of one among them, or -1. */
const sp_called_functions *sp_called_of(const sparta_ctx *cx);
int sp_called_place(const sparta_ctx *cx, const char *name);
/* Is there a function of that name that takes a weight in this format? */
bool sp_called_takes(const sparta_ctx *cx, const char *name, const sp_format *format);
/* Letters, digits and _, at most 32, no digit first. */
bool sp_called_is_name(const char *p);

#endif
