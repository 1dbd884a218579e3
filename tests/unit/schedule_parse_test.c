/* The text of a schedule: parse, print, every mistake with its place; and the calls that make the same object. */
#include "bed.h"
#include "arrays/arrays.h"
#include "schedule/schedule.h"

static sparta_schedule *parse(const char *text)
{
    sparta_schedule *s = NULL;
    if (sparta_schedule_parse(cx, text, "s", root, &s) != SPARTA_OK)
        fail_msg("%s\n%s", text, sparta_message(cx));
    return s;
}

static char *printed(const sparta_schedule *s)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_schedule_write(s, &t);
    assert_int_equal(t.status, SPARTA_OK);
    char *copy = strdup(sp_text_str(&t));
    sp_text_free(&t);
    return copy;
}

static void prints(const char *text, const char *expected)
{
    sparta_schedule *s = parse(text);
    char *first = printed(s);
    assert_string_equal(first, expected);
    sparta_schedule *again = parse(first);
    char *second = printed(again);
    assert_string_equal(second, first);
    free(first), free(second);
    sparta_schedule_free(s), sparta_schedule_free(again);
}

/* The message is "s:" and what is expected, and nothing was kept. */
static void refused(const char *text, sparta_status status, const char *message)
{
    sparta_schedule *s = NULL;
    /* sums that are parsed stay with the context, once */
    sparta_status got = sparta_schedule_parse(cx, text, "s", root, &s);
    const size_t before = sp_ctx_memory(cx);
    if (got == status) got = sparta_schedule_parse(cx, text, "s", root, &s);
    if (got != status || strncmp(sparta_message(cx), message, strlen(message)) != 0)
        fail_msg("%s\nsays (%d) %s\nnot (%d) %s", text, got, sparta_message(cx), status, message);
    assert_null(s);
    assert_int_equal(sp_ctx_memory(cx), before);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(sp_file_write(cx, path, text, strlen(text)), SPARTA_OK);
}

/* ------------------------------------------------------------------ */

