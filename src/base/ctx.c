/* The context: options, the last message, notes, cancellation. Its memory is in memory.c. */
#include "base/ctx.h"
#include <ctype.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The public enum is written out for readers; these rows prove that it says the same as the table. */
enum {
#define SP_STATUS(name, exit, meaning) ROW_##name,
#include "base/status.def"
#undef SP_STATUS
    ROWS
};
#define SP_STATUS(name, exit, meaning)                                                                       \
    _Static_assert((int)SPARTA_##name == (int)ROW_##name, "sparta.h and status.def differ at " #name);
#include "base/status.def"
#undef SP_STATUS

static const struct {
    const char *name;
    int exit_code;
} statuses[] = {
#define SP_STATUS(name, exit, meaning) {#name, exit},
#include "base/status.def"
#undef SP_STATUS
};

const char *sparta_status_name(sparta_status status)
{
    return (unsigned)status < ROWS ? statuses[status].name : "unknown";
}

int sp_exit_code(sparta_status status)
{
    return (unsigned)status < ROWS ? statuses[status].exit_code : 1;
}

const char *sparta_version(void)
{
    return SPARTA_VERSION;
}

int sparta_version_number(void)
{
    return SPARTA_VERSION_NUMBER;
}

void sp_broken(const char *truth, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s\n", file, line, truth);
    abort();
}

/* ------------------------------------------------------------------ life */

static size_t default_budget(void)
{
    const uint64_t most = (uint64_t)8 << 30;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return (size_t)most;
    uint64_t half = (uint64_t)pages * (uint64_t)page / 2;
    return (size_t)SP_MIN(half, most);
}

static bool copy_string(const char **s)
{
    if (!*s) return true;
    *s = strdup(*s);
    return *s != NULL;
}

sparta_status sp_options(sparta_ctx *cx, const char *what, const void *given, void *to, size_t room)
{
    size_t size = room;
    if (given) memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "%s: the size of its options is %zu, so that none of them would count; begin with "
                       "SPARTA_OPTIONS, or set size to that of the struct",
                       what, size);
    memset(to, 0, room);
    if (given) memcpy(to, given, SP_MIN(size, room));
    return SPARTA_OK;
}

static bool keep_options(sparta_ctx *cx, const sparta_ctx_options *options)
{
    sparta_ctx_options given;
    if (sp_options(cx, "context", options, &given, sizeof given) != SPARTA_OK) return false;
    given.size = sizeof given;
    if (!given.max_memory) given.max_memory = default_budget();
    const char *cache_dir = given.cache_dir, *compiler = given.compiler;
    given.cache_dir = given.compiler = NULL;
    cx->options = given;
    if (!copy_string(&cache_dir)) return false;
    cx->options.cache_dir = cache_dir;
    if (!copy_string(&compiler)) return false;
    cx->options.compiler = compiler;
    return true;
}

sparta_ctx *sparta_ctx_create(const sparta_ctx_options *options)
{
    sparta_ctx *cx = calloc(1, sizeof *cx);
    if (!cx) return NULL;
    if (!keep_options(cx, options)) {
        sparta_ctx_free(cx);
        return NULL;
    }
    return cx;
}

void sparta_ctx_free(sparta_ctx *cx)
{
    if (!cx) return;
    for (int i = 0; i < SP_SLOTS; i++)
        if (cx->slot[i].thing) cx->slot[i].free(cx, cx->slot[i].thing);
    free((char *)cx->options.cache_dir);
    free((char *)cx->options.compiler);
    free(cx);
}

const sparta_ctx_options *sp_ctx_options_of(const sparta_ctx *cx)
{
    return &cx->options;
}

void *sp_ctx_slot(const sparta_ctx *cx, sp_ctx_key slot)
{
    return cx->slot[slot].thing;
}

void *sp_ctx_make_slot(sparta_ctx *cx, sp_ctx_key slot, size_t size,
                       void (*free_thing)(sparta_ctx *cx, void *thing))
{
    if (!cx->slot[slot].thing) cx->slot[slot].thing = sp_zalloc(cx, size);
    cx->slot[slot].free = free_thing;
    return cx->slot[slot].thing;
}

bool sp_ctx_strict(const sparta_ctx *cx)
{
    return cx->options.strict != 0;
}

/* ------------------------------------------------------------------ messages */

int sp_vformat(char *out, size_t size, const char *format, va_list args)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    int n = vsnprintf(out, size, format, args);
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    return n;
}

