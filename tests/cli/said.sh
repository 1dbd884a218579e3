#!/bin/sh
# What the program says without being asked: the share of the time that has no kernel.
. "$(dirname "$0")/bed.sh"

run 0 "inspect a network of images" inspect "$root/tests/fixtures/resnet-script.onnx" --json
json "d['unaccelerated_share'] > 0.9 and 'convolutions' in d['unaccelerated_reason'] and d['unaccelerated_hint'] and any('without a kernel' in n for n in d['notes'])" "says what runs without a kernel, why, and what to do"
json "any(l['op'] == 'Conv' and l['implement'] == 'builtin' and 'reference runs it' in l['reason'] for l in d['layers'])" "and for each layer"
run 0 "inspect it for people" inspect "$root/tests/fixtures/resnet-script.onnx"; has err "of the time runs without a kernel" "says it to people"
run 0 "compile it" compile "$root/tests/fixtures/resnet-script.onnx" --no-measure --target portable -o r.sparta; has err "of the time runs without a kernel" "compile says it"
run 0 "inspect the package" inspect r.sparta --json; json "d['unaccelerated_share'] > 0.9" "and the package"
run 0 "compile a perceptron" compile "$root/tests/fixtures/mlp-script.onnx" --no-measure --target portable --json -o m.sparta
json "d['unaccelerated_share'] == 0 and d['unaccelerated_reason'] is None and not any('without a kernel' in n for n in d['notes'])" "nothing is said of what has kernels"

finish
