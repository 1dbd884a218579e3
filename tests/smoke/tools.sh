#!/bin/sh
# The tools that watch the code, watched: each must find the mistake it is there for. Ends with its own count.
set -u
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
# expect WHAT STATUS TEXT COMMAND...: the command ends with that status and prints that text.
expect() {
    what=$1 status=$2 text=$3
    shift 3
    output=$("$@" 2>&1)
    got=$?
    if [ $got -eq "$status" ] && echo "$output" | grep -qF -- "$text"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s: status %s, wanted %s and "%s" in:\n%s\n' "$what" $got "$status" "$text" "$output"
    fi
}

# --- layers
room() { mkdir -p "$work/tree/src/$1"; printf '%s\n' "$3" > "$work/tree/src/$1/$2"; }
layers() { SRC=$work/tree/src tools/layers "$@"; }
room low low.h '#include "sparta.h"'
room high high.c '#include "low/low.h"'
expect "includes to the left" 0 "2 includes in order" layers low high
expect "a room that is not listed" 1 "not in the list" layers low
room low low.c '#  include "high/high.h"'
expect "an include to the right" 1 "high stands to its right" layers low high
room low low.c '#include "../high/high.h"'
expect "an include that leaves its folder" 1 "leaves its folder" layers low high
room low low.c '#include "other/other.h"'
expect "an include of no room" 1 "is in no room" layers low high
room low low.c '#include "low.h"'
expect "an include without its room" 1 'should be named with its room' layers low high

# --- exports
cat > "$work/api.h" << 'END'
SPARTA_API const char *sparta_one(void);
SPARTA_API int sparta_two(int a,
                          int b);
END
printf 'char *sparta_one(void) { return 0; }\n' > "$work/rt.c"
printf 'int sparta_two(int a, int b) { return a + b; }\n' > "$work/lib.c"
printf 'int extra(void) { return 0; }\n' > "$work/extra.c"
compile() { out=$1; shift; (cd "$work" && gcc -fPIC -shared "$@" -o "$out"); }
(cd "$work" && gcc -fPIC -c lib.c -o lib.o)
compile all.so rt.c lib.c
compile rt.so rt.c
compile more.so rt.c lib.c extra.c
compile z.so rt.c -Wl,--no-as-needed -lcmocka
printf 'void sp_torch_register(void) {}\nvoid sp_torch_problem(void) {}\n' > "$work/torch.c"
compile torch.so torch.c
compile torch-more.so torch.c extra.c
torch=$work/torch.so
exports() { all=$1 rt=$2; shift 2; tools/exports "$work/api.h" "$all" "$rt" "$torch" "$@"; }
expect "the right functions" 0 "2 functions exported, 1 of them by the runtime" exports "$work/all.so" "$work/rt.so" "$work/lib.o"
expect "a function too much" 1 "not declared in the header: extra" exports "$work/more.so" "$work/rt.so" "$work/lib.o"
expect "a function missing" 1 "not exported: sparta_two" exports "$work/rt.so" "$work/rt.so" "$work/lib.o"
expect "a runtime that lacks a function" 1 "not exported: sparta_two" exports "$work/all.so" "$work/rt.so"
expect "a runtime that needs a library" 1 "it may need only the C library" exports "$work/all.so" "$work/z.so" "$work/lib.o"
torch=$work/torch-more.so
expect "operators of torch that export more" 1 "it should export sp_torch_problem sp_torch_register" exports "$work/all.so" "$work/rt.so" "$work/lib.o"

