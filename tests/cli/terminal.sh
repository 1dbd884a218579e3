#!/bin/sh
# Names out of files reach the terminal as text: nothing moves the cursor, colours it or makes a line of its own. And what a pipe on
# either side does. Usage: tests/cli/terminal.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"

# A model whose names are changed, byte for byte, to others of the same length: a colour, a new line, C1 as a byte and as UTF-8, a turn of direction.
evil() { LC_ALL=C sed "s/$1/$(printf "$2")/g" m.onnx > evil.onnx; }
# harmless FILE NAME: only printable ASCII, new lines and whole UTF-8 characters that are no controls
harmless() {
    if LC_ALL=C grep -qE "$(printf '[\001-\011\013-\037\177]')" "$1" || LC_ALL=C grep -q "$(printf '\302[\200-\237]')" "$1" ||
        LC_ALL=C grep -q "$(printf '\342\200\256')" "$1" || LC_ALL=C grep -qE "$(printf '(^|[^\302-\364\200-\277])[\200-\277]')" "$1"; then bad "$2"; else good "$2"; fi
}
run 0 "a model" zoo mlp -o m.onnx
run 0 "and its package" compile m.onnx --no-measure --target portable -o m.sparta
mkdir -p d
n=0
for name in '\033[31m' '\\\nspa:' '\302\233311' '\2331;mm' '\342\200\256xx'; do
    n=$((n + 1))
    for what in batch logit; do # a symbol; an output
        evil $what "$name"
        cmp -s m.onnx evil.onnx && bad "$what is a name of the model"
        for line in "inspect evil.onnx" "propagate evil.onnx -o p.onnx" "run evil.onnx --output-dir d" "run evil.onnx --input q=random --output-dir d" \
            "verify evil.onnx --against evil.onnx" "compile evil.onnx --no-measure --target portable -o e.sparta" "verify evil.onnx --against m.onnx" \
            "inspect evil.onnx --table csv" "inspect evil.onnx --json"; do
            "$S" $line > out 2> err < /dev/null
            lines=$(cat out err | grep -c '^spa:')
            cat out err > both
            harmless both "$line with $what as name $n"
            [ "$lines" = 0 ] || bad "$line: a name makes a line of its own"
        done
    done
done

# ------------------------------------------------------------------ pipes
{ "$S" zoo; echo $? > code; } 2> err | :
if [ "$(cat code)" = 0 ] && [ ! -s err ]; then good "a reader that has gone is no error"; else bad "a reader that has gone is no error"; fi
if command -v bash > /dev/null; then
    printf 'tensor "*" { sparsify magnitude(pattern=4x1, sparsity=0.5); }\n' > s.sched
    for verb in "inspect m.onnx" "compile m.onnx --no-measure --target portable -o s.sparta" "verify s.sparta --against m.onnx"; do
        if bash -c '"$0" $1 --schedule <(cat s.sched)' "$S" "$verb" > out 2> err; then good "${verb%% *} reads a schedule from a pipe"
        else bad "${verb%% *} reads a schedule from a pipe"; fi
    done
    has out "the answers are the same" "the model of verify is pruned by it"
    if bash -c '"$0" inspect m.onnx --schedule <(echo tensor)' "$S" > out 2> err; then bad "a wrong schedule in a pipe is refused"; else good "a wrong schedule in a pipe is refused"; fi
fi

mkfifo never
timeout 600 "$S" inspect m.onnx --schedule never > out 2> err & job=$!
while sleep 0.2; kill -INT $job 2> /dev/null; do :; done # the first one may come too early to be noticed
wait $job; if [ $? = 130 ]; then good "Ctrl-C ends the wait for a pipe"; else bad "Ctrl-C ends the wait for a pipe"; fi

# ------------------------------------------------------------------ inputs in one file
run 0 "inputs are made" run m.sparta --batch 1 --output-dir a
{ printf '\100\000\000\000\000\000\000\000%-64s' '{"x":{"dtype":"F32","shape":[1,784],"data_offsets":[0,3136]}}'; tail -c 3136 a/x.npy; } > in.safetensors
run 0 "run --inputs" run m.sparta --inputs in.safetensors --output-dir b
if cmp -s a/logits.npy b/logits.npy; then good "gives the same answer"; else bad "gives the same answer"; fi
gone b/x.npy "what is given is not written"
run 0 "verify --inputs" verify m.sparta --against m.onnx --inputs in.safetensors
run 2 "--inputs and --input of the same" run m.sparta --inputs in.safetensors --input x=random --output-dir b; complains "both"
sed 's/{"x"/{"y"/' in.safetensors > wrong.safetensors
run 2 "--inputs with an array of another name" run m.sparta --inputs wrong.safetensors --output-dir b; complains "another name"
if command -v python3 > /dev/null; then
    python3 -c "
import zipfile
with zipfile.ZipFile('in.npz', 'w') as z: z.write('a/x.npy', 'x.npy')"
    run 0 "run --inputs of an npz" run m.sparta --inputs in.npz --output-dir c
    if cmp -s a/logits.npy c/logits.npy; then good "gives the same answer, too"; else bad "gives the same answer, too"; fi
fi

# ------------------------------------------------------------------ files that are no ONNX
# tell FILE TEXT: compile says what FILE is
tell() { run 4 "compile $1" compile "$1" -o x.sparta; complains "$1"; has err "$2" "$1: says what it is"; }
printf 'PK\003\004................model/data.pkl.........' > a.pt; tell a.pt "torch.onnx.export(module.eval()"
printf 'PK\003\004.......m/data.pkl......m/constants.pkl.' > b.pt; tell b.pt "torch.jit.load"
printf 'PK\003\004.......serialized_exported_program.json' > c.pt2; tell c.pt2 "export it again with PyTorch 2.10 or later"
printf '\200\002\212\nl\374\234F\371 j\250P\031.' > d.pth; tell d.pth "torch.save"
printf '\020\000\000\000\000\000\000\000{"a":1}         ' > e.safetensors; tell e.safetensors "safetensors"
printf '\211HDF\r\n\032\n........' > f.h5; tell f.h5 "tf2onnx.convert --keras"
printf '\034\000\000\000TFL3........' > g.tflite; tell g.tflite "tf2onnx.convert --tflite"
printf 'GGUF\003\000\000\000........' > h.gguf; tell h.gguf "llama.cpp"
tell m.sparta "a compiled package already"
run 1 "what nobody knows" compile "$0" -o x.sparta; complains "what nobody knows"
finish
