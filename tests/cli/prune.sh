#!/bin/bash
# sparta prune: by magnitude, and by what layers meet in data; reports, and what is refused.
. "$(dirname "$0")/bed.sh"

run 0 "a dense model" zoo mlp --dim inputs=64 --dim hidden1=96 --dim hidden2=32 -o m.onnx
run 0 "its inputs" run m.onnx --input x=random:-1:1 --dim batch=50 --output-dir data
python3 - << 'PY' || exit 2
# An npz of what run wrote: stored entries, as NumPy's savez makes them.
import zipfile
with zipfile.ZipFile("calib.npz", "w") as z:
    z.write("data/x.npy", "x.npy")
with zipfile.ZipFile("other.npz", "w") as z:
    z.write("data/x.npy", "y.npy")
header = lambda kind, shape: (b"\x93NUMPY\1\0\x76\0" + f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()).ljust(127) + b"\n"
for name, kind, shape, size in (("f64", "<f8", (2, 64), 8), ("i64", "<i8", (2, 64), 8), ("rank", "<f4", (2, 8, 8), 4), ("wide", "<f4", (2, 65), 4)):
    n = size
    for d in shape:
        n *= d
    with zipfile.ZipFile(name + ".npz", "w") as z:
        z.writestr("x.npy", header(kind, shape) + bytes(n))
PY
run 0 "by magnitude" prune m.onnx --pattern 4x1:0.5 -o a.onnx --json
json "d['schema'] == 'sparta.prune/1' and d['pruned'] == 3 and abs(d['sparsity'] - 0.5) < 0.01" "half goes"
json "all(0.5 < l['norm_kept'] < 1 and l['error'] is None for l in d['layers'])" "the norm is told, no error without data"
run 0 "it is what inspect finds" inspect a.onnx --json
json "[l['pattern'] for l in d['layers']][:2] == ['4x1', '4x1']" "the pattern"
for method in magnitude wanda sparsegpt; do
    run 0 "$method with data" prune m.onnx --pattern 2:4 --method $method --data calib.npz -o $method.onnx --json
    json "d['items'] == 50 and all(0 < l['error'] < 1 and abs(l['density'] - 0.5) < 0.01 for l in d['layers'])" "$method: errors of outputs"
    cp out $method.json
    exists $method.onnx "$method writes a model"
done
cp magnitude.json out
json "all(a['error'] > b['error'] for a, b in zip(d['layers'], json.load(open('sparsegpt.json'))['layers']))" "SparseGPT changes outputs less"
for threads in 1 3; do run 0 "on $threads threads" prune m.onnx --pattern 2:4 --method sparsegpt --data calib.npz --threads $threads -o on$threads.onnx; done
if cmp -s on1.onnx on3.onnx; then good "threads change nothing"; else bad "threads change nothing"; fi
run 0 "a table" prune m.onnx --pattern 2:4 --keep "fc3*" --method wanda --data calib.npz -o kept.onnx
has out "kept, as asked for" "what is kept is said"
run 0 "over itself" prune kept.onnx --pattern 1x1:0.75 -o kept.onnx
run 0 "progress" prune m.onnx --pattern 2:4 --progress plain -o p.onnx; has err "fc2.weight" "progress names layers"

# Nothing is passed over in silence: what is no weight of a product is listed with its reason, here and by --what-if.
run 0 "a network of convolutions" zoo resnet50 --dim width=8 --dim image=32 --dim classes=16 -o conv.onnx
run 0 "its pruning" prune conv.onnx --pattern 4x1:0.5 -o x.onnx --json
json "d['pruned'] == 1 and sum('a convolution: only weights of linear layers are pruned' in l['left'] for l in d['layers']) == 53 and len(d['layers']) == 54" "53 convolutions are said"
json "all(len(l['shape']) == 4 and l['density'] is None for l in d['layers'] if l['left'])" "with their shapes"
run 0 "its pruning, told" prune conv.onnx --pattern 4x1:0.5 -o x.onnx; has out "1 of 54 weights pruned" "the count has them"
run 0 "what if" inspect conv.onnx --what-if 4x1:0.5 --time 0.02 --threads 1 --json
json "len(d['left']) == 53 and all('a convolution' in l['reason'] for l in d['left'])" "--what-if says the same"
run 0 "what if, told" inspect conv.onnx --what-if 4x1:0.5 --time 0.02 --threads 1; has out "left, 1 of 8x3x7x7 (conv1.weight): a convolution" "a line for each shape"
run 0 "a tied head" zoo gpt2-small --dim layers=1 --dim hidden=64 --dim heads=2 --dim ffn=128 --dim vocab=200 -o tied.onnx
run 0 "its pruning" prune tied.onnx --pattern 4x1:0.5 --keep "wte*" -o y.onnx --json
json "{l['name']: l['left'] for l in d['layers'] if l['left']}.keys() == {'wte.weight', 'wpe.weight'}" "embeddings are left"
json "['also an embedding' in l['left'] for l in d['layers'] if l['name'] == 'wte.weight'] == [True]" "a tied one says so"
rm -f x.onnx y.onnx