static void texts(void **state)
{
    (void)state;
    prints("", "");
    prints("# nothing\n\n;;  ; # and nothing", "");
    prints("tensor \"a\" { }", "tensor \"a\" {\n}\n");
    prints("tensor \"a\"{sparsify magnitude(pattern=4x1,sparsity=0.90)}",
           "tensor \"a\" {\n    sparsify magnitude(pattern=4x1, sparsity=0.9)\n}\n");
    prints("tensor \"a\" { sparsify magnitude(sparsity=.5e0, pattern=4x1) }",
           "tensor \"a\" {\n    sparsify magnitude(pattern=4x1, sparsity=0.5)\n}\n");
    prints("tensor \"a\" { sparsify magnitude(2:4@out) }",
           "tensor \"a\" {\n    sparsify magnitude(pattern=2:4@out)\n}\n");
    prints("tensor \"a\" { sparsify magnitude(4x1, 0.9) }",
           "tensor \"a\" {\n    sparsify magnitude(pattern=4x1, sparsity=0.9)\n}\n");
    prints(
        "tensor \"/fc1/Relu:output\" { sparsify topk(10.50%) }\ntensor \"fc2:input\" { sparsify "
        "threshold(0, expect=5%, bound=064) }",
        "tensor \"/fc1/Relu:output\" {\n    sparsify topk(k=10.5%)\n}\ntensor \"fc2:input\" {\n    sparsify "
        "threshold(value=0, bound=64, expect=5%)\n}\n");
    prints("tensor \"q\\\"\\\\\" { sparsify threshold(1e-3) }",
           "tensor \"q\\\"\\\\\" {\n    sparsify threshold(value=0.001)\n}\n");
    prints("tensor \"a\" { sparsify mask(\"m \\\"x.npz\") }",
           "tensor \"a\" {\n    sparsify mask(file=\"m \\\"x.npz\")\n}\n");
    prints("tensor \"a\" { format csr; quantize i8(per_channel); "
           "kernel{split(m,m0,m1,64);unroll(n1)\nvectorize(m1)} }",
           "tensor \"a\" {\n    format csr\n    quantize i8(per_channel)\n"
           "    kernel { split(m, m0, m1, 64); unroll(n1); vectorize(m1) }\n}\n");
    prints("tensor \"a\" { quantize i8; implement quads( RANGE = 256 ) }",
           "tensor \"a\" {\n    implement quads(RANGE=256)\n    quantize i8\n}\n");
    prints("tensor \"a\" { kernel { }\n quantize i8() }",
           "tensor \"a\" {\n    quantize i8\n    kernel { }\n}\n");
    prints("tensor \"a\" {\n format (n,k) -> (n/4:dense, # strips\n   k:compressed,\n n%4:dense),   crd=u16 "
           "# end\n}",
           "tensor \"a\" {\n    format (n,k) -> (n/4:dense, k:compressed, n%4:dense), crd=u16\n}\n");
    prints("format f = sum{ # two parts\n rownnz<=4 -> csr;\n  rest -> coo # all else\n } # end\n"
           "tensor \"a\" { format f }",
           "format f = sum{ rownnz<=4 -> csr; rest -> coo }\ntensor \"a\" {\n    format f\n}\n");
    prints("format f = bsr(2)\nformat g = sum{rownnz<=4 -> f; rest -> sum{first(2) -> f; rest -> coo}}\n"
           "tensor \"a\" { format f, crd=u16; }",
           "format f = bsr(2)\nformat g = sum{rownnz<=4 -> bsr(2); rest -> sum{first(2) -> bsr(2); rest -> "
           "coo}}\n"
           "tensor \"a\" {\n    format f, crd=u16\n}\n");
    prints("tensor \"a\" { format sum{rownnz<=8 -> (i,j)->(i:dense, j:packed[8]);\nrownnz in (8,20] -> "
           "bitmap; rest -> "
           "coo}\n quantize i8 }",
           "tensor \"a\" {\n    format sum{rownnz<=8 -> (i,j)->(i:dense, j:packed[8]); rownnz in (8,20] -> "
           "bitmap; rest -> "
           "coo}\n    quantize i8\n}\n");
    prints("tensor \"a\" { sparsify python(\"m.n:Top\", \"k=8\") }\ntensor \"b\" { sparsify "
           "python(object=\"m:f\") }",
           "tensor \"a\" {\n    sparsify python(\"m.n:Top\", arguments=\"k=8\")\n}\n"
           "tensor \"b\" {\n    sparsify python(\"m:f\")\n}\n");
    prints("tensor \"a\" { format quads(64); quantize i8 }",
           "tensor \"a\" {\n    format quads(64)\n    quantize i8\n}\n");
    /* a name is one only where a format stands */
    prints("format n = csr\nformat k = csc\ntensor \"a\" { format (n,k)->(n:dense, k:compressed) }",
           "format n = csr\nformat k = csc\ntensor \"a\" {\n    format (n,k)->(n:dense, k:compressed)\n}\n");
    prints(
        "model { target avx512; dim batch=4\n dim sequence=1:128:512; dim batch=4 } model { target avx512 }",
        "model {\n    target avx512\n    dim batch=4\n    dim sequence=1:128:512\n}\n");
    prints("sparsifier heavy = magnitude(4x1, 0.9); format mine = strip(4)\nformat other = mine\n"
           "sparsifier same = heavy\ntensor \"w\" { sparsify same; format other }",
           "format mine = strip(4)\nformat other = strip(4)\n"
           "sparsifier heavy = magnitude(pattern=4x1, sparsity=0.9)\n"
           "sparsifier same = magnitude(pattern=4x1, sparsity=0.9)\n"
           "tensor \"w\" {\n    sparsify same\n    format other\n}\n");
}

