/* Kernels on disk, each with its proof.
 *
 *     <cache>/key                  32 random bytes, 0600: who cannot read it cannot make an entry
 *     <cache>/kernels/<key>.so     | shared object ... | HMAC-SHA256(key, name of the entry, SHA-256 of the object) |
 *     <cache>/tmp-*                being written, or left behind by a killed process (swept after a day)
 *
 * The name is part of the proof: an entry copied to another name is not that other kernel. An entry is read
 * into memory, checked there and loaded from there. Writers rename a finished file, so readers see the old
 * entry, the new one or none; two processes that compile the same text both write it, and either result is
 * good. */
#include "jit/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_SIZE = 32, PROOF_SIZE = 32 };

typedef struct store { /* the folder of the entries and the user's key */
    int kernels;
    uint8_t key[KEY_SIZE];
} store;

/* ------------------------------------------------------------------ the user's key */

static bool fresh_name(char out[32])
{
    uint8_t random[8];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return false;
    memcpy(out, "tmp-", 4);
    sp_hex(random, sizeof random, out + 4);
    return true;
}

/* Written aside and linked: of several processes one wins, and nobody sees half a key. */
static int make_key(int dir)
{
    uint8_t key[KEY_SIZE];
    char temp[32];
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key || !fresh_name(temp)) return EIO;
    int error = sp_write_at(dir, temp, key, sizeof key, NULL, 0);
    explicit_bzero(key, sizeof key);
    if (error) return error;
    if (linkat(dir, temp, dir, "key", 0) && errno != EEXIST) error = errno;
    unlinkat(dir, temp, 0);
    return error;
}

static int read_key(sparta_ctx *cx, int dir, uint8_t key[KEY_SIZE])
{
    uint8_t *bytes;
    size_t size;
    int mode, error = sp_read_at(cx, dir, "key", KEY_SIZE, &bytes, &size, &mode);
    if (error) return error;
    if (size != KEY_SIZE || (mode & 077))
        error = EPERM; /* somebody else may know it */
    else
        memcpy(key, bytes, KEY_SIZE);
    explicit_bzero(bytes, size);
    sp_free(cx, bytes);
    return error;
}

/* ------------------------------------------------------------------ opening */

static int open_kernels(int dir)
{
    struct stat st;
    if (mkdirat(dir, "kernels", 0700) && errno != EEXIST) return -1;
    int kernels = openat(dir, "kernels", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (kernels < 0 || fstat(kernels, &st)) return kernels;
    if (st.st_uid == geteuid() && !(st.st_mode & 077)) return kernels;
    close(kernels);
    errno = EPERM;
    return -1;
}

static int open_store(sparta_ctx *cx, const sp_cache *c, store *s)
{
    int error = read_key(cx, c->dir, s->key);
    if (error == ENOENT && !(error = make_key(c->dir))) error = read_key(cx, c->dir, s->key);
    if (error) return error;
    s->kernels = open_kernels(c->dir);
    return s->kernels < 0 ? errno : 0;
}

static void close_store(store *s)
{
    close(s->kernels);
    explicit_bzero(s->key, sizeof s->key);
}

static void unusable(sparta_ctx *cx, const sp_cache *c, int error)
{
    const char *why =
        error == EPERM ? "its key or its kernels are not private to us; remove the folder" : strerror(error);
    sp_note(cx, "cache: %s: %s; kernels are compiled without a cache", c->path, why);
}

/* ------------------------------------------------------------------ entries */

static void prove(const store *s, const uint8_t key[32], const void *bytes, size_t n,
                  uint8_t proof[PROOF_SIZE])
{
    uint8_t what[64];
    memcpy(what, key, 32);
    sp_sha256_of(bytes, n, what + 32);
    sp_hmac_sha256(s->key, sizeof s->key, what, sizeof what, proof);
}

/* In constant time: how long it takes tells nothing about the right proof. */
static bool same(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;
    for (int i = 0; i < PROOF_SIZE; i++) differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}

static void entry_name(const uint8_t key[32], char out[72])
{
    sp_hex(key, 32, out);
    memcpy(out + 64, ".so", 4);
}

static int read_entry(sparta_ctx *cx, const store *s, const uint8_t key[32], uint8_t **bytes, size_t *size)
{
    uint8_t *all, proof[PROOF_SIZE];
    size_t n;
    char file[72];
    entry_name(key, file);
    int error = sp_read_at(cx, s->kernels, file, SP_OBJECT_MOST + PROOF_SIZE, &all, &n, NULL);
    if (error) return error;
    bool good = n > PROOF_SIZE;
    if (good) {
        prove(s, key, all, n - PROOF_SIZE, proof);
        good = same(proof, all + n - PROOF_SIZE);
    }
    if (!good) {
        sp_free(cx, all);
        return EBADMSG;
    }
    *bytes = all;
    *size = n - PROOF_SIZE;
    return 0;
}

sparta_status sp_entry_read(sparta_ctx *cx, const sp_cache *c, const uint8_t key[32], uint8_t **bytes,
                            size_t *size)
{
    store s;
    *bytes = NULL;
    *size = 0;
    if (c->dir < 0) return SPARTA_OK;
    int error = open_store(cx, c, &s);
    if (error == ENOMEM) return sp_ctx_status(cx);
    if (error) {
        unusable(cx, c, error);
        return SPARTA_OK;
    }
    error = read_entry(cx, &s, key, bytes, size);
    close_store(&s);
    if (error == ENOMEM) return sp_ctx_status(cx);
    if (error && error != ENOENT)
        sp_note(cx,
                "cache: an entry of %s was damaged or not written by us; it is not used and compiled again",
                c->path);
    return SPARTA_OK;
}

static int write_entry(const sp_cache *c, const store *s, const uint8_t key[32], const void *bytes, size_t n)
{
    uint8_t proof[PROOF_SIZE];
    char file[72], temp[32];
    if (!fresh_name(temp)) return EIO;
    entry_name(key, file);
    prove(s, key, bytes, n, proof);
    int error = sp_write_at(c->dir, temp, bytes, n, proof, sizeof proof);
    if (error) return error;
    if (renameat(c->dir, temp, s->kernels, file) == 0) return 0;
    error = errno;
    unlinkat(c->dir, temp, 0);
    return error;
}

void sp_entry_write(sparta_ctx *cx, const sp_cache *c, const uint8_t key[32], const void *bytes, size_t n)
{
    store s;
    if (c->dir < 0) return;
    int error = open_store(cx, c, &s);
    if (error) {
        unusable(cx, c, error);
        return;
    }
    error = write_entry(c, &s, key, bytes, n);
    close_store(&s);
    if (error) sp_note(cx, "cache: %s: %s; kernels are not kept", c->path, strerror(error));
}
