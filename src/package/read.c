/* Reading a package. The file is hostile: header, plan, tables and code are copied and checked before use; arrays are checked against
 * the section they lie in; what is in the arrays of indices is verified before somebody follows them (ready.c). */
#include "format/opaque.h"
#include "package/disk.h"
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    sparta_ctx *cx;
    sparta_package *p;
    const char *path;
    disk_header header;
    char *section[DISK_SECTIONS]; /* private copies, terminated; not of WEIGHTS */
    const char *at;               /* in the tables */
    int weights, kernels;         /* counted beforehand, at most */
    int digests;                  /* room for so many */
    sp_index *indices;            /* of the weight that is being read */
} reader;

static sparta_status bad(reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "%s: %s; the file is damaged, compile it again", r->path, what);
}

/* What other rooms find wrong with its contents is a fault of the file, whatever they call it. */
static sparta_status blame(reader *r, sparta_status s, const char *weight)
{
    if (s == SPARTA_OK || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    if (s != SPARTA_E_UNSUPPORTED) s = SPARTA_E_FORMAT;
    if (!weight) return sp_fail(r->cx, s, "%s: %s", r->path, sparta_message(r->cx));
    return sp_fail(r->cx, s, "%s: weight '%s': %s", r->path, weight, sparta_message(r->cx));
}

/* ------------------------------------------------------------------ header and sections */

static sparta_status read_header(reader *r)
{
    const sp_mapped *f = &r->p->file;
    uint8_t page[HEADER_BYTES], digest[32];
    if (f->size < HEADER_BYTES || memcmp(f->data, DISK_MAGIC, 8))
        return sp_fail(r->cx, SPARTA_E_FORMAT, "%s: this is not a package; `sparta_compile` makes one",
                       r->path);
    memcpy(page, f->data, sizeof page);
    memcpy(&r->header, page, sizeof r->header);
    if (r->header.version != DISK_VERSION)
        return sp_fail(r->cx, SPARTA_E_FORMAT,
                       "%s: package version %u, this sparta reads version %u; compile the model again",
                       r->path, r->header.version, DISK_VERSION);
    sp_sha256_of(page, HEADER_BYTES - 32, digest);
    if (memcmp(digest, page + HEADER_BYTES - 32, 32) || r->header.sections != DISK_SECTIONS)
        return bad(r, "the header's digest does not fit");
    for (int i = 0; i < DISK_SECTIONS; i++) {
        const disk_section *s = &r->header.section[i];
        if (s->offset > f->size || s->size > f->size - s->offset)
            return bad(r, "it is shorter than its header says");
        if (s->offset % 64) return bad(r, "a section is not aligned");
    }
    return SPARTA_OK;
}

/* For sparta_package_check. */
static sparta_status keep_digest(reader *r, const sp_array_digest *d)
{
    if (r->p->n_digests == r->digests) {
        const int more = r->digests * 2 + 64;
        sp_array_digest *all = sp_arena_array(r->p->arena, (size_t)more, sizeof *all);
        SP_NEED(r->cx, all);
        if (r->digests) memcpy(all, r->p->digest, (size_t)r->digests * sizeof *all);
        r->p->digest = all;
        r->digests = more;
    }
    r->p->digest[r->p->n_digests++] = *d;
    return SPARTA_OK;
}

static sparta_status read_section(reader *r, int which, const char *name)
{
    const disk_section *s = &r->header.section[which];
    sp_array_digest d = {name, true, r->p->file.data + s->offset, s->size, {0}};
    uint8_t digest[32];
    r->section[which] = sp_arena_bytes(r->p->arena, (const char *)r->p->file.data + s->offset, s->size);
    SP_NEED(r->cx, r->section[which]);
    sp_sha256_of(r->section[which], s->size, digest);
    if (memcmp(digest, s->digest, 32))
        return sp_fail(r->cx, SPARTA_E_FORMAT,
                       "%s: the digest of its %s does not fit; the file is damaged, compile it again",
                       r->path, name);
    if (which != DISK_CODE && s->size && memchr(r->section[which], 0, s->size))
        return sp_fail(r->cx, SPARTA_E_FORMAT,
                       "%s: a zero byte stands in the text of its %s; the file is damaged, compile it again",
                       r->path, name);
    memcpy(d.digest, digest, sizeof digest);
    return keep_digest(r, &d);
}

/* ------------------------------------------------------------------ words of the tables */

static void skip_blanks(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static sparta_status read_word(reader *r, char *out, size_t size)
{
    skip_blanks(r);
    const size_t n = strcspn(r->at, " \n");
    if (n == 0 || n >= size) return bad(r, "a word is missing in its tables");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
    return SPARTA_OK;
}

static sparta_status read_number(reader *r, int64_t *out)
{
    char word[32];
    SP_TRY(read_word(r, word, sizeof word));
    if (!sp_parse_int(word, out) || *out < 0) return bad(r, "a number is missing in its tables");
    return SPARTA_OK;
}

static sparta_status read_quoted(reader *r, const char **out)
{
    skip_blanks(r);
    if (*r->at != '"') return bad(r, "a name is missing in its tables");
    const char *end = ++r->at;
    while (*end && *end != '"' && *end != '\n') end++;
    if (*end != '"') return bad(r, "a name does not end in its tables");
    char *s = sp_arena_bytes(r->p->arena, r->at, (size_t)(end - r->at)), *to = s;
    SP_NEED(r->cx, s);
    r->at = end + 1;
    for (const char *from = s; *from;) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        char hex[3] = {0}, *stop;
        if (from[1] != 'x' || !from[2] || !from[3]) return bad(r, "a name is badly escaped in its tables");
        memcpy(hex, from + 2, 2);
        *to = (char)strtol(hex, &stop, 16);
        if (*stop || !*to++) return bad(r, "a name is badly escaped in its tables");
        from += 4;
    }
    *to = 0;
    *out = s;
    return SPARTA_OK;
}

static sparta_status read_dtype(reader *r, sparta_dtype *out)
{
    char word[16];
    SP_TRY(read_word(r, word, sizeof word));
    return sp_dtype_parse(word, out) ? SPARTA_OK : bad(r, "a type is unknown in its tables");
}

static sparta_status read_dims(reader *r, int *rank, int64_t *dim)
{
    int64_t n;
    SP_TRY(read_number(r, &n));
    if (n > SPARTA_RANK) return bad(r, "a tensor has too many dimensions in its tables");
    *rank = (int)n;
    for (int i = 0; i < *rank; i++) SP_TRY(read_number(r, &dim[i]));
    return SPARTA_OK;
}

static sparta_status read_digest(reader *r, const char *weight, const uint8_t *bytes, size_t size)
{
    char hex[80], pair[3] = {0}, *stop;
    sp_array_digest d = {weight, false, bytes, size, {0}};
    SP_TRY(read_word(r, hex, sizeof hex));
    if (strlen(hex) != 64) return bad(r, "a digest is missing in its tables");
    for (int i = 0; i < 32; i++) {
        memcpy(pair, hex + 2 * i, 2);
        d.digest[i] = (uint8_t)strtol(pair, &stop, 16);
        if (*stop) return bad(r, "a digest is no number in its tables");
    }
    return keep_digest(r, &d);
}

/* dtype count offset size sha256 -> a 1-D view into the mapping */
static sparta_status read_array(reader *r, const char *weight, sparta_tensor *out)
{
    const disk_section *weights = &r->header.section[DISK_WEIGHTS];
    sparta_dtype dtype;
    int64_t count, offset, size;
    size_t bytes;
    SP_TRY(read_dtype(r, &dtype));
    SP_TRY(read_number(r, &count));
    SP_TRY(read_number(r, &offset));
    SP_TRY(read_number(r, &size));
    SP_TRY(blame(r, sp_tensor_bytes(r->cx, dtype, 1, &count, &bytes), weight));
    if (bytes != (size_t)size || offset % 64 || (uint64_t)offset > weights->size ||
        (uint64_t)size > weights->size - (uint64_t)offset)
        return bad(r, "an array lies outside of it");
    const uint8_t *at = r->p->file.data + weights->offset + offset;
    SP_TRY(read_digest(r, weight, at, bytes));
    /* An empty array has an address too: kernels add to it. */
    *out = sparta_tensor_view(dtype, 1, &count, (void *)(uintptr_t)at);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ weights */

static sparta_status keep(reader *r, const char *name, const sp_weight *w)
{
    int64_t known;
    if (sp_map_get(r->p->by_name, name, &known)) return bad(r, "a weight is there twice");
    SP_TRY(sp_map_put(r->p->by_name, name, r->p->n_weights));
    r->p->weight[r->p->n_weights++] = *w;
    return SPARTA_OK;
}

static sparta_status read_weight(reader *r)
{
    sp_weight w = {0};
    sparta_tensor flat;
    sparta_dtype dtype;
    int rank;
    int64_t dim[SPARTA_RANK];
    SP_TRY(read_quoted(r, &w.name));
    SP_TRY(read_dtype(r, &dtype));
    SP_TRY(read_dims(r, &rank, dim));
    SP_TRY(read_array(r, w.name, &flat));
    w.tensor = sparta_tensor_view(dtype, rank, dim, flat.data);
    if (flat.dtype != dtype || sparta_tensor_elements(&w.tensor) != flat.dim[0])
        return bad(r, "a weight's size does not fit its shape");
    return keep(r, w.name, &w);
}

static sparta_status read_format(reader *r, const char *weight, sp_packed *p)
{
    const char *format;
    SP_TRY(read_quoted(r, &format));
    SP_TRY(blame(r, sp_format_parse(r->cx, format, &p->format), weight));
    return blame(r, sp_format_check(r->cx, &p->format, p->rank, p->dim), weight);
}

static sparta_status read_index(reader *r, const char *weight, sparta_tensor *out)
{
    SP_TRY(read_array(r, weight, out));
    return sp_index_add(r->p, &r->indices, out);
}

/* The arrays of a list of levels, or of an opaque format. */
static sparta_status read_leaf(reader *r, const char *weight, sp_packed *p)
{
    const sp_opaque *opaque = p->format.opaque;
    for (int i = 0; opaque && i < SP_OPAQUE_ARRAYS && opaque->array[i]; i++)
        SP_TRY(read_index(r, weight, &p->crd[i]));
    for (int i = 0; i < p->format.n; i++) {
        SP_TRY(read_index(r, weight, &p->pos[i]));
        SP_TRY(read_index(r, weight, &p->crd[i]));
    }
    return read_array(r, weight, &p->values);
}

/* The leaves of a sum; whether they are those of its format is for verify to say. */
static sparta_status read_parts(reader *r, const char *weight, sp_packed *p)
{
    int64_t parts;
    SP_TRY(read_number(r, &parts));
    if (parts < 1 || parts > SP_PARTS) return bad(r, "a sum of formats has too many parts in its tables");
    p->part = sp_arena_array(r->p->arena, (size_t)parts, sizeof *p->part);
    SP_NEED(r->cx, p->part);
    for (p->parts = 0; p->parts < parts; p->parts++) {
        sp_packed *leaf = &p->part[p->parts];
        leaf->dtype = p->dtype;
        leaf->rank = p->rank;
        memcpy(leaf->dim, p->dim, sizeof leaf->dim);
        SP_TRY(read_format(r, weight, leaf));
        if (leaf->format.sum) return bad(r, "a part of a sum of formats is a sum in its tables");
        SP_TRY(read_leaf(r, weight, leaf));
    }
    return SPARTA_OK;
}

static sparta_status read_packed(reader *r)
{
    sp_weight w = {.packed = true};
    int64_t swapped;
    SP_TRY(read_quoted(r, &w.name));
    SP_TRY(read_number(r, &swapped));
    SP_TRY(read_dtype(r, &w.pack.dtype));
    SP_TRY(read_dims(r, &w.pack.rank, w.pack.dim));
    SP_TRY(read_format(r, w.name, &w.pack));
    if (w.pack.rank != 2) return bad(r, "a packed weight is not a matrix");
    SP_TRY(w.pack.format.sum ? read_parts(r, w.name, &w.pack) : read_leaf(r, w.name, &w.pack));
    w.swapped = swapped != 0;
    SP_TRY(blame(r, sp_packed_head_check(r->cx, &w.pack), w.name)); /* the rest: before they are followed */
    const int64_t dim[2] = {w.pack.dim[w.swapped], w.pack.dim[!w.swapped]};
    w.tensor = sparta_tensor_view(w.pack.dtype, 2, dim, NULL);
    SP_TRY(sp_unverified_create(r->p, r->indices, &w.indices));
    SP_TRY(keep(r, w.name, &w));
    r->indices = NULL; /* they are the package's */
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ kernels */

/* false in *known: code of a target that only a newer sparta has. */
static sparta_status read_code(reader *r, sp_kernel_code *out, bool *known)
{
    char target[32], abi[17], *stop;
    int64_t offset, size;
    SP_TRY(read_word(r, target, sizeof target));
    SP_TRY(read_word(r, abi, sizeof abi));
    SP_TRY(read_number(r, &offset));
    SP_TRY(read_number(r, &size));
    const uint64_t all = r->header.section[DISK_CODE].size;
    if ((uint64_t)offset > all || (uint64_t)size > all - (uint64_t)offset)
        return bad(r, "machine code lies outside of it");
    out->abi = strtoull(abi, &stop, 16);
    if (*stop || strlen(abi) != 16) return bad(r, "machine code does not say what it was compiled for");
    char *mark = strstr(target, DISK_UNCHECKED);
    out->unchecked = mark && !strcmp(mark, DISK_UNCHECKED);
    if (out->unchecked) *mark = 0;
    out->bytes = (const uint8_t *)r->section[DISK_CODE] + offset;
    out->size = (size_t)size;
    *known = sp_target_parse(target, &out->target);
    if (!*known)
        sp_note(r->cx, "%s: it has code for %s, which this sparta does not know and leaves alone", r->path,
                target);
    return SPARTA_OK;
}

static sparta_status read_kernel(reader *r)
{
    sp_kernel *k = &r->p->kernel[r->p->n_kernels];
    int64_t offset, size, codes;
    SP_TRY(read_quoted(r, &k->kernel));
    SP_TRY(read_quoted(r, &k->parameters));
    SP_TRY(read_number(r, &offset));
    SP_TRY(read_number(r, &size));
    SP_TRY(read_number(r, &codes));
    const uint64_t all = r->header.section[DISK_SOURCE].size;
    if ((uint64_t)offset > all || (uint64_t)size > all - (uint64_t)offset)
        return bad(r, "kernel text lies outside of it");
    k->source = sp_arena_bytes(r->p->arena, r->section[DISK_SOURCE] + offset, (size_t)size);
    SP_NEED(r->cx, k->source);
    if (codes > (int64_t)strcspn(r->at, "\n")) return bad(r, "a kernel has less code than it says");
    k->code = sp_arena_array(r->p->arena, (size_t)codes + 1, sizeof *k->code);
    SP_NEED(r->cx, k->code);
    for (int i = 0; i < codes; i++) {
        bool known = false;
        SP_TRY(read_code(r, &k->code[k->n_code], &known));
        k->n_code += known;
    }
    r->p->n_kernels++;
    return SPARTA_OK;
}

static void count_lines(reader *r)
{
    for (const char *p = r->section[DISK_TABLES]; *p;) {
        r->weights += !strncmp(p, "weight ", 7) || !strncmp(p, "packed ", 7);
        r->kernels += !strncmp(p, "kernel ", 7);
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
}

static sparta_status read_tables(reader *r)
{
    count_lines(r);
    r->p->weight = sp_arena_array(r->p->arena, (size_t)r->weights + 1, sizeof *r->p->weight);
    r->p->kernel = sp_arena_array(r->p->arena, (size_t)r->kernels + 1, sizeof *r->p->kernel);
    if (!r->p->weight || !r->p->kernel) return sp_ctx_status(r->cx);
    for (r->at = r->section[DISK_TABLES]; *r->at;) {
        char word[16];
        if (*r->at == ' ') return bad(r, "a line of its tables begins with a blank"); /* it was not counted */
        SP_TRY(read_word(r, word, sizeof word));
        if (!strcmp(word, "weight"))
            SP_TRY(read_weight(r));
        else if (!strcmp(word, "packed"))
            SP_TRY(read_packed(r));
        else if (!strcmp(word, "kernel"))
            SP_TRY(read_kernel(r));
        else if (!strcmp(word, "note") && !r->p->note)
            SP_TRY(read_quoted(r, &r->p->note));
        else
            return bad(r, "a line of its tables is unknown");
        if (*r->at++ != '\n') return bad(r, "a line of its tables is too long");
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the plan */

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    reader *r = arg;
    const sp_weight *w = sp_package_weight(r->p, name);
    if (!w)
        return sp_fail(r->cx, SPARTA_E_FORMAT, "%s: the plan names weight '%.200s', which is not there",
                       r->path, name);
    *out = w->tensor; /* a packed one has a shape and no rows */
    return SPARTA_OK;
}

/* They take the same inputs and give the same outputs as the plan, or sessions could not go from one to the other. */
static bool same_values(sp_value *const *a, int n_a, sp_value *const *b, int n_b)
{
    if (n_a != n_b) return false;
    for (int i = 0; i < n_a; i++) {
        if (strcmp(a[i]->name, b[i]->name) || a[i]->dtype != b[i]->dtype ||
            !sp_dims_equal(&a[i]->dims, &b[i]->dims))
            return false;
    }
    return true;
}

static sparta_status read_others(reader *r)
{
    const sparta_package *p = r->p;
    const char *end = r->section[DISK_OTHERS] + r->header.section[DISK_OTHERS].size;
    for (r->at = r->section[DISK_OTHERS]; r->at < end;) {
        sp_other_plan *o = &r->p->other[p->n_others];
        int64_t bytes;
        if (p->n_others == SP_OTHER_PLANS) return bad(r, "it has too many plans");
        SP_TRY(read_number(r, &o->least));
        SP_TRY(read_number(r, &o->most));
        SP_TRY(read_number(r, &bytes));
        if (*r->at++ != '\n' || bytes > end - r->at) return bad(r, "another plan lies outside of it");
        const char *text = sp_arena_bytes(p->arena, r->at, (size_t)bytes);
        SP_NEED(r->cx, text);
        r->at += bytes;
        SP_TRY(blame(r, sp_graph_parse(r->cx, text, fetch, r, &o->plan), NULL));
        r->p->n_others++;
        if (o->least < 1 || o->least > o->most ||
            !same_values(o->plan->input, o->plan->n_inputs, p->plan->input, p->plan->n_inputs) ||
            !same_values(o->plan->output, o->plan->n_outputs, p->plan->output, p->plan->n_outputs))
            return bad(r, "another plan is not of the same model");
    }
    return SPARTA_OK;
}

static sparta_status read_all(reader *r)
{
    r->p->bytes = r->p->file.size;
    SP_TRY(read_header(r));
    SP_TRY(read_section(r, DISK_PLAN, "plan"));
    SP_TRY(read_section(r, DISK_OTHERS, "other plans"));
    SP_TRY(read_section(r, DISK_GIVEN, "given graph"));
    if (*r->section[DISK_GIVEN]) r->p->given = r->section[DISK_GIVEN]; /* parsed when it is asked for */
    SP_TRY(read_section(r, DISK_TABLES, "tables"));
    SP_TRY(read_section(r, DISK_CODE, "machine code"));
    SP_TRY(read_section(r, DISK_SOURCE, "kernel text"));
    SP_TRY(read_tables(r));
    SP_TRY(blame(r, sp_graph_parse(r->cx, r->section[DISK_PLAN], fetch, r, &r->p->plan), NULL));
    return read_others(r);
}

static sparta_status map_file(reader *r)
{
    SP_TRY(sp_mapped_open(r->cx, r->path, &r->p->file));
    r->p->path = sp_arena_string(r->p->arena, r->path);
    SP_NEED(r->cx, r->p->path);
    return SPARTA_OK;
}

/* The caller's bytes as they are, or a copy where arrays in them would not be aligned or he wants one. */
static sparta_status take_bytes(reader *r, const void *bytes, size_t size)
{
    sp_mapped *f = &r->p->file;
    *f = (sp_mapped){.data = bytes, .size = size};
    r->p->borrowed = true;
    if ((uintptr_t)bytes % 64 == 0 && !sp_ctx_options_of(r->cx)->copy_files) return SPARTA_OK;
    void *copy = sp_alloc(r->cx, size);
    SP_NEED(r->cx, copy);
    if (size) memcpy(copy, bytes, size);
    *f = (sp_mapped){.data = copy, .size = size, .cx = r->cx};
    r->p->borrowed = false;
    return SPARTA_OK;
}

/* What was read, or nothing. */
static sparta_status end(reader *r, sparta_status s, sparta_package **out)
{
    if (s == SPARTA_OK) s = read_all(r);
    if (s != SPARTA_OK) {
        sparta_package_close(r->p);
        return s;
    }
    if (r->p->note) sp_note(r->cx, "%s: %s", r->path, r->p->note);
    *out = r->p;
    return SPARTA_OK;
}

sparta_status sparta_package_open(sparta_ctx *cx, const char *path, sparta_package **out)
{
    reader r = {.cx = cx, .path = path};
    SP_TRY(sp_package_create(cx, &r.p));
    return end(&r, map_file(&r), out);
}

sparta_status sparta_package_open_memory(sparta_ctx *cx, const void *bytes, size_t size, sparta_package **out)
{
    reader r = {.cx = cx, .path = "package in memory"};
    SP_TRY(sp_package_create(cx, &r.p));
    return end(&r, take_bytes(&r, bytes, size), out);
}
