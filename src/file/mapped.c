/* Files read: mapped whole, or small ones copied into memory. */
#include "file/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* NONBLOCK: opening a fifo must not wait for a writer. */
enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static sparta_status io_error(sparta_ctx *cx, const char *path, const char *what)
{
    return sparta_fail(cx, SPARTA_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

static sparta_status check_regular(sparta_ctx *cx, int fd, const char *path, struct stat *st)
{
    if (fstat(fd, st)) return io_error(cx, path, "cannot be examined");
    if (S_ISDIR(st->st_mode)) return sparta_fail(cx, SPARTA_E_IO, "%s: is a folder, not a file", path);
    if (!S_ISREG(st->st_mode)) return sparta_fail(cx, SPARTA_E_IO, "%s: not a regular file", path);
    return SPARTA_OK;
}

static sparta_status map_whole(sparta_ctx *cx, int fd, const char *path, const struct stat *st,
                               sparta_mapped *out)
{
    static const uint8_t nothing[1];
    *out = (sparta_mapped){nothing, 0};
    if (st->st_size == 0) return SPARTA_OK; /* mmap refuses size 0 */
    void *p = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return io_error(cx, path, "cannot be mapped");
    *out = (sparta_mapped){p, (size_t)st->st_size};
    return SPARTA_OK;
}

sparta_status sparta_map_open(sparta_ctx *cx, const char *path, sparta_mapped *out)
{
    struct stat st;
    sparta_mapped m;
    int fd = open(path, READ_FLAGS);
    if (fd < 0) return io_error(cx, path, "cannot be opened");
    sparta_status status = check_regular(cx, fd, path, &st);
    if (!status) status = map_whole(cx, fd, path, &st, &m);
    close(fd);
    if (!status) *out = m;
    return status;
}

void sparta_map_close(sparta_mapped *m)
{
    if (m->size) munmap((void *)m->data, m->size);
    *m = (sparta_mapped){0};
}

void sparta_map_forget(const sparta_mapped *m, const void *from, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)m->data, at = (uintptr_t)from;
    if (!m->size || at < begin || at - begin > m->size || size > m->size - (at - begin)) return;
    const uintptr_t first = (at + page - 1) / page * page, end = (at + size) / page * page;
    if (first < end) (void)madvise((void *)first, end - first, MADV_DONTNEED); /* a wish, no more */
}

/* ------------------------------------------------------------------ beneath a folder */

/* The rules that can be read off the text. */
static sparta_status check_relative(sparta_ctx *cx, const char *path)
{
    if (!path[0]) return sparta_fail(cx, SPARTA_E_IO, "a file beneath the model's folder has an empty name");
    if (path[0] == '/')
        return sparta_fail(cx, SPARTA_E_IO, "%s: is absolute; only files beneath the model's folder are read",
                           path);
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += part[0] == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == 0))
            return sparta_fail(cx, SPARTA_E_IO,
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
        return sparta_fail(cx, SPARTA_E_IO,
                           "%s: a part of it is a symbolic link or no folder; links are not followed", path);
    if (errno == EXDEV) return sparta_fail(cx, SPARTA_E_IO, "%s: leaves the model's folder", path);
    return io_error(cx, path, "cannot be opened");
}

static sparta_status map_beneath(sparta_ctx *cx, int folder, const char *path, sparta_mapped *out)
{
    struct stat st;
    sparta_mapped m;
    int fd = open_beneath(folder, path);
    if (fd < 0) return beneath_error(cx, path);
    sparta_status status = check_regular(cx, fd, path, &st);
    if (!status && st.st_nlink > 1)
        status =
            sparta_fail(cx, SPARTA_E_IO,
                        "%s: has %lu hard links; a file with another name elsewhere is not read; copy it",
                        path, (unsigned long)st.st_nlink);
    if (!status) status = map_whole(cx, fd, path, &st, &m);
    close(fd);
    if (!status) *out = m;
    return status;
}

sparta_status sparta_map_open_beneath(sparta_ctx *cx, const char *folder, const char *relative,
                                      sparta_mapped *out)
{
    SPARTA_TRY(check_relative(cx, relative));
    int at = open(folder[0] ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return io_error(cx, folder, "cannot be opened as a folder");
    sparta_status status = map_beneath(cx, at, relative, out);
    close(at);
    return status;
}

/* ------------------------------------------------------------------ small files */

static sparta_status read_all(sparta_ctx *cx, int fd, const char *path, size_t limit, sparta_text *text)
{
    char buffer[16384];
    for (;;) {
        SPARTA_TRY(sparta_check_cancel(cx));
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(cx, path, "cannot be read");
        sparta_text_put(text, buffer,
                        (size_t)n); /* also for n = 0: the text ends with 0 even when it is empty */
        if (text->status) return text->status;
        if (text->size > limit)
            return sparta_fail(cx, SPARTA_E_LIMIT, "%s: is larger than %zu bytes", path, limit);
        if (n == 0) return SPARTA_OK;
    }
}

/* Read to the end, not to the size: files of /proc have none. */
sparta_status sparta_file_read(sparta_ctx *cx, const char *path, size_t limit, char **bytes, size_t *n)
{
    struct stat st;
    sparta_text text;
    int fd = open(path, READ_FLAGS);
    if (fd < 0) return io_error(cx, path, "cannot be opened");
    sparta_text_init(&text, cx);
    sparta_status status = check_regular(cx, fd, path, &st);
    if (!status) status = read_all(cx, fd, path, limit, &text);
    close(fd);
    if (status) {
        sparta_text_free(&text);
        return status;
    }
    *bytes = text.data;
    if (n) *n = text.size;
    return SPARTA_OK;
}
