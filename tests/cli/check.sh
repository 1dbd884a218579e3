#!/bin/sh
# compile's own check and verify: tolerances, what a failed check says, which sizes were compared.
. "$(dirname "$0")/bed.sh"

run 0 "a small model" zoo mlp --dim inputs=37 --dim hidden1=64 --dim hidden2=30 --dim classes=10 -o m.onnx
run 0 "compile takes --rtol and --atol" compile m.onnx -o m.sparta --no-measure --rtol 1e-3 --atol 1e-3
run 3 "a tolerance nothing meets" compile m.onnx -o no.sparta --no-measure --rtol 0 --atol 0
complains "a failed check"
has err "nothing was written" "a failed check writes nothing, and says so"
has err "give --rtol" "a failed check says what to do"
hasnt err "one unit" "and with --atol nothing of units, which nobody asked for"
gone no.sparta "no package of a failed check"
run 2 "a tolerance below 0" compile m.onnx -o no.sparta --rtol -1
run 0 "verify" verify m.sparta --against m.onnx
has out "batch=1; batch=5; batch=67" "verify says which sizes it compared"
run 3 "verify with a tolerance nothing meets" verify m.sparta --against m.onnx --rtol 0 --atol 0
hasnt err "one unit" "verify with --atol says nothing of units either"
run 0 "another model" zoo mlp --dim inputs=37 --dim hidden1=64 --dim hidden2=30 --dim classes=10 --seed 1 -o other.onnx
run 3 "verify of another model" verify m.sparta --against other.onnx
has err "one unit in the last place changes" "says what one unit does"

finish
