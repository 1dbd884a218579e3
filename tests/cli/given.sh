#!/bin/bash
# The model as it is given: structured pruning that may be left alone, and what bench compares with.
. "$(dirname "$0")/bed.sh"

small="--dim layers=2 --dim hidden=64 --dim heads=4 --dim ffn=128 --dim vocab=50 --dim positions=64"
run 0 "a BERT whose rows are pruned" zoo bert-mini --prune rows:0.5 $small -o rows.onnx
run 0 "compile makes it smaller" compile rows.onnx -o rows.sparta --no-measure --target portable --json
json "d['parameters_after'] < d['parameters_before']" "parameters go"
json "all(l['implement'] == 'attention' for l in d['layers'] if l['op'] == 'Attention')" "attention has its kernel"
json "sum(l['op'] == 'Attention' for l in d['layers']) == 2" "and is recognised in every layer"
run 0 "compile --no-propagate" compile rows.onnx -o whole.sparta --no-measure --target portable --no-propagate --json
json "d['parameters_after'] == d['parameters_before'] > 0" "nothing goes"
run 0 "compile --multiple" compile rows.onnx -o even.sparta --no-measure --target portable --multiple 48 --json
json "any(l['shape'] == [96, 64] for l in d['layers'])" "a multiple stays"
run 0 "both give the same answer" verify rows.sparta --against whole.sparta
run 0 "so does the file" verify even.sparta --against rows.onnx

run 0 "bench of a package" bench rows.sparta --iterations 3 --threads 1 --no-measure --profile --json
json "d['baseline']['name'] == 'the model as it was given, dense'" "the baseline is called by its name"
run 0 "bench of the file" bench rows.onnx --iterations 3 --threads 1 --no-measure --target portable --no-propagate
has out "the model as it was given, dense" "says so too"
run 2 "removal needs propagation" compile rows.onnx -o x.sparta --remove layer.0.heads=1 --no-propagate
complains "removal needs propagation"
run 2 "a package cannot be propagated" bench rows.sparta --no-propagate
complains "a package cannot be propagated"
finish
