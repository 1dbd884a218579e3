/* Files read: mapped whole (or copied whole, when the context says so), or small ones copied into memory. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* NONBLOCK: opening a fifo must not wait for a writer. */
enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
enum { KEPT_BELOW = 512 }; /* select() of a host knows 1024 descriptors */

static sparta_status io_error(sparta_ctx *cx, const char *path, const char *what)
{
    return sp_fail(cx, SPARTA_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

static sparta_status check_regular(sparta_ctx *cx, int fd, const char *path, struct stat *st)
{
    if (fstat(fd, st)) return io_error(cx, path, "cannot be examined");
    if (S_ISDIR(st->st_mode)) return sp_fail(cx, SPARTA_E_IO, "%s: is a folder, not a file", path);
    if (!S_ISREG(st->st_mode)) return sp_fail(cx, SPARTA_E_IO, "%s: not a regular file", path);
    return SPARTA_OK;
}

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static sparta_status changed(sparta_ctx *cx, const char *path, const char *what)
{
    return sp_fail(cx, SPARTA_E_IO,
                   "%s: %s while it was in use; write a new file and rename it over the old one, or read it "
                   "with options.copy_files",
                   path, what);
}

static sparta_status read_whole(sparta_ctx *cx, int fd, const char *path, uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        SP_TRY(sp_check_cancel(cx));
        ssize_t n = pread(fd, bytes + done, SP_MIN(size - done, (size_t)64 << 20), (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(cx, path, "cannot be read");
        if (n == 0) return changed(cx, path, "it was truncated");
        done += (size_t)n;
    }
    return SPARTA_OK;
}

/* The copy is whole only if nobody wrote meanwhile. */
static sparta_status copy_whole(sparta_ctx *cx, int fd, const char *path, const struct stat *st,
                                sp_mapped *out)
{
    const size_t size = (size_t)st->st_size;
    const sp_mapped as_it_was = {.size = size, .kept = fd + 1, .mtime_ns = mtime_of(st)};
    uint8_t *bytes = sp_alloc(cx, size);
    SP_NEED(cx, bytes);
    sparta_status status = read_whole(cx, fd, path, bytes, size);
    if (!status) status = sp_mapped_check(cx, &as_it_was, path);
    if (status) {
        sp_free(cx, bytes);
        return status;
    }
    *out = (sp_mapped){.data = bytes, .size = size, .mtime_ns = as_it_was.mtime_ns, .cx = cx};
    return SPARTA_OK;
}

/* A model may have thousands of files, and the host needs descriptors too: the lower half of them is for files that are watched. */
static bool may_keep(int fd)
{
    struct rlimit most;
    return fd < KEPT_BELOW && !getrlimit(RLIMIT_NOFILE, &most) && (rlim_t)fd < most.rlim_cur / 2;
}

/* A mapping keeps the descriptor, to look at the file later; where there are too many it is not watched. */
static sparta_status map_whole(sparta_ctx *cx, int fd, const char *path, const struct stat *st,
                               sp_mapped *out)
{
    void *p = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED && errno == ENOMEM)
        return sp_fail(cx, SPARTA_E_MEMORY,
                       "%s: the system has no room to map %lld bytes; raise the limit (ulimit -v)", path,
                       (long long)st->st_size);
    if (p == MAP_FAILED) return io_error(cx, path, "cannot be mapped");
    *out = (sp_mapped){.data = p, .size = (size_t)st->st_size, .mtime_ns = mtime_of(st)};
    if (may_keep(fd)) out->kept = fd + 1;
    return SPARTA_OK;
}

static sparta_status take_whole(sparta_ctx *cx, int fd, const char *path, const struct stat *st,
                                sp_mapped *out)
{
    static const uint8_t nothing[1];
    sp_mapped m = {.data = nothing};
    if (st->st_size > 0) /* mmap refuses size 0 */
        SP_TRY(sp_ctx_options_of(cx)->copy_files ? copy_whole(cx, fd, path, st, &m)
                                                 : map_whole(cx, fd, path, st, &m));
    *out = m;
    return SPARTA_OK;
}

/* The descriptor is the mapping's now, or closed. */
static sparta_status take(sparta_ctx *cx, int fd, const char *path, bool alone, sp_mapped *out)
{
    struct stat st;
    sp_mapped m = {0};
    sparta_status status = check_regular(cx, fd, path, &st);
    if (!status && alone && st.st_nlink > 1)
        status = sp_fail(cx, SPARTA_E_IO,
                         "%s: has %lu hard links; a file with another name elsewhere is not read; copy it",
                         path, (unsigned long)st.st_nlink);
    if (!status) status = take_whole(cx, fd, path, &st, &m);
    if (!m.kept) close(fd);
    if (!status) *out = m;
    return status;
}

sparta_status sp_mapped_open(sparta_ctx *cx, const char *path, sp_mapped *out)
{
    int fd = open(path, READ_FLAGS);
    return fd < 0 ? io_error(cx, path, "cannot be opened") : take(cx, fd, path, false, out);
}

sparta_status sp_mapped_check(sparta_ctx *cx, const sp_mapped *m, const char *path)
{
    struct stat st;
    if (!m->kept || fstat(m->kept - 1, &st)) return SPARTA_OK;
    if ((uint64_t)st.st_size < m->size) return changed(cx, path, "it was truncated");
    if ((uint64_t)st.st_size != m->size || mtime_of(&st) != m->mtime_ns)
        return changed(cx, path, "it was written");
    return SPARTA_OK;
}

void sp_mapped_close(sp_mapped *m)
{
    if (m->cx)
        sp_free(m->cx, (void *)m->data);
    else if (m->size)
        munmap((void *)m->data, m->size);
    if (m->kept) close(m->kept - 1);
    *m = (sp_mapped){0};
}

void sp_mapped_forget(const sp_mapped *m, const void *from, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)m->data, at = (uintptr_t)from;
    if (!m->size || m->cx || at < begin || at - begin > m->size || size > m->size - (at - begin)) return;
    const uintptr_t first = (at + page - 1) / page * page, end = (at + size) / page * page;
    if (first < end) (void)madvise((void *)first, end - first, MADV_DONTNEED); /* a wish, no more */
}

/* ------------------------------------------------------------------ beneath a folder */

/* The rules that can be read off the text. */
static sparta_status check_relative(sparta_ctx *cx, const char *path)
{
    if (!path[0]) return sp_fail(cx, SPARTA_E_IO, "a file beneath the model's folder has an empty name");
    if (path[0] == '/')
        return sp_fail(cx, SPARTA_E_IO, "%s: is absolute; only files beneath the model's folder are read",
                       path);
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += part[0] == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == 0))
            return sp_fail(cx, SPARTA_E_IO,
                           "%s: contains \"..\"; only files beneath the model's folder are read", path);
    }
    return SPARTA_OK;
}

