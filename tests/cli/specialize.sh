#!/bin/sh
# sparta specialize: a sub-graph's text in; its plan, kernels and constants out, for other compilers.
. "$(dirname "$0")/bed.sh"

cat > layer.txt <<'END'
graph "layer"
input x: f32[batch,8]
const w: f32[8,6] @"w"
node m: ? = MatMul(x, w) "up"
node y: ? = Relu(m) "relu"
output y
END
# A file of weights without NumPy: the header of safetensors, then 48 floats, of which every fourth is 1.
weights() { # FILE NAME ELEMENTS SHAPE
    python3 - "$@" <<'END'
import json, struct, sys
path, name, n, shape = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
head = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * n]}}).encode()
data = struct.pack("<%df" % n, *[float(i % 4 == 0) for i in range(n)])
open(path, "wb").write(struct.pack("<Q", len(head)) + head + data)
END
}
if command -v python3 > /dev/null; then
    weights w.safetensors w 48 "[8,6]"
    weights m.safetensors w 48 "[8,6]"
    run 0 "specialize" specialize layer.txt --weights w.safetensors --dim batch=3 --format w=csr --target portable -o made --json
    json "d['schema'] == 'sparta.specialize/1' and d['code'][0]['checked'] and d['steps'][0]['op'] == 'Linear'" "says what it made"
    json "[v['format'] for v in d['values'] if v['name'] == 'w'] == ['(i,j)->(i:dense, j:compressed)']" "and how values are stored"
    for file in plan.json graph.txt weights.bin kernels_portable.c kernels_portable.so; do
        if [ -s "made/$file" ]; then good "writes $file"; else bad "writes $file"; fi
    done
    if python3 -c "
import json
p = json.load(open('made/plan.json'))
a = p['steps'][0]['arguments']
size = len(open('made/weights.bin', 'rb').read())
assert p['schema'] == 'sparta.specialized/1' and p['steps'][0]['symbol'] == 'sparta_step_0'
assert [x['array'] for x in a] == ['values', 'values', 'p0_l1_pos', 'p0_l1_crd', 'p0_values'], a
assert all(x['offset'] % 64 == 0 and x['offset'] + 4 * x['elements'] <= size for x in a if x['role'] == 'constant')
assert a[-1]['elements'] == 12"; then good "the plan is JSON that says where all is"; else bad "the plan is JSON that says where all is"; fi
    if [ -x /usr/bin/cc ]; then
        if /usr/bin/cc -std=gnu11 -O1 -c made/kernels_portable.c -o kernels.o 2> err; then good "a compiler takes the text as it is"; else bad "a compiler takes the text as it is"; fi
    fi
    run 0 "with masks" specialize layer.txt --weights w.safetensors --tesa m.safetensors --dim batch=3 -o masked; has out "compared with the references" "checks them"
    run 2 "a size that nobody says" specialize layer.txt --weights w.safetensors -o none; complains "a size that nobody says"
    run 2 "a format of nobody" specialize layer.txt --weights w.safetensors --dim batch=3 --format q=csr -o none; has err "no such value" "is refused by its name"
    run 2 "a format without a value" specialize layer.txt --weights w.safetensors --dim batch=3 --format csr -o none; complains "a format without a value"
    run 2 "a value that was fused away" specialize layer.txt --weights w.safetensors --dim batch=3 --format m=csr -o none; has err "fused away" "is refused by its name"
    run 2 "a target of nobody" specialize layer.txt --weights w.safetensors --dim batch=3 --target avx3 -o none; complains "a target of nobody"
    run 1 "masks of another shape" specialize layer.txt --weights w.safetensors --tesa w.npz --dim batch=3 -o none; complains "masks that are not there"
    printf 'graph "g"\ninput p: f32[3,4]\nconst a: i64[1] = [1]\nnode y: ? = CumSum(p, a) "c"\noutput y\n' > sums.txt
    run 4 "an operator without a kernel" specialize sums.txt -o none; has err "CumSum" "is refused by its name"
fi
run 2 "constants that nobody gives" specialize layer.txt --dim batch=3 -o none; has err "nothing is given" "are asked for"
run 2 "specialize without a folder" specialize layer.txt; has err "-o DIR" "asks for one"
run 1 "a graph that is not there" specialize absent.txt -o none; complains "a graph that is not there"
printf 'graph "g\0' > bad.txt
run 1 "bytes that are no text" specialize bad.txt -o none; complains "bytes that are no text"
printf 'graph\n' > bad.txt
run 1 "a text that is no graph" specialize bad.txt -o none; complains "a text that is no graph"
if [ -e none ]; then bad "what is refused writes nothing"; else good "what is refused writes nothing"; fi
finish
