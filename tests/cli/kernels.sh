#!/bin/sh
# sparta kernel show: the kernels of a package, their C text, and what a nest becomes.
. "$(dirname "$0")/bed.sh"
silu="i*; x0: f32[i]; y0: f32[i]; t0 = sigmoid(x0); y0 = mul(t0,x0)"

# ------------------------------------------------------------------ of an expression
spmm="C(i,k) = A(i,j)*B(j,k)"
run 0 "kernel show --expr" kernel show --expr "$spmm" --format A=csr --target avx512
has out "KERNEL void sp_special_0" "is C"; has out "A: (i,j)->(i:dense, j:compressed)" "and says where it came from"; hasnt out "INLINE" "without headers"
run 0 "its loops" kernel show --expr "$spmm" --format A=csr --target avx512 --stage nest
has out "schedule of 0: reorder(k,i,j); vectorize(k,8); threads(i)" "and its default"; has out "0: k*8 i.threads j@segment.A.1; C = A*B" "and the nest"
run 0 "a schedule" kernel show --expr "$spmm" --format A=csr --stage nest --schedule "vectorize(k,2)"; has out "0: i j@segment.A.1 k*2" "changes it"
run 0 "kernel run --expr" kernel run --expr "$spmm" --format "A=bsr(4,4)" --dim i=10 --dim j=11 --dim k=12 --output-dir expr --json
json "[o['name'] for o in d['outputs']] == ['C', 'A', 'B'] and d['outputs'][0]['shape'] == [10, 12]" "writes results and what it drew"
run 0 "with what it drew" kernel run --expr "$spmm" --format A=csc --input A=expr/A.npy --input B=expr/B.npy --output-dir again
if command -v python3 > /dev/null; then
    if python3 -c "
import struct
a, b = ([x[0] for x in struct.iter_unpack('<f', open(f, 'rb').read()[128:])] for f in ('expr/C.npy', 'again/C.npy'))
assert len(a) == 120 and any(a) and all(abs(x - y) < 1e-5 for x, y in zip(a, b))"; then good "another format, the same answer"; else bad "another format, the same answer"; fi
fi
run 0 "of other types" kernel run --expr "$spmm" --format A=csr --dtype A=bf16 --dtype C=f16 --input A=expr/A.npy --input B=expr/B.npy --output-dir types --json; json "d['outputs'][0]['dtype'] == 'f16'" "the result has its type"
run 0 "the types in the text" kernel show --expr "$spmm" --format A=csr --dtype B=f16; has out "get_f16(B_values" "B is read as f16"
run 0 "a file of its type" kernel run --expr "$spmm" --format C=dense --input A=types/C.npy --dim k=3 --output-dir typed
run 2 "a type that nobody knows" kernel show --expr "$spmm" --dtype A=f8; complains "a type that nobody knows"
run 1 "a type without kernels" kernel show --expr "$spmm" --dtype A=i8; has err "f32, f16 and bf16" "says which there are"
run 2 "a type of nobody" kernel show --expr "$spmm" --dtype D=f16; has err "no operand 'D'" "is refused by its name"
run 2 "a type without a name" kernel show --expr "$spmm" --dtype f16; complains "a type without a name"
run 0 "kernel bench --expr" kernel bench --expr "$spmm" --format A=dia --dim i=20 --dim j=20 --dim k=20 --time 0.01 --json; json "0 < d['best_us'] <= d['median_us'] and d['steps'] > 0 and d['threads'] > 0" "times it"
for wrong in "" "C(i" "C(i) = A(i) +" "C(i,k) = A(i,j)*B(j,k" "y(i) = y(j)"; do
    run 2 "the expression '$wrong'" kernel show --expr "$wrong"; complains "the expression '$wrong'"
done
run 2 "a format of nobody" kernel show --expr "$spmm" --format D=csr; has err "no operand 'D'" "is refused by its name"
run 2 "a format without a name" kernel show --expr "$spmm" --format csr; complains "a format without a name"
run 2 "a schedule that cannot be" kernel show --expr "$spmm" --format A=csr --schedule "reorder(j,i)"; has err "keep those outside" "and what to do"
run 2 "a flag of products" kernel bench --expr "$spmm" --m 8; has err "--m" "is refused by its name"
run 2 "kernel run of nothing" kernel run; complains "kernel run of nothing"
run 2 "run without a folder" kernel run --expr "$spmm" --dim i=2 --dim j=2 --dim k=2; has err "--output-dir" "asks for one"
run 1 "a size that nobody says" kernel bench --expr "$spmm" --dim i=2 --dim j=2; has err "--dim k=N" "asks for it"
run 5 "what would not end" kernel bench --expr "s = a(i)*b(j)*c(k)*d(l)" --dim i=65536 --dim j=65536 --dim k=65536 --dim l=65536; has err "steps" "is refused"
run 5 "what has no room" kernel bench --expr "C(i,k) = A(i)*B(k)" --dim i=1073741824 --dim k=1073741824; complains "what has no room"