static void names_mean(void **state)
{
    (void)state;
    sparta_schedule *s = parse("sparsifier h = magnitude(rows, 0.5)\nformat f = bsr(4)\n"
                               "tensor \"x\" { sparsify h\n  format f }");
    const sp_schedule_clause *c = s->rule[0]->clause;
    assert_string_equal(c[SP_CLAUSE_SPARSIFY].text, "h");
    assert_string_equal(c[SP_CLAUSE_SPARSIFY].means, "magnitude(pattern=rows, sparsity=0.5)");
    assert_string_equal(sp_schedule_arg_of(&c[SP_CLAUSE_SPARSIFY].call, "pattern")->text, "rows");
    assert_null(sp_schedule_arg_of(&c[SP_CLAUSE_SPARSIFY].call, "nothing"));
    assert_string_equal(c[SP_CLAUSE_FORMAT].means, "bsr(4)");
    assert_int_equal(c[SP_CLAUSE_FORMAT].at.line, 4);
    assert_int_equal(c[SP_CLAUSE_FORMAT].at.column, 3);
    assert_false(c[SP_CLAUSE_KERNEL].given);
    sparta_schedule_free(s);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"tensr \"a\" {}", "s:1:1: expected include, format, sparsifier, model or tensor, found 'tensr'; did "
                           "you mean 'tensor'?"},
        {"\n  tensor a {}",
         "s:2:10: expected the names of tensors in quotes, e.g. \"encoder.*.weight\", found 'a'"},
        {"tensor \"\" {}", "s:1:8: this string is empty"},
        {"tensor \"a", "s:1:8: this string does not end on its line; close it with '\"'"},
        {"tensor \"a\nb\" {}", "s:1:8: this string does not end on its line"},
        {"tensor \"a\tb\" {}", "s:1:10: a control byte in a string"},
        {"tensor \"a\\n\" {}", "s:1:10: a string knows the escapes"},
        {"tensor \"a\" sparsify", "s:1:12: expected '{', found 'sparsify'"},
        {"tensor \"a\" {",
         "s:1:13: expected sparsify, format, implement, quantize, kernel or '}', found the end"},
        {"tensor \"a\" { sparsfy magnitude }",
         "s:1:14: expected sparsify, format, implement, quantize, kernel or '}', "
         "found 'sparsfy'; did you mean 'sparsify'?"},
        {"tensor \"a\" { sparsify }",
         "s:1:23: expected a sparsifier, e.g. magnitude(pattern=4x1, sparsity=0.9), found '}'"},
        {"tensor \"a\" { sparsify magnitud(4x1, 0.9) }",
         "s:1:23: expected a sparsifier (magnitude, threshold, topk, bands, function, similarity, mask, "
         "python or one "
         "defined above), "
         "found "
         "'magnitud'; "
         "did you "
         "mean 'magnitude'?"},
        {"sparsifier heavy = threshold(1)\ntensor \"a\" { sparsify heavi }",
         "s:2:23: expected a sparsifier (magnitude, threshold, topk, bands, function, similarity, mask, "
         "python or one "
         "defined above), "
         "found "
         "'heavi'; "
         "did you mean "
         "'heavy'?"},
        {"sparsifier heavy = threshold(1)\ntensor \"a\" { sparsify heavy(2) }",
         "s:2:23: 'heavy' is defined at s:1:1 and takes no arguments"},
        {"tensor \"a\" { sparsify magnitude }",
         "s:1:23: magnitude needs 'pattern'; write magnitude(pattern=4x1"},
        {"tensor \"a\" { sparsify magnitude(patern=4x1) }",
         "s:1:33: magnitude has no argument 'patern'; did you mean 'pattern'?"},
        {"tensor \"a\" { sparsify magnitude(4x1, 1.5) }",
         "s:1:38: sparsity=1.5: expected a number between 0 and 1"},
        {"tensor \"a\" { sparsify magnitude(4x1, sparsity=nan) }", "s:1:38: sparsity=nan: expected a number"},
        {"tensor \"a\" { sparsify magnitude(4x1, sparsity=\"1\") }", "s:1:38: sparsity=1: expected a number"},
        {"tensor \"a\" { sparsify magnitude(\"4x1\") }", "s:1:33: pattern: expected a word without quotes"},
        {"tensor \"a\" { sparsify magnitude(4x1, 0.9, 3) }", "s:1:43: magnitude takes no argument '3'"},
        {"tensor \"a\" { sparsify magnitude(4x1, pattern=4x1) }", "s:1:38: argument 'pattern' twice"},
        {"tensor \"a\" { sparsify magnitude(pattern=1, pattern=2) }", "s:1:44: argument 'pattern' twice"},
        {"tensor \"a\" { sparsify topk }", "s:1:23: topk needs 'k'; write topk(64)"},
        {"tensor \"a\" { sparsify topk(0) }",
         "s:1:28: k=0: expected how many elements of a line, at least 1, or a share such as 25%"},
        {"tensor \"a\" { sparsify topk(0.5) }", "s:1:28: k=0.5: expected how many elements of a line"},
        {"tensor \"a\" { sparsify topk(0%) }", "s:1:28: k=0%: expected how many elements of a line"},
        {"tensor \"a\" { sparsify topk(100.1%) }", "s:1:28: k=100.1%: expected how many elements of a line"},
        {"tensor \"a\" { sparsify topk(nan%) }", "s:1:28: k=nan%: expected how many elements of a line"},
        {"tensor \"a\" { sparsify topk(%) }", "s:1:28: "},
        {"tensor \"a\" { sparsify topk(\"5\") }", "s:1:28: k=5: expected how many elements of a line"},
        {"tensor \"a\" { sparsify topk(99999999999999999999) }",
         "s:1:28: k=99999999999999999999: expected how"},
        {"tensor \"a\" { sparsify topk(5, 3, 2) }", "s:1:34: topk takes no argument '2'; write topk(64)"},
        {"tensor \"a\" { sparsify threshold(1, bound=-3) }", "s:1:36: bound=-3: expected how many elements"},
        {"tensor \"a\" { sparsify threshold(-1) }", "s:1:33: value=-1: expected a number of at least 0"},
        {"tensor \"a\" { sparsify mask(file.npz) }", "s:1:28: file: expected a string in quotes, e.g. mask("},
        {"tensor \"a\" { sparsify magnitude(4x1 0.9) }", "s:1:37: expected ',' or ')', found '0.9'"},
        {"tensor \"a\" { sparsify magnitude(4x1,) }", "s:1:37: expected an argument, found ')'"},
        {"tensor \"a\" { sparsify threshold(1) format csr }",
         "s:1:36: expected ';', a new line or '}', found 'format'"},
        {"tensor \"a\" { sparsify threshold(1); sparsify threshold(1) }",
         "s:1:37: tensor \"a\" says 'sparsify' twice, first at s:1:14; remove one"},
        {"tensor \"a\" { format }", "s:1:21: expected the text of a format, e.g. strip(4), found nothing"},
        {"tensor \"a\" { format csx }", "s:1:21: format: unknown format 'csx'"},
        {"tensor \"a\" { format (n,k)->(n:dense }", "s:1:37: format: expected ')'"},
        {"tensor \"a\" { format (n,k)->(\n # two\n n:dense, # three\n   k:compresed)\n}",
         "s:4:6: format: unknown level kind 'compresed'; did you mean 'compressed'?"},
        {"format x = sum{rownnz<=4 -> csr;\n  rest -> cooo}", "s:2:11: format: unknown format 'cooo'"},
        {"format x = strip(4)\nformat y = sum{rownnz<=4 -> x; rest -> cooo}", "s:2:12: format:1:"},
        {"format x = sum{rest -> csr", "s:1:"},
        {"format x = sum{rest -> csr}}", "s:1:28: expected include, format, sparsifier"},
        {"format x = csr{rest -> csr}", "s:1:15: expected a new line after the format, found '{'"},
        {"format bsr = csr", "s:1:1: format 'bsr' is one of sparta's own"},
        {"format quads = csr", "s:1:1: format 'quads' is one of sparta's own"},
        {"format sum = csr", "s:1:1: format 'sum' is one of sparta's own"},
        {"tensor \"a\" { format csr \"x\" }", "s:1:25: expected ';', a new line or '}', found \"x\""},
        {"tensor \"a\" { quantize 8 }", "s:1:23: expected a precision, e.g. i8(per_channel), found '8'"},
        {"tensor \"a\" { kernel unroll(n) }",
         "s:1:21: expected '{' and the primitives of the kernel, found 'unroll'"},
        {"tensor \"a\" { kernel { unroll(n)", "s:1:32: expected '}', found the end"},
        {"tensor \"a\" { kernel { unroll(n) split(m) } }",
         "s:1:33: expected ';', a new line or '}', found 'split'"},
        {"model { targt x }", "s:1:9: expected target, dim or '}', found 'targt'; did you mean 'target'?"},
        {"model { target 5 }", "s:1:16: expected the name of a target, found '5'"},
        {"model { target a; target b }", "s:1:19: target b, but a at s:1:9; remove one"},
        {"model { dim 4 }", "s:1:13: expected the name of a dimension, found '4'"},
        {"model { dim b 4 }", "s:1:15: expected '=', found '4'"},
        {"model { dim b= }", "s:1:16: expected a size N or MIN:OPT:MAX, found '}'"},
        {"model { dim b=0 }", "s:1:9: dim b=0: expected a size"},
        {"model { dim b=1:2 }", "s:1:9: dim b=1:2: expected a size"},
        {"model { dim b=3:2:4 }", "s:1:9: dim b=3:2:4: expected a size"},
        {"model { dim b=1:2:3:4 }", "s:1:9: dim b=1:2:3:4: expected a size"},
        {"model { dim b=99999999999999999999 }", "s:1:9: dim b=9999"},
        {"model { dim b=1; dim b=2 }", "s:1:18: dim b=2, but 1 at s:1:9; remove one"},
        {"format = csr", "s:1:8: expected a name to define, found '='"},
        {"format x csr", "s:1:10: expected '=', found 'csr'"},
        {"sparsifier mask = threshold(1)", "s:1:1: sparsifier 'mask' is there already; choose another name"},
        {"format csr = csr", "s:1:1: format 'csr' is one of sparta's own"},
        {"format x = csr\nformat x = csc", "s:2:1: format 'x' is defined already at s:1:1; rename one"},
        {"sparsifier x = threshold(1)\nsparsifier x = threshold(1)",
         "s:2:1: sparsifier 'x' is defined already at s:1:1"},
        {"sparsifier x = threshold(1) y", "s:1:29: expected a new line after the sparsifier, found 'y'"},
        {"include x", "s:1:9: expected the name of a file in quotes, found 'x'"},
        {"include \"nowhere\"", "s:1:1: include: "},
        {"include \"../x\"", "s:1:1: include: '../x' leaves the folder of the schedule"},
        {"include \"a/../../x\"", "s:1:1: include: 'a/../../x' leaves the folder of the schedule"},
        {"include \"/etc/passwd\"", "s:1:1: include: '/etc/passwd' leaves the folder of the schedule"},
        {"tensor \"a\" { & }", "s:1:14: '&' means nothing here"},
        {"\xc3\xa4", "s:1:1: byte 195 means nothing here"},
    };
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        sparta_status status = strstr(rows[i].text, "nowhere") ? SPARTA_OK : SPARTA_E_USAGE;
        if (status == SPARTA_OK) { /* the file's own status */
            sparta_schedule *s = NULL;
            status = sparta_schedule_parse(cx, rows[i].text, "s", root, &s);
            assert_int_not_equal(status, SPARTA_OK);
        }
        refused(rows[i].text, status, rows[i].message);
    }
}

