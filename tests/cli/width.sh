#!/bin/sh
# Tables as wide as the terminal. Usage: tests/cli/width.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"

# narrow N NAME: no line of a table (after the empty line that ends the head) is wider than N
narrow() { sed '1,/^$/d' out > table; if [ -s table ] && [ "$(wc -L < table)" -le "$1" ]; then good "$2"; else bad "$2 ($(wc -L < table) columns)"; fi; }
run 0 "a model with long names" zoo bert-mini --dim vocab=500 --prune 4x1:0.9 -o m.onnx
run 0 "in a pipe" inspect m.onnx; cp out whole
if [ "$(wc -L < whole)" -gt 120 ]; then good "everything is there"; else bad "everything is there"; fi
has whole "/encoder/layer.3/attention/self/{query,key,value}/MatMul" "names are whole in a pipe"
for n in 80 100 120; do
    export COLUMNS=$n
    run 0 "inspect on $n columns" inspect m.onnx; narrow $n "a table fits $n columns"
    for layer in 0 1 2 3; do
        if grep -q "^\.\.$layer/attention.*{query,key,value}.*4x1" out; then good "layer $layer shows on $n columns"; else bad "layer $layer shows on $n columns"; fi
    done
    # as many different names as there are
    if [ "$(sed '1,/^layer/d; /^(/d; /^ /d' out | awk '{ print $1 }' | sort -u | wc -l)" = "$(sed '1,/^layer/d' whole | awk '{ print $1 }' | sort -u | wc -l)" ]; then
        good "names that differ go on to differ on $n columns"; else bad "names that differ go on to differ on $n columns"; fi
    has out "product of two activations: nothing to prune" "the reason is whole on $n columns"
    for column in layer pattern density; do if sed -n '/^$/,$p' out | sed -n 2p | grep -qw $column; then good "$column stays on $n columns"; else bad "$column stays on $n columns"; fi; done
    if [ "$(grep -c '^\.\..*4x1 *0\.100 ' out)" -ge 12 ]; then good "rows say pattern and density on $n columns"; else bad "rows say pattern and density on $n columns"; fi
    run 0 "zoo on $n columns" zoo; if [ "$(wc -L < out)" -le $n ]; then good "zoo fits $n columns"; else bad "zoo fits $n columns"; fi
done
export COLUMNS=80
run 0 "what gave way is named" inspect m.onnx; has out "(no room for: source" "what gave way is named: the least important first"
run 0 "a reason with numbers" zoo mlp --prune 4x1:0.3 -o wide.onnx
run 0 "that is longer than a line" inspect wide.onnx --db none.db; narrow 80 "is wrapped under its row"
run 0 "--table has everything" inspect m.onnx --table csv; has out "dense_us,source,reason" "--table has everything"
export COLUMNS=60
run 0 "on 60 columns" inspect m.onnx; narrow 60 "a table fits 60 columns"; if sed -n '/^$/,$p' out | sed -n 2p | grep -qw us; then good "times stay"; else bad "times stay"; fi
export COLUMNS=1
run 0 "on one column" inspect m.onnx
export COLUMNS=wide
run 0 "a width that is no number" inspect m.onnx; has out "/encoder/layer.3/attention/self/{query,key,value}/MatMul" "is none"
unset COLUMNS
if command -v script > /dev/null; then
    script -qec "stty cols 80; '$S' inspect m.onnx" typescript < /dev/null > /dev/null 2>&1
    tr -d '\r' < typescript | sed '/^Script/d' > out; narrow 80 "the terminal says how wide it is"
fi
for verb in zoo inspect propagate compile run verify bench kernel format doctor ""; do
    run 0 "$verb --help" $verb --help
    if [ "$(wc -L < out)" -le 80 ]; then good "$verb --help fits 80 columns"; else bad "$verb --help fits 80 columns"; fi
done
finish
