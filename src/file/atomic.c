/* Files written: beside the target under a temporary name, synced, renamed. The old file or the new one,
 * never a half. A symbolic link at the target is replaced, not followed.
 *
 *     folder/.model.sparta.1f2e3d4c.sparta-tmp      locked (flock) by who writes it
 *
 * A process that is killed leaves its temporary file and its lock goes: who writes into that folder next removes what is ours by
 * name and by owner and is locked by nobody. */
#include "file/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, NAME_KEPT = 200, PATH_MOST = 4096 };
static const char suffix[] = ".sparta-tmp";

struct sp_atomic {
    sparta_ctx *cx;
    char *path, *temp; /* the target, and what is written until the end */
    int fd;
    sparta_status status; /* sticky: after a failure nothing more is written */
    uint64_t written;     /* bytes in the file; those in the buffer follow */
    size_t used;
    uint8_t buffer[BUFFER];
};

/* The target is named in messages: the temporary name means nothing to anybody. */
static sparta_status io_error(sp_atomic *f, const char *what)
{
    f->status = sp_fail(f->cx, SPARTA_E_IO, "%s: %s: %s", f->path, what, strerror(errno));
    return f->status;
}

/* ------------------------------------------------------------------ open */

/* What is there already? Its permissions are kept. */
static sparta_status check_target(sparta_ctx *cx, const char *path, mode_t *mode)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    *mode = 0;
    if (!path[0] || (slash && !slash[1])) return sp_fail(cx, SPARTA_E_IO, "\"%s\": names no file", path);
    if (stat(path, &st)) return SPARTA_OK; /* not there, or not visible: opening will say more */
    if (S_ISDIR(st.st_mode)) return sp_fail(cx, SPARTA_E_IO, "%s: is a folder, not a file", path);
    if (!S_ISREG(st.st_mode)) return sp_fail(cx, SPARTA_E_IO, "%s: not a regular file", path);
    *mode = st.st_mode & 0777;
    return SPARTA_OK;
}

static bool is_temporary(const char *name)
{
    const size_t n = strlen(name), tail = sizeof suffix - 1;
    if (n < tail + 11 || name[0] != '.' || strcmp(name + n - tail, suffix)) return false;
    const char *hex = name + n - tail - 8;
    return hex[-1] == '.' && strspn(hex, "0123456789abcdef") >= 8;
}

static void sweep_one(int dir, const char *name)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0);
    close(fd);
}

/* The folder of a file; false: its path is too long for us. */
static bool folder_of(const char *path, char folder[PATH_MOST])
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + 1 : 1;
    return snprintf(folder, PATH_MOST, "%.*s", n, slash ? path : ".") < PATH_MOST;
}

/* Once for each folder in a row: thousands of files may be written into one. */
static void sweep(const char *path)
{
    static atomic_uint_fast64_t last;
    char folder[PATH_MOST];
    if (!folder_of(path, folder)) return;
    const uint64_t which = sp_hash(folder, strlen(folder), 1);
    if (atomic_exchange(&last, which) == which) return;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_temporary(e->d_name)) sweep_one(dirfd(d), e->d_name);
    if (d) closedir(d);
}

static uint64_t some_bits(const void *p)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits) return bits;
    double now = sp_now();
    return sp_hash(&now, sizeof now, (uint64_t)(uintptr_t)p ^ (uint64_t)getpid());
}

/* Nobody else has it: true also where the file system knows no locks, since there nobody sweeps. */
static bool lock_ours(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB)) return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0; /* else it was swept before it was locked */
}

/* Made by us alone (O_EXCL) with the permissions the user's umask leaves. */
static int create_locked(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 || lock_ours(fd)) return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

static sparta_status create_temp(sp_atomic *f)
{
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
    size_t size = strlen(f->path) + 16 + sizeof suffix;
    f->temp = sp_alloc(f->cx, size);
    SP_NEED(f->cx, f->temp);
    sweep(f->path);
    for (int tries = 0; tries < 100; tries++) {
        snprintf(f->temp, size, "%.*s.%.*s.%08x%s", (int)(name - f->path), f->path, NAME_KEPT, name,
                 (unsigned)some_bits(f), suffix);
        f->fd = create_locked(f->temp);
        if (f->fd >= 0 || errno != EEXIST) break;
    }
    return f->fd < 0 ? io_error(f, "cannot be created") : SPARTA_OK;
}

static void discard(sp_atomic *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        unlink(f->temp);
    }
    sp_free(f->cx, f->path);
    sp_free(f->cx, f->temp);
    sp_free(f->cx, f);
}

