# The bed of the program's tests. Each tests/cli/<what>.sh starts with  . "$(dirname "$0")/bed.sh"  and ends with  finish ; it is run as
# tests/cli/<what>.sh PATH-OF-SPARTA, in a folder of its own, prints "ok"/"not ok" lines and at the end "N passed, N failed[, N skipped]".
S=$1
[ -x "$S" ] || { echo "usage: $0 PATH-OF-SPARTA" >&2; exit 2; }
case $S in /*) ;; *) S=$PWD/$S ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
T=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$T"; rm -rf "$T"' EXIT
trap 'exit 130' INT TERM
cd "$T" || exit 2
export XDG_CACHE_HOME="$T/cache"
export SPARTA_TRUST=all # whatever runs beside the tests
passed=0 failed=0

good() { passed=$((passed + 1)); echo "ok - $1"; }
bad() {
    failed=$((failed + 1)); echo "not ok - $1"
    sed 's/^/#   /' err 2>/dev/null | head -5
}
# run CODE NAME ARGS...: the exit code is CODE; stdout in `out`, stderr in `err`
run() {
    want=$1 name=$2; shift 2
    timeout 120 "$S" "$@" > out 2> err < /dev/null
    got=$?
    if [ $got = "$want" ]; then good "$name"; else bad "$name (exit $got, not $want)"; fi
    if [ $got = 0 ]; then keep "$@"; fi
}
# keep ARGS...: the ONNX file that they wrote, for finish, under a name that says which run it was
kept=0
keep() {
    before=
    for word; do
        case "$before $word" in "-o "*.onnx | "--output "*.onnx)
            kept=$((kept + 1)) && mkdir -p "written/$kept" && cp "$word" "written/$kept"
            if [ -f "$word.data" ]; then cp "$word.data" "written/$kept"; fi ;;
        esac
        before=$word
    done
}
# skip WHY: something that this machine cannot try
skipped=0
skip() { skipped=$((skipped + 1)); echo "skip - $1"; }
# says FILE TEXT PID: waits until FILE, which was not there before the process, has TEXT, or until the process ends
says() { until grep -qsF -- "$2" "$1" || ! kill -0 "$3" 2> /dev/null; do sleep 0.05; done; }
# has FILE TEXT NAME: FILE contains TEXT
has() { if grep -qF -- "$2" "$1"; then good "$3"; else bad "$3 (no \"$2\" in $1)"; fi; }
hasnt() { if grep -qF -- "$2" "$1"; then bad "$3 (\"$2\" in $1)"; else good "$3"; fi; }
exists() { if [ -s "$1" ]; then good "$2"; else bad "$2 ($1 is missing or empty)"; fi; }
gone() { if [ -e "$1" ]; then bad "$2 ($1 is there)"; else good "$2"; fi; }
# Every error is one line "sparta: where: what; what to do" and nothing on stdout.
complains() {
    if [ "$(wc -l < err)" = 1 ] && grep -q '^sparta: [^:]*.*: .*' err; then good "$1: says what and where"; else bad "$1: says what and where"; fi
    if [ -s out ]; then bad "$1: nothing on stdout"; else good "$1: nothing on stdout"; fi
}
if command -v python3 > /dev/null; then
    # json EXPRESSION NAME: `out` is one JSON object d for which EXPRESSION is true
    json() {
        if python3 -c "
import json, sys
d = json.load(open('out'))
sys.exit(0 if ($1) else 1)" 2> pyerr; then good "$2"; else bad "$2 ($1)"; head -c 400 out | sed 's/^/#   /'; fi
    }
else
    # Without python3: braces that balance, a schema or an error in front.
    json() {
        if [ "$(tr -cd '{' < out | wc -c)" = "$(tr -cd '}' < out | wc -c)" ] && grep -q '^{"\(schema\|error\)"' out; then good "$2"; else bad "$2"; fi
    }
fi

# What was written is opened and run by onnxruntime, where a Python has it.
opened() {
    if [ $kept = 0 ]; then return; fi
    python=
    for p in "$root/.venv/bin/python" python3; do
        if [ -z "$python" ] && "$p" -c "import numpy, onnxruntime" 2> /dev/null; then python=$p; fi
    done
    if [ -z "$python" ]; then skip "no Python with onnxruntime: the $kept ONNX files that were written are not opened"; return; fi
    if "$python" "$root/tests/written.py" "$T"/written/*/*.onnx > err 2>&1; then good "onnxruntime opens and runs what was written: $(tail -1 err)"; else bad "onnxruntime opens and runs what was written"; fi
}

# finish: the count, and the exit status 1 when one failed
finish() {
    opened
    echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
    [ $failed = 0 ]
    exit
}
