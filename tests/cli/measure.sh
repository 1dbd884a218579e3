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

finish