# To a time: the model is small, so that a speed-up of 1 is all that is sure on a busy machine.
run 0 "to a speed-up" prune m.onnx --target-speedup 1 --pattern 4x1,2:4 --dim batch=64 --threads 1 --time 0.05 -o t.onnx --json
json "d['dense_ms'] > 0 and d['measured_ms'] <= 1.03 * d['target_ms'] and d['pattern'] is None" "the time is met"
json "[l['tokens'] for l in d['layers']] == [64] * 3 and all(l['dense_us'] > 0 for l in d['layers'])" "layers have times"
run 0 "a time that dense takes" prune m.onnx --target-latency 10s --threads 1 --time 0.05 -o t.onnx; has out "dense is enough" "nothing goes"
run 1 "a time that nothing takes" prune m.onnx --target-latency 0.001us --threads 1 --time 0.05 -o x.onnx; has err "cannot be reached" "it says so"
has err "times as fast) is the least" "and what can"; gone x.onnx "nothing is written"

run 0 "a weight of which little would be left" zoo mlp --dim inputs=64 --dim hidden1=64 --dim hidden2=8 --dim classes=4 -o small.onnx
run 0 "its fit" prune small.onnx --target-speedup 1 --pattern 8x1:0.5 --threads 1 --time 0.05 --dim batch=64 -o t.onnx --json
json "d['layers'][2]['left'] == 'a block is larger than it' and d['layers'][2]['pattern'] == 'dense'" "it has no option, and the reason is said"

refuse() { run 2 "$@"; complains "$1"; gone x.onnx "$1: nothing is written"; }
refuse "no pattern" prune m.onnx -o x.onnx
refuse "a time without a unit" prune m.onnx --target-latency 5 -o x.onnx
refuse "a time below 0" prune m.onnx --target-latency -5ms -o x.onnx
refuse "two targets" prune m.onnx --target-latency 5ms --target-speedup 2 -o x.onnx
refuse "slower" prune m.onnx --target-speedup 0.5 -o x.onnx
refuse "patterns that are none" prune m.onnx --target-speedup 2 --pattern 4x1,,2:4 -o x.onnx
refuse "patterns twice" prune m.onnx --target-speedup 2 --pattern 2:4,2:4 -o x.onnx
refuse "patterns that fit nothing" prune m.onnx --target-speedup 2 --pattern 256x1:0.5 --time 0.05 -o x.onnx
for flag in "--dim batch=64" "--time 1" "--db t.db" "--target scalar"; do
    refuse "${flag%% *} without a time" prune m.onnx --pattern 2:4 $flag -o x.onnx; has err "says how a target time is measured" "it says so"
done
refuse "no sparsity" prune m.onnx --pattern 4x1 -o x.onnx
refuse "no output" prune m.onnx --pattern 2:4
refuse "wanda without data" prune m.onnx --pattern 2:4 --method wanda -o x.onnx
refuse "an unknown method" prune m.onnx --pattern 2:4 --method obs -o x.onnx
refuse "nothing to keep" prune m.onnx --pattern 2:4 --keep "conv*" -o x.onnx
refuse "everything is kept" prune m.onnx --pattern 2:4 --keep "*" -o x.onnx
refuse "nothing would be left" prune m.onnx --pattern 4x1:1 -o x.onnx
refuse "data of another model" prune m.onnx --pattern 2:4 --method wanda --data other.npz -o x.onnx
for method in magnitude wanda sparsegpt; do # said of the array, by its type or shape, whoever would meet it first
    for wrong in "f64 is f64 and the model's input is f32" "i64 is i64 and the model's input is f32" \
        "rank has 3 dimensions and the model's input has 2" "wide dimension 1 of array 'x' is 65 and the model's is 64"; do
        run 1 "$method: data that is ${wrong%% *}" prune m.onnx --pattern 2:4 --method $method --data ${wrong%% *}.npz -o x.onnx
        has err "${wrong#* }" "it says so"; has err "${wrong%% *}.npz" "and names the file"; gone x.onnx "nothing is written"
    done
done
run 1 "data that is none" prune m.onnx --pattern 2:4 --method wanda --data m.onnx -o x.onnx; gone x.onnx "nothing is written"
run 1 "no such model" prune nothing.onnx --pattern 2:4 -o x.onnx
finish
