#!/bin/sh
# What the program measures: kernel bench of one matrix, advice with times, bench under load and against onnxruntime.
. "$(dirname "$0")/bed.sh"
seeds=$root/tests/fuzz/corpus

# ------------------------------------------------------------------ kernel bench: sure or not, and of a matrix in a file
run 0 "kernel bench" kernel bench --m 20 --n 64 --k 64 --time 0.01 --threads 1 --json
json "len(d['ratio_ci95']) == 2 and d['ratio_ci95'][0] <= d['ratio_to_dense'] <= d['ratio_ci95'][1] and d['noisy'] in (True, False) and d['dense']['median_us'] > 0" "kernel bench --json says how sure it is"
run 0 "kernel bench for people" kernel bench --m 20 --n 64 --k 64 --time 0.01 --threads 1; has out "95 % interval" "kernel bench has an interval"
printf '%%%%MatrixMarket matrix coordinate real general\n8 6 7\n1 1 2\n2 3 1\n3 2 1\n4 6 1\n5 1 -4\n7 5 1\n8 4 3\n' > w.mtx
run 0 "kernel bench of a matrix" kernel bench --weight w.mtx --m 20 --target portable --time 0.001 --json
json "d['n'] == 8 and d['k'] == 6 and d['nnz'] == 7 and d['pattern'] == '1x1' and abs(d['sparsity'] - 41 / 48) < 1e-6" "its size and what is in it are the file's"
for format in csr "strip(4)" "quads(128)" "hyb(1,2)"; do
    run 0 "kernel bench of $format" kernel bench --weight w.mtx --format "$format" --limit 10 --m 20 --target portable --time 0.001 --json
    json "d['nnz'] == 7 and d['format'] and d['stored_bytes'] >= 28 and d['implement'] == {'s': 'strip4', 'q': 'quads'}.get('$format'[0], 'walk')" "kernel bench runs $format"
done
run 5 "kernel bench past the limit" kernel bench --weight w.mtx --format "bsr(4,4)" --time 0.001; complains "kernel bench past the limit"
run 2 "kernel bench of a wrong format" kernel bench --weight w.mtx --format csrr; complains "kernel bench of a wrong format"
run 2 "kernel bench of a matrix and --n" kernel bench --weight w.mtx --n 8; has err "--n" "which the file says"
run 1 "kernel bench of a missing matrix" kernel bench --weight missing.npy
run 1 "kernel bench of what is no matrix" kernel bench --weight /dev/null; complains "kernel bench of what is no matrix"
run 0 "format pack" format pack w.mtx --format csr -o w.npz
run 0 "kernel bench of a packed matrix" kernel bench --weight w.npz --m 20 --target portable --time 0.001; has out "stored as" "says how it is stored"
run 0 "format unpack" format unpack w.npz -o w.npy
run 0 "kernel bench of an array" kernel bench --weight w.npy --pattern w.npy --m 4,20 --target portable --time 0.001 --table csv; has out "4,8,6,w.npy" "sweeps like others"

# ------------------------------------------------------------------ bench: several sessions at a time
run 0 "zoo mlp" zoo mlp -o mlp.onnx
run 0 "bench --concurrency" bench mlp.onnx --no-measure --concurrency 3 --time 0.2 --json
json "d['concurrency'] == 3 and d['threads'] >= 1 and d['subject']['runs'] >= 15 and 0 < d['subject']['median_ms'] <= d['subject']['p99_ms'] and d['subject']['items_per_s'] > 0 and d['ratio_ci95'][0] <= d['ratio'] <= d['ratio_ci95'][1]" "latency and throughput of three sessions"
run 0 "bench --concurrency for people" bench mlp.onnx --no-measure --no-baseline --concurrency 1,2 --threads 1 --time 0.05 --table csv; has out "concurrency=2" "--concurrency sweeps"
run 2 "bench --concurrency by iterations" bench mlp.onnx --concurrency 2 --iterations 5; complains "bench --concurrency by iterations"

