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
run 0 "a table" prune m.onnx --pattern 2:4 --keep "fc3*" --method wanda --data calib.npz -o kept.onnx
has out "kept, as asked for" "what is kept is said"
run 0 "over itself" prune kept.onnx --pattern 1x1:0.75 -o kept.onnx
run 0 "progress" prune m.onnx --pattern 2:4 --progress plain -o p.onnx; has err "fc2.weight" "progress names layers"

refuse() { run 2 "$@"; complains "$1"; gone x.onnx "$1: nothing is written"; }
refuse "no pattern" prune m.onnx -o x.onnx
refuse "no sparsity" prune m.onnx --pattern 4x1 -o x.onnx
refuse "no output" prune m.onnx --pattern 2:4
refuse "wanda without data" prune m.onnx --pattern 2:4 --method wanda -o x.onnx
refuse "an unknown method" prune m.onnx --pattern 2:4 --method obs -o x.onnx
refuse "nothing to keep" prune m.onnx --pattern 2:4 --keep "conv*" -o x.onnx
refuse "everything is kept" prune m.onnx --pattern 2:4 --keep "*" -o x.onnx
refuse "nothing would be left" prune m.onnx --pattern 4x1:1 -o x.onnx
refuse "data of another model" prune m.onnx --pattern 2:4 --method wanda --data other.npz -o x.onnx
run 1 "data that is none" prune m.onnx --pattern 2:4 --method wanda --data m.onnx -o x.onnx; gone x.onnx "nothing is written"
run 1 "no such model" prune nothing.onnx --pattern 2:4 -o x.onnx
finish
