/* Into a folder that another compiler reads: the plan as JSON, the graph's text, the constants side by side in one file, each at a multiple of 64 bytes,
 * and for each target the text and the shared object. The plan is written last: where it is, all of it is. */
#include "file/file.h"
#include "specialize/specialize.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ JSON */
typedef struct member {
    const char *key, *value; /* NULL: null */
} member;

/* "key": "value", ... */
static void put_members(sp_text *t, int n, const member *m)
{
    for (int i = 0; i < n; i++) {
        sp_text_printf(t, "%s\"%s\": ", i ? ", " : "", m[i].key);
        if (m[i].value)
            sp_text_json(t, m[i].value);
        else
            sp_text_printf(t, "null");
    }
}

static void put_value(sp_text *t, const sparta_specialized_value *v)
{
    sp_text_printf(t, "    {");
    put_members(t, 3,
                (member[]){{"name", v->name}, {"role", v->role}, {"dtype", sparta_dtype_name(v->dtype)}});
    sp_text_printf(t, ", \"shape\": [");
    for (int d = 0; d < v->rank; d++) sp_text_printf(t, "%s%lld", d ? ", " : "", (long long)v->dim[d]);
    sp_text_printf(t, "], ");
    put_members(t, 2, (member[]){{"format", v->format}, {"reason", v->reason}});
    sp_text_printf(t, "}");
}

static size_t bytes_of(const sparta_specialized_argument *a)
{
    return a->data && a->elements > 0 ? (size_t)a->elements * sparta_dtype_size(a->dtype) : 0;
}

/* *offset: where its data lies in weights.bin, and then where the next one's does. */
static void put_argument(sp_text *t, const sparta_specialized_argument *a, uint64_t *offset)
{
    sp_text_printf(t, "        {");
    put_members(t, 4,
                (member[]){{"value", a->value},
                           {"array", a->array},
                           {"role", a->role},
                           {"dtype", sparta_dtype_name(a->dtype)}});
    sp_text_printf(t, ", \"elements\": %lld", (long long)a->elements);
    if (!strcmp(a->role, "constant")) {
        sp_text_printf(t, ", \"offset\": %llu", (unsigned long long)*offset);
        *offset += (bytes_of(a) + 63) / 64 * 64;
    }
    sp_text_printf(t, "}");
}

static void put_step(sp_text *t, const sparta_specialized_step *s, uint64_t *offset)
{
    sp_text_printf(t, "    {");
    put_members(t, 3, (member[]){{"name", s->name}, {"op", s->op}, {"symbol", s->symbol}});
    sp_text_printf(t, ", \"phases\": %d, ", s->phases);
    put_members(t, 1, &(member){"what", s->what});
    sp_text_printf(t, ", \"arguments\": [\n");
    for (int i = 0; i < s->arguments; i++) {
        put_argument(t, &s->argument[i], offset);
        sp_text_printf(t, i + 1 < s->arguments ? ",\n" : "\n");
    }
    sp_text_printf(t, "    ]}");
}

static void put_code(sp_text *t, const sparta_specialized_code *c)
{
    sp_text_printf(
        t,
        "    {\"target\": \"%s\", \"text\": \"kernels_%s.c\", \"code\": \"kernels_%s.so\", \"checked\": %s}",
        c->target, c->target, c->target, c->fits ? "true" : "false");
}

static void put_plan(const sparta_specialized *s, sp_text *t)
{
    uint64_t offset = 0;
    sp_text_printf(t, "{\n  \"schema\": \"sparta.specialized/1\", \"sparta\": \"%s\",\n", sparta_version());
    sp_text_printf(t, "  \"graph\": \"graph.txt\", \"weights\": \"weights.bin\",\n  \"code\": [\n");
    for (int i = 0; i < s->n_code; i++)
        put_code(t, &s->code[i]), sp_text_printf(t, i + 1 < s->n_code ? ",\n" : "\n");
    sp_text_printf(t, "  ],\n  \"values\": [\n");
    for (int i = 0; i < s->n_values; i++)
        put_value(t, &s->shown[i]), sp_text_printf(t, i + 1 < s->n_values ? ",\n" : "\n");
    sp_text_printf(t, "  ],\n  \"steps\": [\n");
    for (int i = 0; i < s->n_steps; i++)
        put_step(t, &s->step[i]->told, &offset), sp_text_printf(t, i + 1 < s->n_steps ? ",\n" : "\n");
    sp_text_printf(t, "  ]\n}\n");
}

/* ------------------------------------------------------------------ files */
static sparta_status write(sparta_ctx *cx, const char *folder, const char *name, const void *bytes, size_t n)
{
    const size_t room = strlen(folder) + strlen(name) + 2;
    char *path = sp_alloc(cx, room);
    SP_NEED(cx, path);
    snprintf(path, room, "%s/%s", folder, name);
    const sparta_status status = sp_file_write(cx, path, bytes, n);
    sp_free(cx, path);
    return status;
}

static sparta_status write_constants(const sparta_specialized *s, sp_atomic *f)
{
    for (int i = 0; i < s->n_steps; i++)
        for (int k = 0; k < s->step[i]->told.arguments; k++) {
            const sparta_specialized_argument *a = &s->step[i]->argument[k];
            if (!bytes_of(a)) continue;
            SP_TRY(sp_atomic_write(f, a->data, bytes_of(a)));
            SP_TRY(sp_atomic_align(f, 64));
        }
    return SPARTA_OK;
}

static sparta_status write_weights(sparta_ctx *cx, const sparta_specialized *s, const char *folder)
{
    const size_t room = strlen(folder) + 16;
    char *path = sp_alloc(cx, room);
    SP_NEED(cx, path);
    snprintf(path, room, "%s/weights.bin", folder);
    sp_atomic *f = sp_atomic_open(cx, path);
    sp_free(cx, path);
    SP_NEED(cx, f);
    return sp_atomic_end(f, write_constants(s, f));
}

static sparta_status write_code(sparta_ctx *cx, const char *folder, const sparta_specialized_code *c)
{
    char name[64];
    snprintf(name, sizeof name, "kernels_%s.c", c->target);
    SP_TRY(write(cx, folder, name, c->text, strlen(c->text)));
    snprintf(name, sizeof name, "kernels_%s.so", c->target);
    return write(cx, folder, name, c->code, c->bytes);
}

sparta_status sparta_specialized_save(sparta_ctx *cx, const sparta_specialized *s, const char *folder)
{
    sp_text plan;
    if (!s || !folder) return sp_fail(cx, SPARTA_E_USAGE, "specialized: no folder to write into; give one");
    SP_TRY(sp_make_folder(cx, folder));
    SP_TRY(write_weights(cx, s, folder));
    SP_TRY(write(cx, folder, "graph.txt", s->text, strlen(s->text)));
    for (int i = 0; i < s->n_code; i++) SP_TRY(write_code(cx, folder, &s->code[i]));
    sp_text_init(&plan, cx);
    put_plan(s, &plan);
    sparta_status status = plan.status;
    if (!status) status = write(cx, folder, "plan.json", sp_text_str(&plan), plan.size);
    sp_text_free(&plan);
    return status;
}