# --- run-tests
stages() { printf '%b' "$1" | JOBS=2 tools/run-tests "$work/logs" > "$work/output" 2>&1; got=$?; tail -n 1 "$work/output"; return $got; }
expect "one test that passes" 0 "1 passed, 0 failed" stages 'a\ttrue\n'
expect "one that fails" 1 "1 passed, 1 failed" stages 'a\ttrue\nb\tfalse\n'
expect "one that is skipped" 0 "1 passed, 0 failed, 1 skipped" stages 'a\ttrue\nb\texit 77\n'
expect "the counts of cmocka" 1 "7 passed, 2 failed" stages 'a\techo "[  PASSED  ] 4 test(s)."; echo "[  PASSED  ] 3 test(s)."; echo "[  FAILED  ] 2 test(s), listed below:"; echo "[  FAILED  ] name"; exit 2\n'
expect "failures without a status" 1 "0 passed, 3 failed" stages 'a\techo 0 passed, 3 failed\n'
expect "a count of its own" 0 "12 passed, 0 failed, 5 skipped" stages 'a\techo 1 passed, 0 failed; echo 12 passed, 0 failed, 5 skipped\n'
expect "a crash after a good count" 1 "3 passed, 1 failed" stages 'a\techo "[  PASSED  ] 3 test(s)."; kill -SEGV $$\n'
expect "a program that is not there" 1 "0 passed, 1 failed" stages 'a\t/no/such/program\n'
expect "a note" 0 "note: 3 of 4" sh -c 'printf "a\techo note: 3 of 4\n" | tools/run-tests "$1"' - "$work/logs"
expect "a program that hangs" 1 "0 passed, 1 failed" env STAGE_TIMEOUT=1 sh -c 'printf "a\tsleep 30\n" | tools/run-tests "$1" | tail -n 1 | grep failed && exit 1' - "$work/logs"
expect "no stages" 1 "0 passed, 1 failed" stages ''
# Stages side by side: what waits comes later, "alone" has nothing beside it and comes last.
mark=$work/mark
expect "a stage that waits for another" 0 "2 passed, 0 failed" stages "a\\ttest -e $mark && rm $mark\\tb\\nb\\tsleep 0.5; touch $mark\\n"
expect "a stage that waits for two" 0 "3 passed, 0 failed" stages "a\\ttest -e $mark.b -a -e $mark.c && rm $mark.b $mark.c\\tb and c: build\\nb\\ttouch $mark.b\\nc: build\\tsleep 0.5; touch $mark.c\\n"
expect "two at a time" 0 "2 passed, 0 failed" stages "a\\ttouch $mark.a; timeout 9 sh -c 'until test -e $mark.b; do sleep 0.1; done'\\nb\\ttouch $mark.b; timeout 9 sh -c 'until test -e $mark.a; do sleep 0.1; done'\\n"
expect "one alone" 0 "3 passed, 0 failed" stages "a\\ttest -e $mark.2 && mkdir $mark && sleep 0.3 && rmdir $mark\\talone\\nb\\tmkdir $mark && sleep 0.3 && rmdir $mark && touch $mark.2\\nc\\tmkdir $mark && sleep 0.3 && rmdir $mark\\talone\\n"
expect "one that waits for nobody" 0 "1 passed, 0 failed" stages 'a\ttrue\tnobody\n'

# --- venv, stages, setup
expect "stages of check" 0 "layers" tools/stages check
expect "a seed that is no number" 2 "TEST_SEED=abc is no number" env TEST_SEED=abc tools/stages check
expect "a seed that is octal to the shell" 2 "TEST_SEED=0089 is no number" env TEST_SEED=0089 tools/stages test
expect "a seed" 0 "layers" env TEST_SEED=7 tools/stages check
expect "an unknown list" 2 "usage" tools/stages nothing
expect "setup without what it needs, and no way to get it" 1 "apt-get install" env CC=/no/such/compiler PATH="$work" /bin/sh tools/setup build

# --- tests that rotate: TEST_SEED repeats a day and TEST_ALL asks for all, which a clock of their own does not know (tests/today.py)
by_clock() { grep -rnE --include='*.py' 'time(_ns)?\(\) *(//|%)|(today|now)\([^)]*\)\.' "$1" | grep -v '^tests/today.py:'; }
printf 'day = int(time.time() // 86400)\n' > "$work/test_day.py"
expect "a test that rotates by the clock" 0 "test_day.py:1:" by_clock "$work"
expect "no test does" 1 "" by_clock tests

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