/* End a text that did not fit with "...", without half of a UTF-8 character before it. */
static void end_cut_text(char *s, size_t size)
{
    size_t n = size - 4;
    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) n--;
    memcpy(s + n, "...", 4);
}

/* Names out of hostile files reach the terminal in messages: no escape sequences, no lines of their own. */
static void say(char *out, size_t size, const char *format, va_list args)
{
    int n = sp_vformat(out, size, format, args);
    if (n < 0)
        snprintf(out, size, "%s", format);
    else if ((size_t)n >= size)
        end_cut_text(out, size);
    sp_clean(out);
}

sparta_status sp_fail(sparta_ctx *cx, sparta_status status, const char *format, ...)
{
    char text[SP_MESSAGE_SIZE]; /* the arguments may point into the present message */
    va_list args;
    va_start(args, format);
    say(text, sizeof text, format, args);
    va_end(args);
    cx->status = status;
    memcpy(cx->message, text, sizeof text);
    return status;
}

sparta_status sp_fail_in(sparta_ctx *cx, const char *format, ...)
{
    char where[SP_MESSAGE_SIZE / 2], text[SP_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    say(where, sizeof where, format, args);
    va_end(args);
    if ((size_t)snprintf(text, sizeof text, "%s: %s", where, cx->message) >= sizeof text)
        end_cut_text(text, sizeof text);
    memcpy(cx->message, text, sizeof text);
    cx->status = sp_ctx_status(cx);
    return cx->status;
}

const char *sparta_message(const sparta_ctx *cx)
{
    return cx ? cx->message
              : "context: there is none; its options have no size (begin with SPARTA_OPTIONS), or there is "
                "no memory";
}

sparta_status sp_ctx_status(const sparta_ctx *cx)
{
    return cx->status == SPARTA_OK ? SPARTA_E_INTERNAL : cx->status;
}

/* Forgets the message, not a cancellation: a request to stop must not be lost. */
void sp_ctx_clear(sparta_ctx *cx)
{
    cx->status = SPARTA_OK;
    cx->message[0] = 0;
}

/* ------------------------------------------------------------------ cancellation */

void sparta_ctx_cancel(sparta_ctx *cx)
{
    if (cx) atomic_store_explicit(&cx->cancelled, 1, memory_order_relaxed);
}

void sparta_ctx_reset(sparta_ctx *cx)
{
    if (!cx) return;
    sp_ctx_clear(cx);
    sp_ctx_forget_notes(cx);
    sp_ctx_resume(cx);
}

void sp_ctx_resume(sparta_ctx *cx)
{
    atomic_store_explicit(&cx->cancelled, 0, memory_order_relaxed);
}

bool sp_ctx_cancelled(const sparta_ctx *cx)
{
    return atomic_load_explicit(&cx->cancelled, memory_order_relaxed);
}

sparta_status sp_check_cancel(sparta_ctx *cx)
{
    if (!sp_ctx_cancelled(cx)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_CANCELLED, "cancelled");
}

/* ------------------------------------------------------------------ notes */

static bool has_line(const char *lines, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = strstr(lines, line); at; at = strstr(at + 1, line))
        if ((at == lines || at[-1] == '\n') && (at[n] == '\n' || at[n] == 0)) return true;
    return false;
}

static void add_line(char lines[SP_NOTES_SIZE], const char *text)
{
    const size_t used = strlen(lines), n = strlen(text);
    if (!n || has_line(lines, text) || used + n + 2 > SP_NOTES_SIZE)
        return; /* a user does not read four pages of notes */
    if (used) lines[used] = '\n';
    memcpy(lines + used + (used > 0), text, n + 1);
}

void sp_note(sparta_ctx *cx, const char *format, ...)
{
    char text[SP_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    say(text, sizeof text, format, args);
    va_end(args);
    add_line(cx->notes, text);
}

void sp_warn(sparta_ctx *cx, const char *format, ...)
{
    char text[SP_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    say(text, sizeof text, format, args);
    va_end(args);
    add_line(cx->notes, text);
    add_line(cx->warnings, text);
}

const char *sp_warnings(const sparta_ctx *cx)
{
    return cx->warnings;
}

const char *sparta_notes(const sparta_ctx *cx)
{
    return cx ? cx->notes : "";
}

void sp_ctx_forget_notes(sparta_ctx *cx)
{
    cx->notes[0] = 0;
    cx->warnings[0] = 0;
}
