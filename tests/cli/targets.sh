#!/bin/sh
# Packages for several targets, and for one that this machine cannot run. SPARTA_TARGET makes a machine of every processor.
# Usage: tests/cli/targets.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"
if [ ! -x /usr/bin/cc ]; then echo "no compiler, so no targets"; exit 77; fi

run 0 "a model" zoo mlp --dim inputs=64 --prune 4x1:0.8 -o m.onnx
run 2 "a target that is none" compile m.onnx --target avx512,z80 -o x.sparta; complains "a target that is none"
run 2 "a target of GPUs" compile m.onnx --target sm_90a -o x.sparta; complains "a target of GPUs"; has err "packages run on the CPU" "says why"
run 2 "a list that ends in a comma" compile m.onnx --target avx2, -o x.sparta

# ------------------------------------------------------------------ none of them runs here
export SPARTA_TARGET=portable
run 0 "compile for what does not run here" compile m.onnx --target avx512,avx2 -o far.sparta
has err "the code for avx512 is not checked" "says that it is not checked"; has err "the code for avx2 is not checked" "says it of each"
has out "avx512 (not checked), avx2 (not checked)" "says it in its answer"
run 0 "the same as JSON" compile m.onnx --target avx2 -o far2.sparta --json
json "[t['checked'] for t in d['targets']] == [False] and d['targets'][0]['name'] == 'avx2' and d['targets'][0]['kernels'] == d['kernels'] and any('not checked' in n for n in d['notes'])" "with what is not checked"
run 0 "inspect tells" inspect far.sparta; has out "code for avx512 (not checked), avx2 (not checked)" "inspect tells"
run 0 "inspect tells in JSON" inspect far.sparta --json; json "[(t['name'], t['checked']) for t in d['targets']] == [('avx512', False), ('avx2', False)]" "inspect tells in JSON"
run 0 "it runs, on portable kernels" run far.sparta --output-dir a; has err "code that runs here; their portable versions do" "and says so"
run 0 "and is right" verify far.sparta --against m.onnx
run 4 "bench does not time what does not run" bench m.onnx --target avx2 --iterations 2; complains "bench"
run 4 "nor does inspect --what-if" inspect m.onnx --what-if 4x1:0.9 --target avx2
unset SPARTA_TARGET

# ------------------------------------------------------------------ on a machine that has it
if "$S" doctor --threads 1 --json | grep -q '"name":"avx2","fits":true'; then
    export SPARTA_TARGET=avx2
    run 0 "code from elsewhere runs" run far.sparta --output-dir b; has err "never checked" "and a note says that nobody has checked it"
    run 0 "and is right" verify far.sparta --against m.onnx
    run 0 "one that runs here and one that does not" compile m.onnx --target avx2,avx512 -o both.sparta --json
    json "[(t['name'], t['checked']) for t in d['targets']] == [('avx512', False), ('avx2', True)]" "one is checked"
    run 0 "what runs here is used" run both.sparta --output-dir c --json; json "d['isa'] == 'avx2'" "what runs here is used"
    hasnt err "never checked" "without a note"
    export SPARTA_TARGET=portable
    run 0 "and where neither runs" run both.sparta --output-dir d --json; json "d['isa'] == 'portable'" "the portable kernels run"
    unset SPARTA_TARGET
fi
if "$S" doctor --threads 1 --json | grep -q '"name":"avx512","fits":true'; then
    run 0 "two that run here" compile m.onnx --target avx512,avx2 -o two.sparta --json; json "all(t['checked'] for t in d['targets']) and len(d['targets']) == 2" "both are checked"
    hasnt err "not checked" "and nothing is said"
    run 0 "the better one is used" run two.sparta --output-dir e --json; json "d['isa'] == 'avx512'" "the better one is used"
    SPARTA_TARGET=avx2 "$S" run two.sparta --output-dir f --json > out 2> err; json "d['isa'] == 'avx2'" "and the other where that does not run"
fi
finish