# ------------------------------------------------------------------ of a nest
run 0 "kernel show --nest" kernel show --nest "$silu" --target avx2
has out "target avx2" "the text says its target"
has out " *     t0 = sigmoid(x0)" "and where it came from"
has out "const vec t0 = sigmoidv(x0);" "and is C"
hasnt out "INLINE" "without the headers that texts share"
cp out own
run 0 "kernel show --whole" kernel show --nest "$silu" --target portable --whole; has out "INLINE vec expv(vec x)" "with them it stands alone"
cp out whole.c
if [ -x /usr/bin/cc ]; then
    if /usr/bin/cc -std=gnu11 -O1 -c whole.c -o whole.o 2> err; then good "a compiler takes it as it is"; else bad "a compiler takes it as it is"; fi
fi
run 0 "a nest with --quiet" kernel show --nest "$silu" --target avx2 --quiet; if cmp -s out own; then good "--quiet keeps the answer"; else bad "--quiet keeps the answer"; fi
run 0 "a nest written otherwise" kernel show --nest " i* ;x0:f32[i];y0:f32[i];t0=sigmoid( x0 );y0=mul(t0,x0) " --target avx2 --json
json "d['schema'] == 'sparta.kernel/1' and d['parameters'] == '$silu' and d['kernel'] == 'nest' and d['target'] == 'avx2' and 'sigmoidv' in d['text']" "kernel show --json"
run 0 "a nest on panels" kernel show --nest "f t*; x0: lanes f32[t,f]; y0: lanes f32[t,f]; y0 = neg(x0)" --json; json "d['kernel'] == 'nest_lanes'" "is another kernel"
for wrong in "" "i*" "i*; x0: f32[i]" "i*; x0: f32[i]; y0: f32[i]; y0 = expo(x0)" "i*; x0: f32[i]; y0: f32[i]; y0 = add(x0)" "i*; x0: f32[q]; y0: f32[i]; y0 = exp(x0)" "i; x0: f32[i]; y0: f32[i]; y0 = exp(x0)" \
    "i*; x0: f99[i]; y0: f32[i]; y0 = exp(x0)" "i*; x0: f32[i]; y0: f32[i]; y0 = exp(t3)" "i@segment*; x0: f32[i]; y0: f32[i]; y0 = exp(x0)"; do
    run 2 "the nest '$wrong'" kernel show --nest "$wrong"; complains "the nest '$wrong'"
done
run 2 "a nest for no target" kernel show --nest "$silu" --target avx3; complains "a nest for no target"
run 2 "kernel show of nothing" kernel show; complains "kernel show of nothing"
run 2 "a flag of bench" kernel show --nest "$silu" --m 8; has err "--m" "is refused by its name"
run 2 "a flag of show" kernel bench --nest "$silu"; has err "--nest" "is refused by its name"
run 2 "a nest and a package" kernel show x.sparta --nest "$silu"; complains "a nest and a package"
run 2 "a nest and a number" kernel show --nest "$silu" --number 1; complains "a nest and a number"

# ------------------------------------------------------------------ of a package
run 0 "compile" compile "$root/tests/fixtures/llama-script.onnx" --no-measure --target avx2 -o llama.sparta
run 0 "kernel show" kernel show llama.sparta; has out "nest" "lists generated kernels"; has out "linear" "and the others"
run 0 "kernel show --json" kernel show llama.sparta --json
json "[k['number'] for k in d['kernels']] == list(range(len(d['kernels']))) and any(k['kernel'] == 'nest' and k['parameters'].startswith('i') and k['nodes'] > len(k['steps']) > 0 for k in d['kernels'])" "chains are counted"
json "all(t['name'] == 'avx2' and t['bytes'] > 0 for k in d['kernels'] for t in k['targets']) and all(k['bytes'] == sum(t['bytes'] for t in k['targets']) for k in d['kernels'])" "code has its target and size"
run 0 "kernel show as a table" kernel show llama.sparta --table csv; has out "number,kernel,steps,nodes,first,target,bytes,parameters" "kernel show --table"
run 0 "kernel show --number" kernel show llama.sparta --number 0; has out "KERNEL void sp_kernel_" "the text of one"
cp out first
run 0 "kernel show --number --json" kernel show llama.sparta --number 0 --json; json "d['number'] == 0 and d['steps'] and d['text'] == open('first').read()" "the same as JSON"
if command -v python3 > /dev/null; then
    step=$("$S" kernel show llama.sparta --json | python3 -c "import json, sys; print(json.load(sys.stdin)['kernels'][0]['steps'][0])")
    run 0 "kernel show --step" kernel show llama.sparta --step "$step"
    if cmp -s out first; then good "of a step by its name"; else bad "of a step by its name"; fi
