#!/bin/sh
# What the program says of what it is given: the share of the time that has no kernel, zeros with a sign.
. "$(dirname "$0")/bed.sh"

run 0 "inspect a network of images" inspect "$root/tests/fixtures/resnet-script.onnx" --json
json "d['unaccelerated_share'] > 0.9 and 'convolutions' in d['unaccelerated_reason'] and d['unaccelerated_hint'] and any('without a kernel' in n for n in d['notes'])" "says what runs without a kernel, why, and what to do"
json "any(l['op'] == 'Conv' and l['implement'] == 'builtin' and 'reference runs it' in l['reason'] for l in d['layers'])" "and for each layer"
run 0 "inspect it for people" inspect "$root/tests/fixtures/resnet-script.onnx"; has err "of the time runs without a kernel" "says it to people"
run 0 "compile it" compile "$root/tests/fixtures/resnet-script.onnx" --no-measure --target portable -o r.sparta; has err "of the time runs without a kernel" "compile says it"
run 0 "inspect the package" inspect r.sparta --json; json "d['unaccelerated_share'] > 0.9" "and the package"
run 0 "compile a perceptron" compile "$root/tests/fixtures/mlp-script.onnx" --no-measure --target portable --json -o m.sparta
json "d['unaccelerated_share'] == 0 and d['unaccelerated_reason'] is None and not any('without a kernel' in n for n in d['notes'])" "nothing is said of what has kernels"

# -0.0 in a dense array is a zero, in every verb, and a value in every verb with --strict
printf '%%%%MatrixMarket matrix array real general\n4 2\n-0.0\n1\n0\n-0\n2\n-0.0\n3\n0\n' > z.mtx
run 0 "stats" format stats z.mtx --format csr --json; json "d['elements'] == 3" "stats counts no -0.0"
run 0 "stats --strict" format stats z.mtx --format csr --strict --json; json "d['elements'] == 6" "stats --strict does"
run 0 "pack" format pack z.mtx --format csr --limit 100 -o z.npz --json; json "d['elements'] == 3" "pack stores no -0.0"
run 0 "pack --strict" format pack z.mtx --format csr --strict -o zs.npz --json; json "d['elements'] == 6" "pack --strict does"
run 0 "advise" format advise z.mtx --json; json "d['elements'] == 3" "advise counts no -0.0"
run 0 "advise --strict" format advise z.mtx --strict --json; json "d['elements'] == 6" "advise --strict does"
run 0 "unpack" format unpack z.npz -o z.npy
run 0 "inspect" inspect z.npy --json; json "abs(d['layers'][0]['density'] - 3 / 8) < 1e-6" "inspect counts no -0.0"
run 0 "unpack what has it" format unpack zs.npz -o zs.npy
run 0 "inspect what has it" inspect zs.npy --json; json "abs(d['layers'][0]['density'] - 3 / 8) < 1e-6" "inspect counts none that is there"
run 0 "inspect --strict" inspect zs.npy --strict --json; json "abs(d['layers'][0]['density'] - 6 / 8) < 1e-6" "inspect --strict does"

# The library speaks of its own options and functions, the program of what was typed
printf 'PK\003\004 a pickled module: data.pkl' > w.pt
run 1 "masks from torch.save" compile "$root/tests/fixtures/mlp-script.onnx" --masks w.pt --no-measure -o x.sparta; has err "w.pt: is a zip archive of something else than arrays" "says what it is"; hasnt err "npz: " "and not what it is not"
run 0 "propagate with facts" propagate "$root/tests/fixtures/mlp-script.onnx" -o small.onnx --tesa facts.npz
run 0 "inspect them" inspect facts.npz --json
json "d['kind'] == 'tesa' and all({'name', 'op', 'dtype', 'shape', 'pattern', 'block', 'density', 'implement', 'reason', 'dims', 'zeros'} <= set(l) for l in d['layers'])" "has the fields of every layer"
run 4 "compile them" compile facts.npz -o x.sparta; has err '`sparta inspect` shows them, --masks takes such files' "says what takes them"; hasnt err "options." "in the program's words"; hasnt err "sparta_" "and no function's"
run 0 "quads without their size" kernel bench --m 16 --n 64 --k 256 --format quads --time 0.01; has err "run by the generic walker; quads(" "says who runs them, and which are faster"

finish