static void limits(void **state)
{
    (void)state;
    char *text = malloc(SP_SCHEDULE_BYTES + 2);
    memset(text, ' ', SP_SCHEDULE_BYTES + 1);
    text[SP_SCHEDULE_BYTES + 1] = 0;
    refused(text, SPARTA_E_LIMIT, "s: a schedule has at most");
    text[SP_SCHEDULE_BYTES] = 0;
    sparta_schedule_free(parse(text));
    memset(text, 'a', SP_SCHEDULE_BYTES);
    refused(text, SPARTA_E_USAGE, "s:1:1: the word is longer than 1024 bytes");
    text[0] = '"';
    refused(text, SPARTA_E_USAGE, "s:1:1: the string is longer than 1024 bytes");
    memcpy(text, "format x = ", 11);
    refused(text, SPARTA_E_USAGE, "s:1:12: the format is longer than 4096 bytes");
    strcpy(text, "format f0 = bsr(4,4)\n");
    for (int i = 1; i < 9; i++)
        sprintf(text + strlen(text), "format f%d = sum{rownnz<=1 -> f%d; rest -> f%d}\n", i, i - 1, i - 1);
    refused(text, SPARTA_E_USAGE, "s:");
    strcpy(text, "format f = ");
    memset(text + 11, '(', 100), text[111] = 0;
    refused(text, SPARTA_E_USAGE, "s:1:");
    strcpy(text, "tensor \"a\" { quantize q(");
    for (int i = 0; i < 17; i++) strcat(text, i ? ",1" : "1");
    refused(text, SPARTA_E_USAGE, "s:1:57: 'q' has more than 16 arguments");
    strcpy(text, "tensor \"a\" { kernel {");
    for (int i = 0; i < 65; i++) strcat(text, "a;");
    refused(text, SPARTA_E_USAGE, "s:1:150: more than 64 primitives");
    *text = 0;
    char *end = text;
    for (int i = 0; i < SP_SCHEDULE_RULES + 1; i++) end += sprintf(end, "tensor \"a\" {}\n");
    refused(text, SPARTA_E_USAGE, "s:4097:1: more than 4096 tensors");
    end = text;
    for (int i = 0; i < SP_SCHEDULE_NAMES + 1; i++) end += sprintf(end, "format f%d = csr\n", i);
    refused(text, SPARTA_E_USAGE, "s:257:1: more than 256 definitions");
    free(text);
}