fi
run 2 "a number that is none" kernel show llama.sparta --number 1000; complains "a number that is none"
run 2 "a step that is none" kernel show llama.sparta --step nobody; complains "a step that is none"
run 2 "a step and a number" kernel show llama.sparta --step nobody --number 1; complains "a step and a number"
run 2 "a package and a target" kernel show llama.sparta --target avx2; complains "a package and a target"
run 1 "kernel show of a missing file" kernel show missing.sparta; complains "kernel show of a missing file"
run 1 "kernel show of what is no package" kernel show "$root/tests/fixtures/llama-script.onnx"; complains "kernel show of what is no package"
run 0 "compile without code" compile "$root/tests/fixtures/mlp-script.onnx" --no-measure --target portable -o plain.sparta
run 0 "kernel show without code" kernel show plain.sparta --json; json "all(k['targets'] == [] and k['bytes'] == 0 for k in d['kernels'])" "no code, no bytes"

# ------------------------------------------------------------------ of a layer in a format that nobody wrote a kernel for
run 0 "a model for schedules" zoo mlp -o mlp.onnx
printf 'tensor "fc1.weight" {\n    sparsify magnitude(4x4, 0.9)\n    format bsr(4,4)\n    kernel { reorder(m0,m1,n0,k0,k1,n1); vectorize(m1,2); unroll(n1); unroll(k1) }\n}\n' > k.sched
run 0 "compile with kernel { }" compile mlp.onnx --schedule k.sched --no-measure --target avx512,avx2,portable -o k.sparta
run 0 "its layers" inspect k.sparta --json; json "d['layers'][0]['implement'] == 'generated_linear' and 'one is generated' in d['layers'][0]['reason']" "one is generated"
run 0 "its kernel" kernel show k.sparta --step /fc1/Gemm; has out "nest 0: m0 m1:64*2 n0 k0@segment.w.1 k1:4.unroll n1:4.unroll" "has the loops that were asked for"
run 0 "it verifies" verify k.sparta --against mlp.onnx --schedule k.sched

# ------------------------------------------------------------------ of a user
run 0 "a pruned model" zoo mlp --prune 1x1:0.9 -o pruned.onnx
printf 'tensor "fc1.weight" {\n    implement rows_of_csr\n}\n' > own.sched
printf 'tensor "fc1.weight" {\n    implement user\n}\n' > row.sched
run 0 "compile --kernel" compile pruned.onnx --kernel "$root/examples/kernel.c" --schedule own.sched --no-measure --target avx512,avx2,portable -o own.sparta
run 0 "its layers" inspect own.sparta --json; json "d['layers'][0]['implement'] == 'user'" "it runs the layer"
run 0 "its text" kernel show own.sparta --step /fc1/Gemm; has out "splat(w[at])" "is in the package"
run 0 "it verifies without it" verify own.sparta --against pruned.onnx
SPARTA_TARGET=portable run 0 "it verifies without its code" verify own.sparta --against pruned.onnx
run 2 "a row without its name" compile pruned.onnx --kernel "$root/examples/kernel.c" --schedule row.sched --no-measure -o x.sparta; complains "a row without its name"
run 2 "a format without a text" kernel show --expr "y(i) = A(i,j)*x(j)" --format A=; has err "give --format NAME=TEXT" "says what is missing"
run 2 "a kernel that nobody gave" compile pruned.onnx --schedule own.sched --no-measure -o x.sparta; complains "a kernel that nobody gave"
sed 's/splat(w/2.f * splat(w/' "$root/examples/kernel.c" > wrong.c
run 0 "a kernel that is wrong" compile pruned.onnx --kernel wrong.c --db wrong.db -o right.sparta; has err "kernel rows_of_csr disagrees with the reference" "is not used"
run 3 "a kernel that is wrong, asked for and not timed" compile pruned.onnx --kernel wrong.c --schedule own.sched --no-measure -o x.sparta
sed 's/^    for (long i = 0; i < p->n; i++) {/    p->y[64 * (p->n + 20)] = 1;\n&/' "$root/examples/kernel.c" > far.c
run 0 "a kernel that leaves its result" compile pruned.onnx --kernel far.c --db far.db -o right.sparta; has err "kernel rows_of_csr writes outside of the result and is not used" "is named"
# The first words behind a result are another panel's, or nobody's: only many tokens show it in an answer.
for past in 0 1; do
    sed "s/^    for (long i = 0; i < p->n; i++) {/    p->y[64 * (p->n + $past)] = 1e30f;\n&/" "$root/examples/kernel.c" > near.c
    run 0 "a kernel that leaves its result by $past rows" compile pruned.onnx --kernel near.c --db near$past.db -o right.sparta; has err "kernel rows_of_csr writes outside of the result and is not used" "is named"
    run 4 "it is asked for" compile pruned.onnx --kernel near.c --schedule own.sched --db near$past.db -o x.sparta; has err "it was tried and is wrong" "and refused"
    run 3 "it is asked for and not timed" compile pruned.onnx --kernel near.c --schedule own.sched --no-measure -o x.sparta
done
sed 's/const float \*w/const flaot *w/' "$root/examples/kernel.c" > bad.c
run 1 "a kernel that does not compile" compile pruned.onnx --kernel bad.c -o x.sparta; has err "bad.c: kernel rows_of_csr" "names it"; has err "flaot" "says why"
run 1 "a kernel that says nothing" compile pruned.onnx --kernel own.sched -o x.sparta; complains "a kernel that says nothing"
gone x.sparta "nothing was written"
finish