/* Part by part, following no link: for kernels (and sandboxes) without openat2. */
static int open_by_parts(int folder, const char *path)
{
    int at = dup(folder);
    while (at >= 0) {
        char part[256];
        const char *slash = strchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : strlen(path);
        if (n >= sizeof part) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        snprintf(part, sizeof part, "%.*s", (int)n, n ? path : ".");
        if (n == 0) memcpy(part, ".", 2);
        int next =
            openat(at, part, slash ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : READ_FLAGS | O_NOFOLLOW);
        int error = errno;
        close(at);
        errno = error;
        if (next < 0 || !slash) return next;
        at = next;
        path = slash + 1;
    }
    return at;
}

static int open_beneath(int folder, const char *path)
{
#ifdef SYS_openat2
    /* struct open_how of <linux/openat2.h>, which old systems lack */
    struct {
        uint64_t flags, mode, resolve;
    } how = {READ_FLAGS, 0,
             0x08 /* RESOLVE_BENEATH */ | 0x04 /* RESOLVE_NO_SYMLINKS */ | 0x02 /* RESOLVE_NO_MAGICLINKS */};
    int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL && errno != E2BIG)) return fd;
#endif
    return open_by_parts(folder, path);
}

static sparta_status beneath_error(sparta_ctx *cx, const char *path)
{
    if (errno == ELOOP || errno == ENOTDIR)
        return sp_fail(cx, SPARTA_E_IO,
                       "%s: a part of it is a symbolic link or no folder; links are not followed", path);
    if (errno == EXDEV) return sp_fail(cx, SPARTA_E_IO, "%s: leaves the model's folder", path);
    return io_error(cx, path, "cannot be opened");
}

sparta_status sp_mapped_open_beneath(sparta_ctx *cx, const char *folder, const char *relative, sp_mapped *out)
{
    SP_TRY(check_relative(cx, relative));
    int at = open(folder[0] ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return io_error(cx, folder, "cannot be opened as a folder");
    int fd = open_beneath(at, relative);
    sparta_status status = fd < 0 ? beneath_error(cx, relative) : take(cx, fd, relative, true, out);
    close(at);
    return status;
}

/* ------------------------------------------------------------------ small files */

static sparta_status read_all(sparta_ctx *cx, int fd, const char *path, size_t limit, sp_text *text)
{
    char buffer[16384];
    for (;;) {
        SP_TRY(sp_check_cancel(cx));
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(cx, path, "cannot be read");
        sp_text_put(text, buffer, (size_t)n); /* also for n = 0: the text ends with 0 even when it is empty */
        if (text->status) return text->status;
        if (text->size > limit)
            return sp_fail(cx, SPARTA_E_LIMIT, "%s: is larger than %zu bytes", path, limit);
        if (n == 0) return SPARTA_OK;
    }
}

/* Read to the end, not to the size: files of /proc have none. */
sparta_status sp_file_read(sparta_ctx *cx, const char *path, size_t limit, char **bytes, size_t *n)
{
    struct stat st;
    sp_text text;
    int fd = open(path, READ_FLAGS);
    if (fd < 0) return io_error(cx, path, "cannot be opened");
    sp_text_init(&text, cx);
    sparta_status status = check_regular(cx, fd, path, &st);
    if (!status) status = read_all(cx, fd, path, limit, &text);
    close(fd);
    if (status) {
        sp_text_free(&text);
        return status;
    }
    *bytes = text.data;
    if (n) *n = text.size;
    return SPARTA_OK;
}