# ------------------------------------------------------------------ bench and what-if on given inputs
run 0 "inputs of three items" run mlp.onnx --batch 3 --output-dir in3
run 0 "bench --input" bench mlp.onnx --no-measure --no-baseline --input x=in3/x.npy --iterations 2 --json
json "d['sizes'] == {'batch': 3} and d['complete'] and d['subject']['runs'] == 2" "they say the sizes"
run 0 "bench --input of both" bench mlp.onnx --against mlp.onnx --no-measure --input x=random:0:1 --batch 2 --iterations 5 --warmup 0 --json; json "d['sizes'] == {'batch': 2} and d['ratio'] > 0" "ranges are known, and sizes that --batch says"
run 2 "an input of another size than --batch" bench mlp.onnx --no-measure --input x=in3/x.npy --batch 2; complains "an input of another size"
run 2 "an input that the model has not" bench mlp.onnx --no-measure --input y=in3/x.npy; has err "it has 'x'" "says which it has"
run 1 "an input from a missing file" bench mlp.onnx --no-measure --input x=missing.npy; complains "an input from a missing file"
run 2 "an input without --what-if" inspect mlp.onnx --input x=in3/x.npy; has err "--what-if" "says what it is for"
run 0 "what-if on given inputs" inspect mlp.onnx --what-if 4x1:0.9 --input x=in3/x.npy --time 0.01 --target portable --json
json "d['what_if_at']['sizes'] == {'batch': 3}" "they say its sizes, too"

# ------------------------------------------------------------------ a bench that is interrupted says what it has
# cut ARGS...: it is interrupted once it has said that it measures, which it says after the first run; the exit code in `got`
cut() {
    rm -f err
    "$S" "$@" --progress plain > out 2> err < /dev/null & job=$!
    says err ": measuring" $job; kill -INT $job; wait $job; got=$?
}
cut bench mlp.onnx --no-measure --time 3600 --json
if [ $got = 130 ]; then good "Ctrl-C ends a bench"; else bad "Ctrl-C ends a bench (exit $got)"; fi
json "d['complete'] is False and d['subject']['runs'] > 0 and d['subject']['median_ms'] > 0" "and it says what was measured"
cut bench mlp.onnx --no-measure --time 3600 --batch 1,8
has out "interrupted" "and that it is not all"; has out "median_ms" "in its table"
if [ $got = 130 ]; then good "Ctrl-C ends a sweep"; else bad "Ctrl-C ends a sweep (exit $got)"; fi
cut bench mlp.onnx --no-measure --time 3600 --profile
has out "median_ms" "the times without layers, which come last"; hasnt out "baseline_ms" "and no table of nothing"
cut bench mlp.onnx --no-measure --time 3600 --profile --table csv
has out "point,median_ms" "the table of times where there is none of layers"
cut bench mlp.onnx --no-measure --no-baseline --time 3600 --concurrency 2 --table csv
has out "mlp.onnx," "and several sessions"
# Times go to a file behind that
timed() { : > out; mv t.json out; json "d['points'][-1]['subject_ms']" "$1"; }
cut bench mlp.onnx --no-measure --time 3600 --json --export-times t.json
json "d['complete'] is False and 'notes' in d" "an interrupted bench with --export-times is one object"; timed "and its times are written"
cut bench mlp.onnx --no-measure --time 3600 --table csv --export-times t.json
has out "mlp.onnx," "its table is printed"; timed "and its times are written"
cut bench mlp.onnx --no-measure --time 3600 --batch 1,8 --export-times t.json
has out "median_ms" "a sweep's too"; timed "and its times are written"
# A sweep of kernels: interrupted where its second point begins, hundreds before the last
cut_sweep() {
    rm -f err
    "$S" kernel bench --m "$(seq -s , 1 2000)" --n 64 --k 64 --time 0.01 --threads 1 "$@" --progress plain > out 2> err < /dev/null & job=$!
    says err "1 of 2000" $job; kill -INT $job; wait $job; got=$?
}
cut_sweep --json; json "1 <= len(d['runs']) < 2000 and d['runs'][0]['m'] == 1" "an interrupted sweep of kernels has what was measured"
if [ $got = 130 ]; then good "and is interrupted"; else bad "and is interrupted (exit $got)"; fi
cut_sweep; has out "median_us" "a table for people"; has out "interrupted" "which says that it is not all"
run 0 "a bench that takes its time" bench mlp.onnx --no-measure --no-baseline --tokens 128 --threads 1 --time 1.6 --progress plain; has err " s left: measuring" "says how long it still takes"
if [ "$(wc -l < err)" -le 20 ]; then good "and does not say every run"; else bad "and does not say every run ($(wc -l < err) lines)"; fi
run 0 "the same as JSON" bench mlp.onnx --no-measure --no-baseline --iterations 2 --progress json; has err '"seconds_left":' "has it as well"