static void includes(void **state)
{
    (void)state;
    char path[128];
    sparta_schedule *s = NULL;
    write_file("common", "sparsifier heavy = magnitude(4x1, 0.9)\nmodel { dim batch=1 }");
    write_file("main", "include \"common\"\ntensor \"w\" { sparsify heavy }");
    snprintf(path, sizeof path, "%s/main", root);
    assert_int_equal(sparta_schedule_open(cx, path, &s), SPARTA_OK);
    char *text = printed(s);
    assert_string_equal(
        text, "sparsifier heavy = magnitude(pattern=4x1, sparsity=0.9)\nmodel {\n    dim batch=1\n}\n"
              "tensor \"w\" {\n    sparsify heavy\n}\n");
    assert_string_equal(s->sparsifier[0].at.file, "common");
    assert_string_equal(s->folder, root);
    free(text);
    sparta_schedule_free(s);
    write_file("broken", "\n  tensr");
    refused("include \"broken\"", SPARTA_E_USAGE, "broken:2:3: expected include");
    write_file("self", "include \"self\"");
    refused("include \"self\"", SPARTA_E_USAGE, "self:1:1: 'self' includes itself");
    snprintf(path, sizeof path, "%s/self", root);
    assert_int_equal(sparta_schedule_open(cx, path, &s), SPARTA_E_USAGE);
    assert_string_equal(sparta_message(cx), "self:1:1: 'self' includes itself; remove one include");
    write_file("a", "include \"b\"");
    write_file("b", "include \"a\"");
    refused("include \"a\"", SPARTA_E_USAGE, "b:1:1: 'a' includes itself");
    for (int i = 0; i < 12; i++) {
        char name[16], body[32];
        snprintf(name, sizeof name, "deep%d", i);
        snprintf(body, sizeof body, "include \"deep%d\"", i + 1);
        write_file(name, body);
    }
    refused("include \"deep0\"", SPARTA_E_USAGE, "deep7:1:1: includes are more than 8 deep");
    char many[2048] = "";
    write_file("empty", "");
    for (int i = 0; i < 65; i++) strcat(many, "include \"empty\"\n");
    refused(many, SPARTA_E_USAGE, "s:65:1: more than 64 includes");
    snprintf(path, sizeof path, "%s/zero", root);
    assert_int_equal(sp_file_write(cx, path, "a\0b", 3), SPARTA_OK);
    refused("include \"zero\"", SPARTA_E_USAGE, "s:1:1: 'zero' is no text");
    assert_int_equal(sparta_schedule_open(cx, path, &s), SPARTA_E_FORMAT);
    snprintf(path, sizeof path, "%s/nowhere", root);
    assert_int_not_equal(sparta_schedule_open(cx, path, &s), SPARTA_OK);
}

