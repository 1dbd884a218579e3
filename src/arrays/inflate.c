/* Deflated entries through the system's zlib, loaded only when there is one to read. */
#include "arrays/zip.h"
#include <dlfcn.h>
#include <string.h>

/* zlib's z_stream: its ABI has been the same since 1.0, and the header need not be installed. */
typedef struct stream {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} stream;
enum { Z_OK_ = 0, Z_STREAM_END_ = 1, Z_MEM_ERROR_ = -4, Z_BUF_ERROR_ = -5, RAW = -15 };
enum { STEP = 16 << 20 }; /* between two looks at the cancel flag */

typedef struct zlib {
    void *handle;
    int (*init)(stream *, int bits, const char *version, int stream_size);
    int (*inflate)(stream *, int flush);
    int (*end)(stream *);
} zlib;

static sparta_status load(sparta_ctx *cx, zlib *z)
{
    z->handle = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!z->handle)
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "npz: the entry is compressed and zlib (libz.so.1) is not here; save with numpy.savez");
    void *found[3] = {dlsym(z->handle, "inflateInit2_"), dlsym(z->handle, "inflate"),
                      dlsym(z->handle, "inflateEnd")};
    memcpy(&z->init, &found[0], sizeof found[0]); /* C has no cast between functions and data */
    memcpy(&z->inflate, &found[1], sizeof found[1]);
    memcpy(&z->end, &found[2], sizeof found[2]);
    if (z->init && z->inflate && z->end) return SPARTA_OK;
    dlclose(z->handle);
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "npz: libz.so.1 is not zlib");
}

/* zlib counts in 32 bits: feed it in steps. Ends well only when the stream ends exactly where both sizes say. */
static sparta_status run(sparta_ctx *cx, const zlib *z, stream *s, const zip_entry *e, uint8_t *out)
{
    uint64_t in_left = e->packed, out_left = e->size;
    int code = Z_OK_;
    s->next_in = e->data;
    s->next_out = out;
    while (code == Z_OK_) {
        SP_TRY(sp_check_cancel(cx));
        unsigned in = (unsigned)SP_MIN(in_left, (uint64_t)STEP),
                 room = (unsigned)SP_MIN(out_left, (uint64_t)STEP);
        s->avail_in = in;
        s->avail_out = room;
        code = z->inflate(s, 0);
        if (code == Z_OK_ && s->avail_in == in && s->avail_out == room) code = Z_BUF_ERROR_; /* no progress */
        in_left -= in - s->avail_in;
        out_left -= room - s->avail_out;
    }
    if (code == Z_MEM_ERROR_) return sp_fail(cx, SPARTA_E_MEMORY, "npz: no memory for zlib");
    if (code != Z_STREAM_END_ || in_left || out_left)
        return sp_fail(cx, SPARTA_E_FORMAT, "npz: the compressed data is damaged");
    return SPARTA_OK;
}

sparta_status sp_zip_inflate(sparta_ctx *cx, const zip_entry *e, uint8_t *out)
{
    zlib z = {0};
    stream s = {0};
    SP_TRY(load(cx, &z));
    sparta_status status = SPARTA_OK;
    if (z.init(&s, RAW, "1", (int)sizeof s) != Z_OK_) {
        status = sp_fail(cx, SPARTA_E_MEMORY, "npz: zlib could not start");
    } else {
        status = run(cx, &z, &s, e, out);
        z.end(&s);
    }
    dlclose(z.handle);
    return status;
}