# ------------------------------------------------------------------ how far it is, where more turns up on the way
told() { (echo '['; grep '^{' err | sed 's/$/,/'; echo '{"done":1e9,"seconds_left":null}]') > out; }
run 0 "what-if tells how far it is" inspect mlp.onnx --what-if 4x1:0.9,2:4 --time 0.01 --target portable --cache none --progress json; told
json "len(d) > 3 and all(a['done'] <= b['done'] for a, b in zip(d, d[1:])) and len({a['all'] for a in d[:-1]}) == 1" "it never falls back"
run 0 "compile tells how far it is" compile mlp.onnx --target portable --cache none --progress json -o p.sparta; told
json "len(d) > 3 and all(a['done'] <= b['done'] for a, b in zip(d, d[1:])) and all(a['seconds_left'] is None for a in d)" "and not how long, as more may turn up"

# ------------------------------------------------------------------ bench --against onnxruntime, played by a shell script that misbehaves
mkdir tmp; export TMPDIR="$T/tmp"
peer() { printf '#!/bin/sh\n%s\n' "$1" > python; chmod +x python; export SPARTA_PYTHON="$T/python"; }
against="bench mlp.onnx --no-measure --against onnxruntime --iterations 2 --warmup 0"
peer 'echo missing'; run 4 "bench against no onnxruntime" $against; has err "pip install onnxruntime" "says what to install"; complains "bench against no onnxruntime"
run 4 "bench against no openvino" bench mlp.onnx --no-measure --against openvino; has err "pip install openvino" "says what to install"; complains "bench against no openvino"
export SPARTA_PYTHON="$T/nowhere"; run 4 "bench against no Python" $against
run 2 "a library in other letters" bench mlp.onnx --no-measure --against OpenVINO; has err "did you mean openvino" "is guessed"
run 2 "--model without a library" bench mlp.onnx --no-measure --model mlp.onnx; has err "leave --model out" "is not passed over"
peer 'echo hello'; run 1 "a peer that is no Python" $against; complains "a peer that is no Python"
peer 'exit 1'; run 1 "a peer that dies" $against; complains "a peer that dies"
peer 'echo "ImportError: \033[31mno such thing" >&2; exit 1'; run 1 "a peer that dies with a word" $against; has err "no such thing" "its last word is said"; hasnt err "$(printf '\033')" "without its colours"
peer 'yes | tr -d "\n"'; run 1 "a peer without an end" $against; has err "says too much" "is stopped"
for answer in nonsense -1 nan inf 1e400 ""; do
    peer "echo ready 9; while read line; do echo '$answer'; done"; run 1 "a peer that answers '$answer'" $against; complains "a peer that answers '$answer'"
done
peer 'echo ready 9; while read line; do echo 0.001; done'; run 1 "a peer that saves nothing" $against
peer 'echo ready 9; echo 0.001; exit 0'; run 1 "a peer that leaves" $against
run 0 "compile" compile mlp.onnx --no-measure -o mlp.sparta
run 2 "a package against onnxruntime" bench mlp.sparta --against onnxruntime; has err "--model" "says how to name its model"
peer 'echo $$ > pid; sleep 1000'
timeout --foreground 600 "$S" $against > out 2> err & job=$! # --foreground: one signal, not a second one to the group, which kills at once
until [ -s pid ] || ! kill -0 $job 2> /dev/null; do sleep 0.1; done
kill -INT $job # timeout passes it on
wait $job; if [ $? = 130 ]; then good "Ctrl-C ends a bench that waits"; else bad "Ctrl-C ends a bench that waits"; fi
if kill -0 "$(cat pid)" 2> /dev/null; then bad "and its peer"; else good "and its peer"; fi
if [ -z "$(ls tmp)" ]; then good "nothing is left in TMPDIR"; else bad "nothing is left in TMPDIR"; fi

# ------------------------------------------------------------------ the libraries themselves, where a Python has them
export TMPDIR="$T/tmp"
for library in onnxruntime openvino; do
    python=
    for p in "$root/.venv/bin/python" python3; do
        if [ -z "$python" ] && "$p" -c "import numpy, $library" 2> /dev/null; then python=$p; fi
    done
    if [ -z "$python" ]; then skip "no Python with $library: bench --against $library is not run"; continue; fi
    export SPARTA_PYTHON="$python"
    run 0 "bench --against $library" bench mlp.sparta --model mlp.onnx --against $library --batch 5 --threads 1 --iterations 3 --warmup 0 --json
    json "d['answers_agree'] is True and d['baseline']['name'].startswith('$library ') and d['baseline']['runs'] == 3" "it gives the same answer"
done
finish