/* The calls make what the text makes. */
static void calls(void **state)
{
    (void)state;
    sparta_schedule *s;
    sparta_schedule_rule *r;
    assert_int_equal(sparta_schedule_create(cx, NULL, &s), SPARTA_OK);
    assert_int_equal(sparta_schedule_define_format(s, "mine", "strip(4)"), SPARTA_OK);
    assert_int_equal(sparta_schedule_define_sparsifier(s, "heavy", "magnitude(4x1, 0.9)"), SPARTA_OK);
    assert_int_equal(sparta_schedule_set_target(s, "portable"), SPARTA_OK);
    assert_int_equal(sparta_schedule_set_dim(s, "batch", "1:8:32"), SPARTA_OK);
    assert_int_equal(sparta_schedule_tensor(s, "enc\".*", &r), SPARTA_OK);
    assert_int_equal(sparta_schedule_sparsify(r, "heavy"), SPARTA_OK);
    assert_int_equal(sparta_schedule_set_format(r, " mine "), SPARTA_OK);
    assert_int_equal(sparta_schedule_quantize(r, "i8(per_channel)"), SPARTA_OK);
    assert_int_equal(sparta_schedule_kernel(r, "{ unroll(n) }"), SPARTA_OK);
    char *built = printed(s);
    prints(
        "format mine=strip(4)\nsparsifier heavy=magnitude(4x1,0.9)\nmodel{target portable;dim batch=1:8:32}"
        "tensor \"enc\\\".*\"{sparsify heavy;format mine;quantize i8(per_channel);kernel{unroll(n)}}",
        built);
    assert_int_equal(sparta_schedule_sparsify(r, "heavy"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_define_format(s, "x", "csr; format y = csc"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_define_sparsifier(s, "x", "threshold(1) }"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_define_sparsifier(s, "a b", "threshold(1)"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_set_dim(s, "c", "x"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_set_target(s, "a\nb"), SPARTA_E_USAGE);
    assert_int_equal(sparta_schedule_tensor(s, "a\nb", &r), SPARTA_E_USAGE);
    char *after = printed(s);
    assert_string_equal(after, built);
    assert_int_equal(sparta_schedule_tensor(s, "b", &r), SPARTA_OK);
    assert_int_equal(sparta_schedule_sparsify(r, "threshold(1) threshold(2)"), SPARTA_E_USAGE);
    assert_string_equal(sparta_message(cx),
                        "sparsify of \"b\":1:14: expected ';', a new line or '}', found 'threshold'");
    assert_int_equal(sparta_schedule_sparsify(r, "threshold(1); format csr"), SPARTA_E_USAGE);
    assert_false(r->clause[SP_CLAUSE_SPARSIFY].given);
    free(built), free(after);
    sparta_schedule_free(s);
}

/* Whichever allocation fails: a message, nothing kept. */
static void memory(void **state)
{
    (void)state;
    const char *text = "include \"common\"\nformat mine = strip(4)\nmodel { target x }\n"
                       "tensor \"w\" { sparsify mask(\"f\"); format mine; kernel { a(b) } }";
    write_file("common", "sparsifier h = magnitude(4x1, 0.9)");
    for (uint64_t n = 1;; n++) {
        sparta_schedule *s = NULL;
        const size_t before = sp_ctx_memory(cx);
        sp_ctx_fail_alloc(cx, n, false);
        const sparta_status status = sparta_schedule_parse(cx, text, "s", root, &s);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status == SPARTA_OK) {
            sparta_schedule_free(s);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts),    cmocka_unit_test(names_mean),
                                       cmocka_unit_test(mistakes), cmocka_unit_test(limits),
                                       cmocka_unit_test(includes), cmocka_unit_test(calls),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
}
