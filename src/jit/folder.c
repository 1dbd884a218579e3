/* The cache folder and temporary folders: made, checked, cleaned.
 *
 * A cache that somebody else can write is a way to run code as us. So the folder is a real directory (no
 * link), ours (euid), closed to others (0700); it is opened once, checked through the descriptor and used
 * through the descriptor. One that fails a check is left as it is: a wrong mode is the sign of a mistake that
 * only its owner can judge. */
#include "jit/inside.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STALE_SECONDS = 24 * 3600 };

/* ------------------------------------------------------------------ where */

static void problem(sp_cache *c, const char *format, ...) SP_PRINTF(2, 3);
static void problem(sp_cache *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->problem, sizeof c->problem, format, args);
    va_end(args);
}

static bool put_path(sp_cache *c, const char *root, const char *rest)
{
    int n = snprintf(c->path, sizeof c->path, "%s%s", root, rest);
    if (n > 0 && (size_t)n < sizeof c->path) return true;
    problem(c, "the path of the cache folder is longer than %zu bytes", sizeof c->path - 1);
    return false;
}

/* Who owns the path, or as much of it as is there? -1: nobody knows. */
static long owner_of(const char *path)
{
    char part[sizeof((sp_cache *)0)->path];
    struct stat st;
    snprintf(part, sizeof part, "%s", path);
    while (stat(part, &st)) {
        char *slash = strrchr(part, '/');
        if (!slash) return -1;
        slash[slash == part] = 0;
        if (slash == part) return stat(part, &st) ? -1 : (long)st.st_uid;
    }
    return (long)st.st_uid;
}

/* Under sudo HOME may be the user's still. A cache that root makes there would lock the user out, and one that the user owns is none
 * that root may trust: root uses its own. */
static bool roots_own(sp_cache *c)
{
    char buffer[1024];
    struct passwd root, *found = NULL;
    if (geteuid() != 0 || owner_of(c->path) <= 0) return true;
    if (getpwuid_r(0, &root, buffer, sizeof buffer, &found) == 0 && found && found->pw_dir &&
        owner_of(found->pw_dir) == 0) {
        c->moved = true;
        return put_path(c, found->pw_dir, "/.cache/sparta");
    }
    problem(c, "%.150s belongs to another user, and root has no folder of its own", c->path);
    return false;
}

/* False: there is no folder to look at, and c->problem says why ("" never). */
static bool choose_path(sparta_ctx *cx, sp_cache *c)
{
    const char *given = sp_ctx_options_of(cx)->cache_dir, *env = getenv("SPARTA_CACHE");
    const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    if ((given && !given[0]) || (env && !strcmp(env, "off"))) {
        problem(c, "switched off");
        return false;
    }
    if (given &&
        given[0] != '/') { /* a folder that depends on where we stand is somebody else's sooner or later */
        problem(c, "%.200s is no absolute path", given);
        return false;
    }
    if (given) return put_path(c, given, "");
    if (xdg && xdg[0] == '/') return put_path(c, xdg, "/sparta") && roots_own(c);
    if (home && home[0] == '/') return put_path(c, home, "/.cache/sparta") && roots_own(c);
    problem(c, "neither HOME nor XDG_CACHE_HOME says where it is");
    return false;
}

/* ------------------------------------------------------------------ made and checked */

/* Like mkdir -p, private. *made: the last one is new. Returns 0 or an errno. */
static int make_folders(const char *path, bool *made)
{
    char part[sizeof((sp_cache *)0)->path];
    snprintf(part, sizeof part, "%s", path);
    *made = false;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST && access(part, F_OK)) return errno;
        *slash = '/';
    }
    if (mkdir(part, 0700) == 0) *made = true;
    return *made || errno == EEXIST ? 0 : errno;
}

static bool checked(sp_cache *c, bool made)
{
    struct stat st;
    if (made) (void)!fchmod(c->dir, 0700); /* the umask may have taken from our own rights */
    if (fstat(c->dir, &st)) {
        problem(c, "%.150s cannot be looked at: %s", c->path, strerror(errno));
    } else if (st.st_uid != geteuid()) {
        problem(c, "%.150s is not ours (owner %ld)%s", c->path, (long)st.st_uid,
                st.st_uid ? "" : "; sudo rm -r it once");
    } else if (st.st_mode & 077) {
        problem(c, "%.150s is open to others (mode %04o, 0700 is needed)", c->path,
                (unsigned)st.st_mode & 07777);
    } else if (faccessat(c->dir, ".", W_OK | X_OK, AT_EACCESS)) {
        problem(c, "%.150s cannot be written: %s", c->path, strerror(errno));
    } else {
        return true;
    }
    return false;
}

static void open_folder(sp_cache *c)
{
    bool made;
    /* No trailing slash: it would follow a link. */
    for (size_t n = strlen(c->path); n > 1 && c->path[n - 1] == '/'; n--) c->path[n - 1] = 0;
    int error = make_folders(c->path, &made);
    if (error) {
        problem(c, "%.150s cannot be made: %s", c->path, strerror(error));
        return;
    }
    c->dir = open(c->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->dir < 0 && (errno == ELOOP || errno == ENOTDIR))
        problem(c, "%.150s is a link or no folder", c->path);
    else if (c->dir < 0)
        problem(c, "%.150s cannot be opened: %s", c->path, strerror(errno));
    else if (!checked(c, made))
        sp_cache_close(c);
}

