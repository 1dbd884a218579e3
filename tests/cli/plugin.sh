#!/bin/sh
# --plugin: a user's sparsifier out of a shared library.
. "$(dirname "$0")/bed.sh"
command -v cc > /dev/null || { echo "no C compiler"; exit 77; }
build() { cc -shared -fPIC -Wall -Werror -I"$root/include" "$1" -o "$2" || bad "cc $1"; }

build "$root/examples/plugin.c" plugin.so
run 0 "zoo mlp" zoo mlp -o mlp.onnx
printf 'tensor "*" {\n    sparsify stripes(every=8)\n}\n' > s.sched
run 2 "a schedule without its plugin" compile mlp.onnx --schedule s.sched --no-measure -o p.sparta; has err "stripes" "names the sparsifier"
run 0 "compile --plugin" compile mlp.onnx --schedule s.sched --plugin ./plugin.so --no-measure -o p.sparta
run 0 "inspect" inspect p.sparta --json
json "any(abs(l['density'] - 0.125) < 0.01 for l in d['layers'] if l['density'])" "one weight in eight stays"
run 0 "inspect --plugin" inspect mlp.onnx --schedule s.sched --plugin "$T/plugin.so" --json; json "d['schedule']" "inspect knows the schedule"
run 0 "verify --plugin" verify p.sparta --against mlp.onnx --schedule s.sched --plugin ./plugin.so; has out "same" "verify obeys the schedule"
run 0 "bench --plugin" bench mlp.onnx --schedule s.sched --plugin ./plugin.so --no-measure --iterations 2 --json
run 0 "propagate --plugin" propagate mlp.onnx --schedule s.sched --plugin ./plugin.so -o small.onnx
printf 'tensor "*" {\n    sparsify stripes(every=0)\n}\n' > zero.sched
run 2 "a sparsifier that fails" compile mlp.onnx --schedule zero.sched --plugin ./plugin.so -o x.sparta; has err "every must be at least 1" "says why"

run 2 "a plugin without a path" compile mlp.onnx --plugin plugin.so -o x.sparta; has err "./plugin.so" "is told how to say it"; complains "a plugin without a path"
run 1 "a plugin that is not there" compile mlp.onnx --plugin ./nowhere.so -o x.sparta; complains "a plugin that is not there"
run 1 "a plugin that is a text" compile mlp.onnx --plugin ./s.sched -o x.sparta; complains "a plugin that is a text"
echo 'int nothing(void) { return 0; }' > none.c; cc -shared -fPIC none.c -o none.so
run 1 "a plugin without the function" compile mlp.onnx --plugin ./none.so -o x.sparta; has err "sparta_plugin" "says what it lacks"
run 2 "a plugin twice" compile mlp.onnx --plugin ./plugin.so --plugin ./plugin.so -o x.sparta; has err "stripes" "the name is taken"
printf '#include <sparta.h>\nsparta_status sparta_plugin(sparta_ctx *cx) { (void)cx; return SPARTA_E_UNSUPPORTED; }\n' > refuses.c; build refuses.c refuses.so
run 4 "a plugin that refuses" compile mlp.onnx --plugin ./refuses.so -o x.sparta; complains "a plugin that refuses"
gone x.sparta "nothing was written"

finish
