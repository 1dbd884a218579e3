/* A file of names:
 *
 *     # bits for columns that four rows share
 *     format fours = (i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16
 *     format mine  = sum{ rownnz<=8 -> fours;         # a name may use those above it
 *                         rest      -> csr }          # lines that begin with a blank go on
 *
 * Comments and the blanks around them become blanks, so that the lexer of formats reads the file and knows the line and
 * column of every mistake. All of a file's names are there afterwards, or none. */
#include "format/text.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>

#define FILE_LIMIT (1 << 20)

/* "FILE:LINE:COLUMN: message": our own messages have "format:LINE:COLUMN: " or "format: " in front. */
static sparta_status blame(sparta_ctx *cx, const char *path, sp_text_place at)
{
    const char *message = sparta_message(cx);
    char rest[700];
    sparta_status status = sp_ctx_status(cx);
    if (status != SPARTA_E_USAGE && status != SPARTA_E_LIMIT) return status;
    bool ours = !strncmp(message, "format:", 7), placed = ours && message[7] != ' ';
    snprintf(rest, sizeof rest, "%s", placed ? message + 7 : ours ? message + 8 : message);
    if (placed) return sp_fail(cx, status, "%.200s:%s", path, rest);
    return sp_fail(cx, status, "%.200s:%d:%d: %s", path, at.line, at.column, rest);
}

static void blank_comments(char *s)
{
    while ((s = strchr(s, '#')))
        while (*s && *s != '\n') *s++ = ' ';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where the definition at `s` ends: before the next line that does not begin with a blank. */
static char *definition_end(char *s)
{
    while (*s && !(*s == '\n' && s[1] && !is_blank(s[1]))) s++;
    return s;
}

/* 'format' NAME '=' TEXT, up to the 0 that stands behind it. *at: for messages without a place. */
static sparta_status read_definition(sparta_ctx *cx, const char *path, const char *s, sp_text_place *at)
{
    sp_parser p = sp_lex(cx, s, *at);
    char name[128];
    sp_format f;
    if (p.now.at.column != 1)
        return sp_format_wrong(
            p.cx, &p.now.at, "a line that begins with a blank goes on with the format above; there is none");
    if (!sp_token_is(&p.now, "format")) return sp_lex_expected(&p, "'format NAME = TEXT'");
    sp_lex_next(&p);
    *at = p.now.at;
    if (p.now.kind != SP_TOKEN_NAME) return sp_lex_expected(&p, "the name of the format");
    sp_lex_join(&p);
    snprintf(name, sizeof name, "%.*s", SP_MIN(p.now.length, 127), p.now.text);
    int line = p.now.at.line;
    SP_TRY(sp_format_name_check(cx, name));
    sp_lex_next(&p);
    if (!sp_lex_is(&p, '=')) return sp_lex_expected(&p, "'=' and the text of the format");
    SP_TRY(sp_format_parse_at(cx, p.next, p.at, &f));
    return sp_format_define_as(cx, name, &f, path, line);
}

static sparta_status read_definitions(sparta_ctx *cx, const char *path, char *s)
{
    sp_text_place at = {1, 1};
    while (*s) {
        if (is_blank(*s)) { /* before the first definition, and lines that end one */
            at = *s == '\n' ? (sp_text_place){at.line + 1, 1} : (sp_text_place){at.line, at.column + 1};
            s++;
            continue;
        }
        char *end = definition_end(s), *last = end, kept;
        int lines = 0;
        for (char *c = s; c < end; c++) lines += *c == '\n';
        while (last > s && is_blank(last[-1])) last--;
        kept = *last, *last = 0;
        sp_text_place where = at;
        if (read_definition(cx, path, s, &where)) return blame(cx, path, where);
        *last = kept;
        s = end;
        at = (sp_text_place){at.line + lines, 1};
    }
    return SPARTA_OK;
}

sparta_status sp_format_define_text(sparta_ctx *cx, const char *path, char *text)
{
    sp_formats *all = sp_formats_of(cx);
    SP_NEED(cx, all);
    const sp_format_name *before = all->names;
    blank_comments(text);
    sparta_status status = read_definitions(cx, path, text);
    if (status) sp_formats_forget(cx, all, before);
    return status;
}

sparta_status sp_store_define_file(sparta_ctx *cx, const char *path)
{
    char *bytes;
    size_t n;
    SP_TRY(sp_file_read(cx, path, FILE_LIMIT, &bytes, &n));
    sparta_status status =
        strlen(bytes) == n
            ? sp_format_define_text(cx, path, bytes)
            : sp_fail(cx, SPARTA_E_USAGE, "%.200s: byte %zu is 0: this is no text", path, strlen(bytes));
    sp_free(cx, bytes);
    return status;
}
