#!/bin/sh
# sparta.h as strict compilers of other languages and versions read it, and a program of each that runs: tests/smoke/header.sh FOLDER
# (of libsparta.a). A status that nobody looks at is a warning.
set -u
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
say() { failed=1; echo "$*"; }

cat > "$work/use.c" << 'END'
#include <sparta.h>
#include <string.h>
int main(void)
{
    sparta_ctx_options context = SPARTA_OPTIONS(sparta_ctx_options);
    sparta_compile_options compile = SPARTA_OPTIONS(sparta_compile_options);
    sparta_session_options session = SPARTA_OPTIONS(sparta_session_options);
    sparta_sparsifier sparsifier = SPARTA_OPTIONS(sparta_sparsifier);
    sparta_ctx *cx;
    int wrong;
    context.cache_dir = "";
    cx = sparta_ctx_create(&context);
    if (!cx) return 1;
    wrong = compile.size != sizeof compile || compile.masks || session.size != sizeof session || sparsifier.mask;
    wrong |= sparta_compile(cx, "absent.onnx", "absent.sparta", &compile) != SPARTA_E_IO;
    wrong |= !strstr(sparta_message(cx), "absent.onnx");
    sparta_ctx_free(cx);
    return wrong;
}
END
cp "$work/use.c" "$work/use.cc"
# strict NAME COMPILER FLAGS... SOURCE
strict() {
    name=$1
    shift
    command -v "$1" > /dev/null || { echo "$name: $1 is not installed"; return; }
    "$@" -Wall -Wextra -pedantic -Werror -Iinclude "$build/libsparta.a" -ldl -lpthread -lm ${SANITIZE:-} -o "$work/use" ||
        { say "$name does not take it"; return; }
    "$work/use" || say "$name: the program fails"
}
for std in c99 c11 c17; do strict "$std" gcc -std=$std -Wstrict-prototypes "$work/use.c"; done
for std in c++11 c++17 c++20; do strict "$std" g++ -std=$std "$work/use.cc"; done
strict "clang, C" clang -std=c11 "$work/use.c"
strict "clang, C++" clang++ -std=c++17 "$work/use.cc"

printf '#include <sparta.h>\nvoid f(sparta_ctx *cx) { sparta_propagate_file(cx, "a", "b", NULL); }\n' > "$work/ignored.c"
gcc -std=c11 -Iinclude -c "$work/ignored.c" -o "$work/ignored.o" 2>&1 | grep -q warn_unused_result || say "a status may be ignored"
[ $failed -eq 0 ] && echo "the header is what it says, in C and C++"
exit $failed