void sp_cache_open(sparta_ctx *cx, sp_cache *out)
{
    *out = (sp_cache){.dir = -1};
    if (choose_path(cx, out)) open_folder(out);
    if (out->dir < 0 && strcmp(out->problem, "switched off"))
        sp_note(cx, "cache: %s; kernels are compiled without a cache", out->problem);
}

void sp_cache_close(sp_cache *c)
{
    if (c->dir >= 0) close(c->dir);
    c->dir = -1;
}

/* ------------------------------------------------------------------ its name, for others
 * The name outlives the call and maybe the context, so it is kept for the process: one entry for each folder
 * ever used. */

typedef struct name {
    struct name *next;
    char path[sizeof((sp_cache *)0)->path];
} name;
static name *names;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *keep_name(const char *path)
{
    pthread_mutex_lock(&names_lock);
    name *n = names;
    while (n && strcmp(n->path, path)) n = n->next;
    if (!n && (n = malloc(sizeof *n))) {
        snprintf(n->path, sizeof n->path, "%s", path);
        n->next = names;
        names = n;
    }
    pthread_mutex_unlock(&names_lock);
    return n ? n->path : "";
}

const char *sparta_cache_folder(sparta_ctx *cx)
{
    sp_cache c;
    sp_cache_open(cx, &c);
    const char *path = c.dir >= 0 ? keep_name(c.path) : "";
    sp_cache_close(&c);
    return path;
}

/* ------------------------------------------------------------------ temporary folders */

/* Removes the folder `path` below `parent` with the files in it; folders in it are not ours, then it stays. */
static void remove_at(int parent, const char *path)
{
    int dir = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = dir < 0 ? NULL : fdopendir(dir);
    if (!d && dir >= 0) close(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    unlinkat(parent, path, AT_REMOVEDIR);
}

void sp_temp_remove(const char *path)
{
    remove_at(AT_FDCWD, path);
}

/* What killed processes left behind: kill -9 leaves a folder of a few kilobytes. Ours, closed to others, named as we name them and
 * not touched for a day: nobody else's. */
static void sweep(int at, const char *path, const char *prefix)
{
    int dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = dir < 0 ? NULL : fdopendir(dir);
    time_t now = time(NULL);
    struct stat st;
    if (!d && dir >= 0) close(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (now - st.st_mtime <= STALE_SECONDS || st.st_uid != geteuid() || (st.st_mode & 077)) continue;
        if (S_ISDIR(st.st_mode))
            remove_at(dirfd(d), e->d_name);
        else
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
}

static bool make_temp(const char *root, const char *rest, char *path, size_t size)
{
    int n = snprintf(path, size, "%s%s", root, rest);
    return n > 0 && (size_t)n < size && mkdtemp(path);
}

sparta_status sp_temp_create(sparta_ctx *cx, const sp_cache *c, char *path, size_t size)
{
    const char *root = secure_getenv("TMPDIR");
    if (!root || root[0] != '/') root = "/tmp";
    if (c && c->dir >= 0) {
        sweep(c->dir, ".", "tmp-");
        if (make_temp(c->path, "/tmp-XXXXXX", path, size)) return SPARTA_OK;
    }
    sweep(AT_FDCWD, root, ".sparta-kernel-");
    if (make_temp(root, "/.sparta-kernel-XXXXXX", path, size)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_IO, "%s: no temporary folder can be made: %s; set TMPDIR", root,
                   strerror(errno));
}

/* ------------------------------------------------------------------ files */

static int read_all(int fd, uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, bytes + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return EIO; /* it shrank under our hands */
        done += (size_t)n;
    }
    return 0;
}

static int read_open(sparta_ctx *cx, int fd, size_t most, uint8_t **bytes, size_t *size, int *mode)
{
    struct stat st;
    if (fstat(fd, &st)) return errno;
    if (!S_ISREG(st.st_mode)) return EINVAL;
    if (st.st_uid != geteuid()) return EPERM;
    if (st.st_size < 0 || (uint64_t)st.st_size > most) return EFBIG;
    uint8_t *p = sp_alloc(cx, (size_t)st.st_size);
    if (!p) return ENOMEM;
    int error = read_all(fd, p, (size_t)st.st_size);
    if (error) {
        sp_free(cx, p);
        return error;
    }
    *bytes = p;
    *size = (size_t)st.st_size;
    if (mode) *mode = (int)(st.st_mode & 07777);
    return 0;
}

int sp_read_at(sparta_ctx *cx, int dir, const char *path, size_t most, uint8_t **bytes, size_t *size,
               int *mode)
{
    int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno;
    int error = read_open(cx, fd, most, bytes, size, mode);
    close(fd);
    return error;
}

int sp_write_all(int fd, const void *bytes, size_t n)
{
    for (const uint8_t *p = bytes; n;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

int sp_write_at(int dir, const char *path, const void *bytes, size_t n, const void *more, size_t m)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int error = sp_write_all(fd, bytes, n);
    if (!error) error = sp_write_all(fd, more, m);
    if (close(fd) && !error) error = errno;
    if (error) unlinkat(dir, path, 0);
    return error;
}
