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

# A kernel that is a function: the package has its name.
cat > kernel.c <<'EOF'
#include <sparta.h>
static void product(void *user, const sparta_product *p)
{
    const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];
    (void)user;
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++) {
            float sum = 0;
            for (int at = pos[i]; at < pos[i + 1]; at++) sum += p->part[0].w[at] * p->x[64 * crd[at] + t];
            p->y[64 * i + t] = sum;
        }
}
sparta_status sparta_plugin(sparta_ctx *cx)
{
    const sparta_kernel_function f = {.size = sizeof f, .name = "mine", .format = "csr", .product = product};
    return sparta_kernel_function_register(cx, &f);
}
EOF
build kernel.c kernel.so
printf 'tensor "*" {\n    implement mine\n}\n' > mine.sched
run 2 "a function without its plugin" compile mlp.onnx --schedule mine.sched --no-measure -o x.sparta; has err "mine" "names the kernel"
run 0 "compile with a function" compile mlp.onnx --schedule mine.sched --plugin ./kernel.so --no-measure -o f.sparta
run 0 "inspect it" inspect f.sparta --json; json "any(l['implement'] == 'user_function' for l in d['layers'])" "the function runs layers"
run 0 "verify with the function" verify f.sparta --against mlp.onnx --plugin ./kernel.so
run 0 "run with the function" run f.sparta --plugin ./kernel.so --output-dir o; hasnt err "function 'mine'" "no note"
run 0 "verify without the function" verify f.sparta --against mlp.onnx; has err "function 'mine'" "a note says what runs instead"

finish