sp_atomic *sp_atomic_open(sparta_ctx *cx, const char *path)
{
    mode_t mode;
    if (check_target(cx, path, &mode)) return NULL;
    sp_atomic *f = sp_alloc(cx, sizeof *f);
    if (!f) return NULL;
    f->cx = cx;
    f->temp = NULL;
    f->fd = -1;
    f->status = SPARTA_OK;
    f->written = f->used = 0;
    f->path = sp_alloc(cx, strlen(path) + 1);
    if (f->path) strcpy(f->path, path);
    if (!f->path || create_temp(f)) {
        discard(f);
        return NULL;
    }
    if (mode && fchmod(f->fd, mode)) { /* a file system without permissions: nothing to keep */
    }
    return f;
}

/* ------------------------------------------------------------------ write */

static sparta_status write_at(sp_atomic *f, const uint8_t *bytes, size_t n, uint64_t offset)
{
    while (n) {
        sparta_status status = sp_check_cancel(f->cx);
        if (status) return f->status = status;
        ssize_t done = pwrite(f->fd, bytes, SP_MIN(n, (size_t)64 << 20), (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            if (done == 0) errno = ENOSPC;
            return io_error(f, "cannot be written");
        }
        bytes += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return SPARTA_OK;
}

static sparta_status flush(sp_atomic *f)
{
    SP_TRY(write_at(f, f->buffer, f->used, f->written));
    f->written += f->used;
    f->used = 0;
    return SPARTA_OK;
}

sparta_status sp_atomic_write(sp_atomic *f, const void *bytes, size_t n)
{
    if (f->status) return f->status;
    if (n > BUFFER - f->used) SP_TRY(flush(f));
    if (n >= BUFFER) {
        SP_TRY(write_at(f, bytes, n, f->written));
        f->written += n;
    } else if (n) {
        memcpy(f->buffer + f->used, bytes, n);
        f->used += n;
    }
    return SPARTA_OK;
}

uint64_t sp_atomic_offset(const sp_atomic *f)
{
    return f->written + f->used;
}

sparta_status sp_atomic_align(sp_atomic *f, size_t to)
{
    static const uint8_t zeros[4096];
    uint64_t over = to ? sp_atomic_offset(f) % to : 0;
    for (uint64_t left = over ? to - over : 0; left;) {
        size_t n = (size_t)SP_MIN(left, (uint64_t)sizeof zeros);
        SP_TRY(sp_atomic_write(f, zeros, n));
        left -= n;
    }
    return f->status;
}

sparta_status sp_atomic_patch(sp_atomic *f, uint64_t offset, const void *bytes, size_t n)
{
    uint64_t end = sp_atomic_offset(f);
    if (f->status) return f->status;
    if (offset > end || n > end - offset)
        return f->status = sp_fail(f->cx, SPARTA_E_INTERNAL, "%s: %zu bytes at %llu are not written yet",
                                   f->path, n, (unsigned long long)offset);
    SP_TRY(flush(f));
    return write_at(f, bytes, n, offset);
}

/* ------------------------------------------------------------------ end */

/* The rename itself must reach the disk. Some file systems cannot sync a folder: then it is as safe as they get. */
static void sync_folder(const char *path)
{
    char folder[PATH_MOST];
    if (!folder_of(path, folder)) return;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

sparta_status sp_atomic_end(sp_atomic *f, sparta_status so_far)
{
    if (!f) return so_far;
    sparta_status status = so_far ? so_far : f->status ? f->status : flush(f);
    if (!status && fsync(f->fd) && errno != EINVAL) status = io_error(f, "cannot be synced");
    if (!status && rename(f->temp, f->path)) status = io_error(f, "cannot be replaced");
    if (!status) {
        close(f->fd);
        f->fd = -1; /* there is no temporary file any more */
        sync_folder(f->path);
    }
    discard(f);
    return status;
}

sparta_status sp_file_write(sparta_ctx *cx, const char *path, const void *bytes, size_t n)
{
    sp_atomic *f = sp_atomic_open(cx, path);
    SP_NEED(cx, f);
    return sp_atomic_end(f, sp_atomic_write(f, bytes, n));
}

/* ------------------------------------------------------------------ folders */

static sparta_status make_one(sparta_ctx *cx, const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) == 0) return SPARTA_OK;
    int error = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_IO, "%s: the folder cannot be made: %s", path, strerror(error));
}

static sparta_status make_parts(sparta_ctx *cx, char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        SP_TRY(make_one(cx, path));
        *at = '/';
    }
    return make_one(cx, path);
}

sparta_status sp_make_folder(sparta_ctx *cx, const char *path)
{
    size_t n = strlen(path);
    if (!n) return sp_fail(cx, SPARTA_E_IO, "\"\": names no folder");
    char *copy = sp_alloc(cx, n + 1);
    SP_NEED(cx, copy);
    memcpy(copy, path, n + 1);
    sparta_status status = make_parts(cx, copy);
    sp_free(cx, copy);
    return status;
}
