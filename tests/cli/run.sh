#!/bin/sh
# The surface as users meet it: verbs, exit codes, messages, JSON. Usage: tests/cli/run.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"

# ------------------------------------------------------------------ help, version, man, completion
run 0 "--version" --version
has out "sparta 0." "--version names it"
run 0 "--help" --help
cp out help
run 0 "nothing"; if cmp -s out help; then good "no word at all is --help"; else bad "no word at all is --help"; fi
for verb in zoo inspect propagate compile run verify bench kernel format doctor; do
    has out "  $verb " "--help lists $verb"
done
for verb in zoo inspect propagate compile run verify bench kernel format doctor; do
    run 0 "$verb --help" $verb --help
    has out "usage: sparta $verb" "$verb --help says how"
    has out "examples:" "$verb --help has examples"
    most=64
    [ $verb != kernel ] || most=84 # four jobs in one verb
    [ $verb != bench ] || most=72 # which compiles, too
    if [ "$(wc -l < out)" -le $most ] && [ "$(wc -L < out)" -le 80 ]; then good "$verb --help fits a screen"; else bad "$verb --help fits a screen"; fi
done
run 0 "help VERB" help bench
has out "usage: sparta bench" "help VERB is VERB --help"
run 0 "VERB -h" zoo -h
run 0 "--man" --man
has out ".TH SPARTA 1" "--man is a manual page"
has out "\\-\\-export\\-times" "--man has every flag"
if command -v man > /dev/null && command -v groff > /dev/null; then
    if man --warnings -l ./out 2>&1 > /dev/null | grep -q .; then bad "man reads it without warnings"; else good "man reads it without warnings"; fi
fi
run 0 "--completion bash" --completion bash
if command -v bash > /dev/null; then
    if bash -n out; then good "the completion is bash"; else bad "the completion is bash"; fi
    if bash -c '. ./out; COMP_WORDS=(sparta bench --pro); COMP_CWORD=2; _sparta; echo "${COMPREPLY[*]}"' | grep -q -- --profile; then
        good "the completion completes"; else bad "the completion completes"; fi
    # completes WORDS TEXT NAME: the last of these words becomes TEXT
    completes() {
        if bash -c '. ./out; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sparta; echo " ${COMPREPLY[*]} "' bash "$1" | grep -q -- " $2 "; then good "$3"; else bad "$3"; fi
    }
    completes "sparta zoo bert-m" bert-mini "the completion knows the models of the zoo"
    completes "sparta zoo llama-d" llama-decode "and all of them"
    completes "sparta kernel sh" show "and what kernel does"
    completes "sparta format adv" advise "and format"
    completes "sparta bench --sort ti" time "and choices"
    : > mini.onnx; completes "sparta inspect mini.on" mini.onnx "and files"
    completes "sparta kernel show mini.on" mini.onnx "also behind a word"
fi

# ------------------------------------------------------------------ wrong use
run 2 "no verb" --quiet; complains "no verb"
run 2 "unknown verb" bnech; complains "unknown verb"
has err "did you mean bench" "an unknown verb is guessed"
run 2 "help, nearly" hlep; has err "did you mean help" "and so is help"
run 2 "an operand where there is none" doctor x; complains "an operand where there is none"; has err "leave out \"x\"" "says which"
run 2 "unknown verb far from all" qqqqqqqqq; has err "--help" "an unknown verb far from all says where they are"
run 2 "unknown flag" bench x --treads 2; complains "unknown flag"
has err "did you mean --threads" "an unknown flag is guessed"
run 2 "flag of another verb" zoo --profile; complains "flag of another verb"
run 2 "flag without its value" zoo mlp -o; complains "flag without its value"
run 2 "value for a flag without" zoo --json=1
run 2 "unknown letter" zoo -x
run 2 "number that is none" bench x --threads two; has err "whole number" "a number that is none says what to give"
run 2 "nine lists" bench x --no-baseline --dim a=1,2 --dim b=1,2 --dim c=1,2 --dim d=1,2 --dim e=1,2 --dim f=1,2 --dim g=1,2 --batch 1,2 --threads 1,2; has err "more than 8 flags" "nine lists are too many, and none is passed over"
run 2 "number out of range" bench x --threads 0
run 2 "number with a tail" bench x --threads 2x
run 2 "choice that is none" zoo --table html; has err "md|csv|json|jsonl" "a choice that is none lists them"
run 2 "size that is none" zoo --max-memory lots
run 2 "operand missing" inspect; complains "operand missing"
run 2 "operand too many" inspect a b; complains "operand too many"
run 2 "wrong sparsity" zoo mlp --prune 4x1:1.5 -o x.onnx
run 2 "wrong pattern" zoo mlp --prune 4y1 -o x.onnx; complains "wrong pattern"
run 2 "zoo without -o" zoo mlp; has err "-o" "zoo without -o says so"
run 2 "unknown model" zoo bert-bsae -o x.onnx; has err "bert-base" "an unknown model is guessed"
run 2 "unknown size" zoo mlp --dim depth=3 -o x.onnx
run 2 "--dim without =" zoo mlp --dim batch -o x.onnx
run 2 "run without --output-dir" run "$0"
run 2 "verify without --against" verify "$0"
run 2 "bench with --against and --no-baseline" bench x --against y --no-baseline
run 2 "kernel without bench" kernel dance; complains "kernel without bench"
run 2 "kernel bench of a package" kernel bench x.sparta; complains "kernel bench of a package"
for verb in tune quantize report; do
    run 4 "$verb is later" $verb x --any-flag; complains "$verb is later"
done
run 2 "a verb that nobody promised is none" serve x; complains "a verb that nobody promised"
run 0 "a verb to come has help" tune --help; has out "does not have it yet" "which says that it is to come"
run 2 "kernel run without an expression" kernel run
run 4 "kernel bench --dtype i8 is later" kernel bench --dtype i8
gone x.onnx "nothing was written by wrong calls"

# ------------------------------------------------------------------ errors as JSON
run 2 "an error with --json" zoo nothing -o x.onnx --json
json "d['error']['code'] == 'E_USAGE' and d['error']['where'] and d['error']['message'] and 'hint' in d['error']" "is an object on stdout"
has err "sparta: " "and still on stderr"
run 2 "a wrong flag with --json" bench --json --treads 2
json "d['error']['code'] == 'E_USAGE'" "is an object as well"
run 1 "a missing file with --json" inspect --json missing.onnx
json "d['error']['code'] == 'E_IO' and 'missing.onnx' in d['error']['where']" "says where"

# ------------------------------------------------------------------ zoo
run 0 "zoo lists" zoo; has out "bert-large" "zoo lists bert-large"; has out "dlrm" "zoo lists dlrm"
run 0 "zoo --json" zoo --json
json "[m['name'] for m in d['models']][:4] == ['mlp', 'bert-mini', 'bert-base', 'bert-large'] and d['schema'] == 'sparta.zoo/1'" "zoo --json lists them"
for form in md csv json jsonl; do run 0 "zoo --table $form" zoo --table $form; exists out "zoo --table $form is there"; done
SMALL="--dim layers=1 --dim hidden=32 --dim heads=2 --dim ffn=64 --dim vocab=50 --dim positions=24"
run 0 "zoo mlp" zoo mlp --prune 4x1:0.9 -o mlp.onnx; exists mlp.onnx "mlp.onnx is there"
run 0 "zoo bert" zoo bert-mini --prune 4x1:0.8 --seed 3 $SMALL -o bert.onnx
run 0 "zoo bert again" zoo bert-mini --prune 4x1:0.8 --seed 3 $SMALL -o bert2.onnx
if cmp -s bert.onnx bert2.onnx; then good "the same seed gives the same file"; else bad "the same seed gives the same file"; fi
run 0 "zoo with another seed" zoo bert-mini --prune 4x1:0.8 --seed 4 $SMALL -o bert4.onnx
if cmp -s bert.onnx bert4.onnx; then bad "another seed gives another file"; else good "another seed gives another file"; fi
run 0 "zoo dlrm" zoo dlrm --prune 16x4:0.85 --dim rows=20 --dim tables=6 --dim columns=32 -o dlrm.onnx; exists dlrm.onnx "dlrm.onnx is there"
run 0 "compile dlrm" compile dlrm.onnx -o dlrm.sparta
run 0 "inspect dlrm" inspect dlrm.sparta; has out "Interact 1" "the interaction is one node"; has out "Embed 6" "every table is looked up"; has out "16x4" "dlrm is pruned"
for n in 1 16 77; do run 0 "verify dlrm with $n items" verify dlrm.sparta --against dlrm.onnx --batch $n; has out "the same at batch=$n" "its answers are the same"; done
run 2 "dlrm with a wrong size" zoo dlrm --dim vocab=3 -o x.onnx; has err "rows tables columns" "a wrong size lists dlrm's"
run 0 "zoo --quiet" zoo mlp -q -o quiet.onnx
if [ -s out ] || [ -s err ]; then bad "--quiet is quiet"; else good "--quiet is quiet"; fi
run 1 "unwritable output" zoo mlp -o /nonexistent/folder/m.onnx; complains "unwritable output"
mkdir -p ro; chmod a-w ro
if [ "$(id -u)" != 0 ]; then run 1 "read-only folder" zoo mlp -o ro/m.onnx; complains "read-only folder"; fi
run 5 "a budget that is too small" zoo bert-base --max-memory 8M -o big.onnx; gone big.onnx "nothing was written past the budget"

# ------------------------------------------------------------------ inspect
run 0 "inspect" inspect bert.onnx; has out "4x1" "inspect finds the pattern"; has out "nothing to prune" "inspect gives reasons"
has out "at all of them; model: estimated" "inspect says what its times are"
if grep -q ' $' out; then bad "no line ends with spaces"; else good "no line ends with spaces"; fi
run 0 "inspect --table jsonl" inspect bert.onnx --table jsonl; grep Attention out | head -1 > one; mv one out
json "d['density'] is None and d['us'] is None and d['dense_us'] is None and d['source'] == ''" "a product of activations has no density and no time"
run 0 "inspect --check of a model" inspect bert.onnx --check; has err "note: bert.onnx: --check" "--check says that a model has no digests"
run 0 "inspect --json" inspect bert.onnx --json
json "d['schema'] == 'sparta.inspect/1' and d['nodes'] > 0 and d['parameters'] > 0 and d['bytes'] > 0 and sorted(d['symbols']) == ['batch', 'sequence']" "inspect --json has its fields"
json "all(set(l) >= {'name', 'op', 'shape', 'dtype', 'pattern', 'block', 'density', 'implement', 'reason'} for l in d['layers']) and d['layers']" "inspect --json has its layers"
json "d['bounds']['sequence'] == 24" "inspect knows the bound of the sequence"
json "all(l['source'] == ('model' if l['op'] == 'Linear' else None) for l in d['layers'])" "nothing was measured yet"
p=$(sed 's/.*"parameters":\([0-9]*\).*/\1/' out); run 0 "zoo counts parameters" zoo bert-mini $SMALL --json -o same.onnx
json "d['parameters'] == $p" "zoo and inspect count the same parameters"
run 1 "inspect a missing file" inspect missing.onnx; complains "missing file"
run 1 "inspect a folder" inspect ro; complains "folder"
: > empty; run 1 "inspect an empty file" inspect empty; complains "empty file"
echo "this is no model" > text; run 1 "inspect a text" inspect text; complains "text"
head -c 20000 bert.onnx > cut.onnx; run 1 "inspect half a model" inspect cut.onnx; complains "half a model"
seeds=$root/tests/fuzz/corpus
run 0 "inspect a safetensors" inspect "$seeds/fuzz_safetensors/reference.safetensors"; has out "7 arrays" "inspect counts the tensors"; has out "f16" "inspect shows their types"
run 0 "inspect a safetensors, json" inspect "$seeds/fuzz_safetensors/reference.safetensors" --json
json "{l['name']: l['shape'] for l in d['layers']}['w'] == [2, 3] and d['parameters'] == 16" "inspect --json has its tensors"
run 0 "inspect an mtx" inspect "$seeds/fuzz_mtx/real.mtx"; has out "a sparse matrix, 5 elements" "inspect counts the entries"; has out "4x6" "inspect shows the shape"
run 0 "inspect an smtx" inspect "$seeds/fuzz_mtx/dlmc.smtx" --json
json "d['kind'] == 'matrix' and d['layers'][0]['entries'] == 5 and abs(d['layers'][0]['density'] - 5 / 24) < 1e-6" "inspect --json has the matrix"
for file in torch.pt:w/data.pkl:torch.save script.pt:w/constants.pkl:TorchScript program.pt2:w/serialized_exported_program.json:torch.export other.zip:a.txt:"give the .onnx file"; do
    python3 -c 'import sys, zipfile
zipfile.ZipFile(sys.argv[1], "w").writestr(sys.argv[2], b"bytes")' "${file%%:*}" "$(echo "$file" | cut -d: -f2)"
    run 4 "inspect ${file%%:*}" inspect "${file%%:*}"; has err "${file##*:}" "inspect says what ${file%%:*} is"; complains "${file%%:*}"
done
run 0 "inspect a matrix of SciPy" inspect "$seeds/fuzz_npz/stored.npz"; has out "i8" "inspect reads SciPy's matrices"
printf '%%%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n' > bad.mtx
run 1 "inspect a bad mtx" inspect bad.mtx; has err "bad.mtx: line 3: the column 3 is not between 1 and 2" "the line is named"
printf '%%%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 2 3\n' > complex.mtx
run 4 "inspect a complex mtx" inspect complex.mtx; complains "complex mtx"; has err "imaginary part is 3" "and says why"
printf '\3\0\0\0\0\0\0\0{} xx' > bad.safetensors; run 1 "inspect a bad safetensors" inspect bad.safetensors; complains "bad safetensors"
if mkfifo pipe 2> /dev/null; then run 1 "inspect a pipe" inspect pipe; complains "pipe"; fi

# ------------------------------------------------------------------ inspect --what-if
run 0 "zoo of a tiny mlp" zoo mlp --dim inputs=64 --dim hidden1=32 --dim hidden2=24 -o tiny.onnx
cp tiny.onnx tiny.before
run 0 "what-if" inspect tiny.onnx --what-if 4x1:0.9,32x32:0.5,2:4 --time 0.02 --threads 1
has out "norm_kept is a proxy" "the norm is called a proxy"; has out "95 % interval" "the speed-up has its interval"
has out "break_even" "break-even is there"; has out "larger than the weight: not pruned" "a pattern that does not fit is said"
has out "do not divide the weight" "padding is said"
if cmp -s tiny.onnx tiny.before; then good "what-if leaves the model alone"; else bad "what-if leaves the model alone"; fi
run 0 "what-if, json" inspect tiny.onnx --what-if 4x1:0.9,32x32:0.5,2:4 --time 0.02 --threads 1 --json
json "d['schema'] == 'sparta.inspect/1' and [p['pattern'] for p in d['what_if']] == ['4x1:0.9', '32x32:0.5', '2:4'] and d['what_if_at']['complete']" "what-if --json has its patterns"
json "all(p['speedup'] > 0 and p['ci95'][0] <= p['ci95'][1] and 0 < p['norm_kept'] < 1 and p['bytes'] > 0 and p['dense_bytes'] > 0 and len(p['layers']) == 3 for p in d['what_if'])" "what-if --json has its fields"
json "d['what_if'][0]['sparsity'] >= 0.9 and abs(d['what_if'][2]['sparsity'] - 0.5) < 1e-6 and d['what_if'][1]['pruned'] == 1" "what-if says what was pruned"
json "len(d['what_if'][0]['break_even']) == 3 and all(b['source'] in ('measured', 'database') for b in d['what_if'][0]['break_even']) and not d['what_if'][2]['break_even']" "break-even by shape, measured"
run 0 "what-if, table" inspect tiny.onnx --what-if 2:4 --time 0.02 --table csv; has out "pattern,sparsity,speedup,from,to" "what-if is one table"
if [ "$(wc -l < out)" = 2 ]; then good "of one line a pattern"; else bad "of one line a pattern"; fi
run 0 "what-if without a value" inspect tiny.onnx --time 0.02 --table jsonl --what-if; has out '"16x4:0.9"' "asks for the usual patterns"
run 0 "what-if without a value, before a flag" inspect tiny.onnx --what-if --time 0.02 --quiet; has out '1x1:0.9' "the same"
run 0 "what-if of a package" compile tiny.onnx --no-measure -o tiny.sparta
run 0 "what-if of a package" inspect tiny.sparta --what-if 1x1:0.9 --batch 3 --time 0.02 --json; json "d['what_if_at']['sizes'] == {'batch': 3}" "at the sizes that were asked for"
run 0 "what-if for one item" inspect tiny.onnx --what-if 1x1:0.8 --dim batch=1 --time 0.02 --json; json "all(l['tokens'] == 1 for l in d['what_if'][0]['layers']) and any(l['implement'].startswith('few_') for l in d['what_if'][0]['layers']) and all(b['tokens'] == 1 for b in d['what_if'][0]['break_even'])" "is compiled for one: implements for few tokens take part"
for bad in , 4x1 4x1:0.9, 4x1:0.9,,2:4 x 4x1:1e400 4x1:nan 4x1:-1 4x1:0.9,4x1:0.9 0x1:0.5 2:4:0.5 %s%n 99999999x1:0.5 "4x1:0.9 2:4"; do
    run 2 "what-if $bad" inspect tiny.onnx --what-if "$bad" --time 0.02; complains "what-if $bad"
done
run 2 "what-if ''" inspect tiny.onnx --what-if ""; complains "what-if ''"
run 4 "what-if heads" inspect tiny.onnx --what-if heads:0.5; complains "what-if heads"
run 2 "what-if with a schedule" inspect tiny.onnx --what-if 2:4 --schedule x.sched; complains "what-if with a schedule"
run 2 "what-if of arrays" inspect "$seeds/fuzz_safetensors/reference.safetensors" --what-if 2:4; complains "what-if of arrays"
run 0 "--dim of a model" inspect tiny.onnx --dim batch=2
run 2 "--time without what-if" inspect tiny.onnx --time 1; complains "--time without what-if"
run 2 "what-if with an unknown size" inspect tiny.onnx --what-if 2:4 --dim nope=2; complains "what-if with an unknown size"
rm -f err
"$S" inspect tiny.onnx --what-if 4x1:0.9,2x1:0.9 --time 3 --threads 1 --json --progress json > out 2> err < /dev/null &
pid=$!
says err '"2x1:0.9' $pid
kill -INT $pid; wait $pid; got=$?
if [ $got = 130 ]; then good "what-if interrupted"; else bad "what-if interrupted (exit $got, not 130)"; fi
has err "what was measured so far is printed" "which is said"
json "[p['pattern'] for p in d['what_if']] == ['4x1:0.9'] and not d['what_if_at']['complete']" "and what was measured is there"

# ------------------------------------------------------------------ masks and weights that are odd
# mask FILE NAME N K BYTE: a safetensors of one mask, all BYTE
mask() {
    h="{\"$2\":{\"dtype\":\"U8\",\"shape\":[$3,$4],\"data_offsets\":[0,$(($3 * $4))]}}"
    { printf "\\$(printf %03o ${#h})\0\0\0\0\0\0\0%s" "$h"; head -c $(($3 * $4)) /dev/zero | tr '\0' "$5"; } > "$1"
}
mask near.safetensors fc1.weigth 32 64 '\001'; run 2 "a mask of a misspelt name" compile tiny.onnx --masks near.safetensors -o x.sparta
has err "did you mean 'fc1.weight'?" "says which would match"; complains "a mask of a misspelt name"
mask far.safetensors encoder 24 32 '\001'; run 2 "a mask of another name" compile tiny.onnx --masks far.safetensors -o x.sparta; has err "'fc2.weight' has that shape" "says which has its shape"
mask turned.safetensors fc1.weight 64 32 '\001'; run 2 "a mask that is turned" compile tiny.onnx --masks turned.safetensors -o x.sparta; has err "it is 64x32, the weight is 32x64; transpose it" "says so"
mask other.safetensors fc1.weight 24 32 '\001'; run 2 "a mask of another shape" compile tiny.onnx --masks other.safetensors -o x.sparta; has err "'fc2.weight' has that shape" "says which has it"
gone x.sparta "nothing was written"
mask zero.safetensors fc1.weight 32 64 '\000'; run 0 "a mask that is all zero" compile tiny.onnx --masks zero.safetensors -o zero.sparta; has err "keeps nothing of the weight" "is obeyed, and said"
run 0 "and verified" verify zero.sparta --against tiny.onnx --masks zero.safetensors
mask one.safetensors fc1.weight 32 64 '\001'; run 0 "a mask that is all one" compile tiny.onnx --masks one.safetensors -o one.sparta; has err "keeps all of the weight" "is obeyed, and said"
printf '\2\0\0\0\0\0\0\0{}' > none.safetensors; run 0 "a mask file without masks" compile tiny.onnx --masks none.safetensors --no-measure -o one.sparta; has err "there is no mask in it" "is said"
h='{"fc1.weight":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]},"fc1.weight":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}}'
printf "\\$(printf %03o ${#h})\0\0\0\0\0\0\0%sx" "$h" > twice.safetensors
run 1 "a mask file with a name twice" compile tiny.onnx --masks twice.safetensors -o x.sparta; has err "occurs twice" "says so"; complains "a name twice"
echo 'tensor "*" { sparsify magnitude(pattern=32x5, sparsity=0.5) }' > ragged.sched
run 0 "a pattern that does not divide the shape" compile tiny.onnx --schedule ragged.sched -o ragged.sparta; has err "32x5 does not divide a weight of 10x24" "is padded, and said"
# 16 bytes of 0xff are NaN however they lie
{ head -c 4000 tiny.onnx; head -c 16 /dev/zero | tr '\0' '\377'; tail -c +4017 tiny.onnx; } > nan.onnx
echo 'tensor "fc1.weight" { sparsify magnitude(pattern=1x1, sparsity=0.9) }' > one.sched
run 0 "NaN weights are pruned by magnitude" compile nan.onnx --schedule one.sched -o nan.sparta; has err "are NaN or Inf" "and said"
run 0 "what-if of NaN weights" inspect nan.onnx --what-if 1x1:0.9 --time 0.02 --json; json "0 < d['what_if'][0]['norm_kept'] < 1" "the norm is a number"
sed 's/fc1.weight/*/' one.sched > all.sched
run 3 "NaN that a sparse product skips" compile nan.onnx --schedule all.sched -o x.sparta; has err "--strict" "says what to do"; gone x.sparta "and writes nothing"
run 0 "which it does not with --strict" compile nan.onnx --schedule all.sched --strict -o nan.sparta

# ------------------------------------------------------------------ propagate
run 0 "a model with pruned rows" zoo mlp --dim inputs=64 --dim hidden1=32 --dim hidden2=24 --prune rows:0.5 -o rows.onnx
run 0 "propagate" propagate rows.onnx -o small.onnx; exists small.onnx "small.onnx is there"
has out "fc2.weight  24x32   12x16" "the table says before and after"; has out " M parameters, " "and what is left"
run 0 "the answer is the same" verify small.onnx --against rows.onnx
run 0 "propagate --json" propagate rows.onnx -o small.onnx --json
json "d['schema'] == 'sparta.propagate/1' and d['parameters_after'] < d['parameters_before'] and d['bytes_after'] < d['bytes_before']" "has its totals"
json "[(t['before'], t['after'], t['blocked_by']) for t in d['tensors'] if t['name'] == 'fc1.weight'] == [([32, 64], [16, 64], None)]" "and its tensors"
json "'values' not in d" "and no values unless asked"
json "d['cut_short'] is None" "and looked at all of it"
run 0 "propagate --multiple" propagate rows.onnx -o even.onnx --multiple 10 --json
json "[t['after'] for t in d['tensors'] if t['name'] == 'fc2.weight'] == [[20, 20]]" "keeps a multiple"
run 0 "the answer is the same, with a multiple" verify even.onnx --against rows.onnx
run 0 "a model with pruned convolutions" zoo mobilenet-v2 --dim image=32 --dim classes=10 --prune rows:0.6 -o convs.onnx
run 0 "odd channels" propagate convs.onnx -o odd-channels.onnx; has err "--multiple 8" "are said, with what helps"
run 0 "even channels" propagate convs.onnx -o even.onnx --multiple 8; hasnt err "--multiple" "are not"
run 2 "propagate --multiple 0" propagate rows.onnx -o x.onnx --multiple 0; complains "propagate --multiple 0"
run 0 "propagate --values" propagate rows.onnx -o small.onnx --json --values
json "any(v['precision'] == 'f32' and v['zeros'] + v['constants'] == 0.5 for v in d['values'])" "half of a value is known"
run 0 "propagate what is dense" propagate tiny.onnx -o same.onnx; has out "nothing could go: no whole channel" "says that nothing could go, and why"
run 0 "propagate --quiet" propagate rows.onnx -o small.onnx --quiet --table csv; hasnt out "parameters" "--quiet says less"
run 0 "propagate with masks" propagate tiny.onnx --masks zero.safetensors -o masked.onnx; has out "fc1.weight" "obeys them"
run 0 "and verified with them" verify masked.onnx --against tiny.onnx --masks zero.safetensors
run 3 "and not without" verify masked.onnx --against tiny.onnx
echo 'tensor "fc2.weight" { sparsify magnitude(pattern=rows, sparsity=0.5) }' > rows.sched
run 0 "propagate with a schedule" propagate tiny.onnx --schedule rows.sched -o scheduled.onnx --json
json "[t['after'] for t in d['tensors'] if t['name'] == 'fc2.weight'] == [[12, 32]]" "obeys it"
echo 'tensor "fc2.weight" { sparsify magnitude(pattern=rows, sparsity=0.5); format csr }' > pinned.sched
run 0 "a format that is pinned" propagate tiny.onnx --schedule pinned.sched -o pinned.onnx --json
json "[t['after'] for t in d['tensors'] if t['name'] == 'fc2.weight'] == [[24, 32]]" "keeps its shape"
run 0 "propagate over its own input" propagate small.onnx -o small.onnx
run 0 "propagate --remove of channels" propagate tiny.onnx --remove fc1.weight=0,4-6 -o removed.onnx --json
json "[t['after'] for t in d['tensors'] if t['name'] == 'fc1.weight'] == [[28, 64]]" "removes them"
run 0 "verify --remove" verify removed.onnx --against tiny.onnx --remove fc1.weight=0,4-6
run 3 "verify without it" verify removed.onnx --against tiny.onnx
run 0 "compile --remove" compile tiny.onnx --remove fc1.weight=0,4-6 --no-measure -o removed.sparta; has out "parameters went" "says what went"
run 0 "which verifies" verify removed.sparta --against tiny.onnx --remove fc1.weight=0,4-6
run 0 "a small transformer" zoo bert-mini --dim layers=2 --dim vocab=100 -o heads.onnx
run 0 "propagate --remove of heads" propagate heads.onnx --remove layer.1.heads=1,3 -o fewer.onnx --json
json "[t['after'] for t in d['tensors'] if t['name'] == 'encoder.layer.1.attention.self.query.weight'] == [[256, 128]]" "removes them"
json "[t['after'] for t in d['tensors'] if t['name'] == 'encoder.layer.0.attention.self.query.weight'] == [[256, 256]]" "and no others"
run 0 "which verifies" verify fewer.onnx --against heads.onnx --remove layer.1.heads=1,3
held="encoder.layer.0.attention.self.value.weight keeps 64 zero outputs of 256, because MatMul '/encoder/layer.0/attention/self/MatMul_1' gets a constant for them that is not 0: make 'encoder.layer.0.attention.self.value.bias' 0 there too"
run 0 "zeros that are held" propagate heads.onnx --remove encoder.layer.0.attention.self.value.weight=0-63 -o held.onnx
has out "$held" "says how many, who holds them and what to do"; has out "nothing could go: the zeros in the weights are held" "and that nothing went"
run 0 "zeros that are held, as a table" propagate heads.onnx --remove encoder.layer.0.attention.self.value.weight=0-63 -o held.onnx --table csv
has out "tensor,before,after,blocked_by" "the table has who holds them"; has out "keeps 64 zero outputs of 256" "and how many"
run 0 "a decoder with a cache" zoo llama-decode --dim layers=2 --dim vocab=100 -o cache.onnx
run 0 "which compiles, also for one token" compile cache.onnx --tokens 1 -o cache.sparta
run 0 "its attention" inspect cache.sparta --json
json "[l['implement'] for l in d['layers'] if l['op'] == 'Attention'] == ['attention_rows'] * 2" "reads the cache as it lies"
run 0 "its answers for one token" verify cache.sparta --against cache.onnx --dim past=37 --dim sequence=1
run 0 "its answers for several" verify cache.sparta --against cache.onnx --dim batch=2 --dim past=5 --dim sequence=19
run 0 "a decoder with Attention of ONNX" zoo llama-mini --dim layers=2 --dim vocab=100 -o gqa.onnx
run 0 "heads of Attention" propagate gqa.onnx --remove layers.1.heads=0-3 -o fewer.onnx --json
json "[t['after'] for t in d['tensors'] if t['name'].endswith('1.self_attn.k_proj.weight')] == [[256, 32]]" "go with their group"
run 0 "which verifies" verify fewer.onnx --against gqa.onnx --remove layers.1.heads=0-3
run 0 "heads that a weight before them names" propagate "$root/tests/fixtures/encoder-dynamo.onnx" --remove second.heads=1 -o fewer.onnx --json
json "d['parameters_after'] < d['parameters_before']" "are found, where nodes have numbers"
run 0 "which verifies" verify fewer.onnx --against "$root/tests/fixtures/encoder-dynamo.onnx" --remove second.heads=1
# deny CODE REQUEST MESSAGE
deny() {
    run "$1" "--remove $2" propagate heads.onnx --remove "$2" -o x.onnx
    has err "$3" "which says: $3"; complains "--remove $2"
}
deny 2 layer.7.heads=1 "the nearest are '/encoder/layer.0/attention/self/Softmax'"
deny 2 layer.1.heads=4 "an index is past the end; give indices from 0 to 3"
deny 2 layer.1.heads=1,1 "an index is there twice"
deny 2 layer.1.heads=2-1 "a range ends before it begins"
deny 2 layer.1.heads=1- "a range has no end"
deny 2 layer.1.heads=one "the list of indices is not one"
deny 2 layer.1.heads=1, "the list of indices is not one"
deny 2 layer.1.heads=99999999999999999999 "the list of indices is not one"
deny 2 layer.1.heads= "expected PATH.heads=INDICES or WEIGHT=INDICES"
deny 2 heads "expected PATH.heads=INDICES or WEIGHT=INDICES"
deny 2 encoder.layer.1.output.dense.weigth=1 "did you mean 'encoder.layer.1.output.dense.weight'?"
deny 2 embeddings.LayerNorm.weight=1 "is no weight of a product"
run 2 "propagate without -o" propagate tiny.onnx; has err "-o OUT.onnx" "says what to give"; complains "propagate without -o"
run 2 "propagate with a flag of another verb" propagate tiny.onnx -o x.onnx --profile; complains "propagate with a flag of another verb"
run 2 "propagate with a mask that does not match" propagate tiny.onnx --masks far.safetensors -o x.onnx; complains "propagate with a mask that does not match"
run 1 "propagate what is not there" propagate nowhere.onnx -o x.onnx; complains "propagate what is not there"
run 1 "propagate what is no model" propagate "$0" -o x.onnx; complains "propagate what is no model"
run 1 "propagate into a folder that is not there" propagate tiny.onnx -o nowhere/x.onnx; complains "propagate into a folder that is not there"
LC_ALL=C sed 's/Relu/Rela/g' tiny.onnx > odd.onnx
run 4 "propagate an operator that is not known" propagate odd.onnx -o x.onnx; has err "Rela" "says which"; complains "propagate an operator that is not known"
run 5 "propagate with too little memory" propagate heads.onnx --remove layer.1.heads=1 --max-memory 1M -o x.onnx; complains "propagate with too little memory"
gone x.onnx "nothing was written"

# ------------------------------------------------------------------ compile
run 0 "compile --dump list" compile bert.onnx --dump list; has out "linear " "names the passes"; has out "Attention from its products" "and says what they do"
run 0 "compile --dump linear" compile bert.onnx --dump linear; has out "sparta::Linear" "has what the pass made"; hasnt out "sparta::Attention" "and not what later ones do"
run 0 "compile --dump attention" compile bert.onnx --dump attention --json; json "'sparta::Attention' in d['text'] and d['pass'] == 'attention'" "as JSON too"
run 2 "compile --dump of no pass" compile bert.onnx --dump linaer; has err "did you mean 'linear'?" "guesses"; has err "attention, rows, cache, epilogue" "and lists them"
run 2 "compile --dump -o" compile bert.onnx --dump linear -o x.sparta; gone x.sparta "writes nothing"
run 0 "compile" compile bert.onnx -o bert.sparta; exists bert.sparta "bert.sparta is there"
run 0 "inspect what was measured" inspect bert.onnx --json
json "all((l['source'], l['us'] and l['us'] > 0) == (('database', True) if l['op'] == 'Linear' else (None, None)) for l in d['layers'])" "inspect has the times from the database"
run 0 "inspect the package" inspect bert.sparta --json
json "all(l['source'] == ('measured' if l['op'] == 'Linear' else None) for l in d['layers'])" "a package knows what compile measured"
if (ulimit -f 8; "$S" compile mlp.onnx --no-measure --cache none -o toobig.sparta > out 2> err; [ $? = 1 ]); then good "a file past its limit"; else bad "a file past its limit"; fi
has err "toobig.sparta: " "is an error with its name"; gone toobig.sparta "and leaves nothing"
run 0 "compile --json" compile mlp.onnx --json -o mlp.sparta
json "d['schema'] == 'sparta.compile/1' and d['layers'] and d['bytes'] > 0" "compile --json has its fields"
run 0 "compile --target portable --no-measure" compile mlp.onnx --target portable --no-measure -o portable.sparta
run 0 "compile without a compiler" compile bert.onnx --compiler none --cache none -o slow.sparta
run 0 "compile --dense" compile bert.onnx --dense -o dense.sparta
run 0 "compile with a fixed batch" compile bert.onnx --dim batch=2 -o two.sparta
run 0 "compile --progress plain" compile mlp.onnx --no-measure --progress plain -o p.sparta; has err " of " "progress is on stderr"
run 0 "compile --progress json" compile mlp.onnx --no-measure --progress json -o p.sparta; has err '{"done":' "progress as JSON"
run 2 "compile without -o" compile bert.onnx
run 2 "compile for an unknown target" compile bert.onnx --target z80 -o x.sparta
run 1 "compile with a schedule that is not there" compile bert.onnx --schedule nowhere.sched -o x.sparta; gone x.sparta "which writes nothing"
run 1 "compile a text" compile text -o x.sparta; complains "compile a text"
run 1 "compile half a model" compile cut.onnx -o x.sparta
run 1 "compile into nowhere" compile bert.onnx -o /nonexistent/x.sparta; complains "compile into nowhere"
gone x.sparta "nothing half-written"
run 0 "compile by the cost model" compile bert.onnx --no-measure -o model.sparta # times decide differently from run to run
run 0 "inspect a package" inspect model.sparta; has out "strip4" "inspect says what runs a layer"
run 0 "inspect --check" inspect bert.sparta --check; has out "digests" "inspect --check checks"

# ------------------------------------------------------------------ verify
run 0 "verify" verify bert.sparta --against bert.onnx; has out "last_hidden_state" "verify names outputs"
run 0 "verify --json" verify bert.sparta --against bert.onnx --json
json "d['ok'] is True and d['first_difference'] is None and d['outputs'][0]['cosine'] > 0.999 and {'name', 'max_abs', 'max_rel', 'cosine'} <= set(d['outputs'][0])" "verify --json has its fields"
for p in slow dense two; do run 0 "verify $p" verify $p.sparta --against bert.onnx; done
for p in mlp portable; do run 0 "verify $p" verify $p.sparta --against mlp.onnx; done
run 0 "verify with sizes" verify bert.sparta --against bert.onnx --dim sequence=24 --batch 3
run 0 "verify the other way round" verify bert.onnx --against bert.sparta
run 3 "verify models that differ" verify bert4.onnx --against bert.onnx; has err "first at" "verify says where they differ"
run 3 "verify a package that differs" verify bert.sparta --against bert4.onnx --json
json "d['ok'] is False and d['first_difference']" "verify --json says where they differ"
run 3 "verify says by how much" verify bert.onnx --against bert4.onnx; has err "is allowed, first at" "with what is allowed"
run 0 "verify says at which sizes" verify bert.sparta --against bert.onnx; has out "the same at batch=1 sequence=24; batch=5 sequence=7" "verify lists the sizes"
run 2 "verify with a symbol far from all" verify bert.sparta --against bert.onnx --dim qqq=3; has err "it has batch, sequence" "an unknown symbol lists those there are"
run 2 "verify with no size" verify bert.sparta --against bert.onnx --dim batch=0; has err "give 1 or more" "no size says what to give"
python3 -c 'import struct, sys
h = b"{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: (0, 784)}\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h)' none.npy
run 2 "verify on no items" verify mlp.sparta --against mlp.onnx --input x=none.npy; has err "nothing was compared" "that nothing was compared is said"; complains "verify on no items"
run 2 "compile for no items" compile mlp.onnx --dim batch=0 -o x.sparta; has err "leave the symbol open, then run takes 0 too" "a size of 0 is for run"
run 2 "verify models with other inputs" verify mlp.onnx --against bert.onnx
run 2 "verify with an unknown symbol" verify bert.sparta --against bert.onnx --dim seqence=3; has err "did you mean sequence" "an unknown symbol is guessed"
run 2 "verify past the bound" verify bert.sparta --against bert.onnx --dim sequence=25

# ------------------------------------------------------------------ run
run 0 "run a package" run bert.sparta --output-dir o1 --seed 5; exists o1/last_hidden_state.npy "the output is written"
exists o1/input_ids.npy "generated inputs are written too"
run 0 "run the model on the reference" run bert.onnx --output-dir o2 --seed 5
if cmp -s o1/input_ids.npy o2/input_ids.npy; then good "the same seed gives the same inputs"; else bad "the same seed gives the same inputs"; fi
run 0 "run with given inputs" run bert.sparta --output-dir o3 --input input_ids=o1/input_ids.npy --input attention_mask=o1/attention_mask.npy --input token_type_ids=o1/token_type_ids.npy
if cmp -s o1/last_hidden_state.npy o3/last_hidden_state.npy; then good "the same inputs give the same bytes"; else bad "the same inputs give the same bytes"; fi
gone o3/input_ids.npy "given inputs are not written"
run 0 "verify with given inputs" verify bert.sparta --against bert.onnx --input input_ids=o1/input_ids.npy --input attention_mask=o1/attention_mask.npy --input token_type_ids=o1/token_type_ids.npy
run 0 "run --json" run mlp.sparta --output-dir o4 --dim batch=3 --input x=random:0:1 --json
json "d['outputs'][0]['name'] == 'logits' and d['outputs'][0]['shape'] == [3, 10] and d['schema'] == 'sparta.run/1'" "run --json has its fields"
run 2 "run with an input missing" run bert.sparta --output-dir o5 --input input_ids=o1/input_ids.npy
has err "attention_mask" "names the missing ones"; has err "token_type_ids" "names all the missing ones"
run 2 "run with an unknown input" run bert.sparta --output-dir o5 --input input_idz=o1/input_ids.npy; has err "did you mean 'input_ids'" "an unknown input is guessed"
run 2 "run with a wrong range" run mlp.sparta --output-dir o5 --input x=random:1:0
run 1 "run with a missing file" run mlp.sparta --output-dir o5 --input x=missing.npy
run 1 "run with a file that is no array" run mlp.sparta --output-dir o5 --input x=text
run 1 "run with an input of another type" run mlp.sparta --output-dir o5 --input x=o1/input_ids.npy; complains "input of another type"
run 1 "run with ids out of the table" run bert.sparta --output-dir o5 --dim batch=1 --dim sequence=8 --input input_ids=random:50:60 --input attention_mask=random --input token_type_ids=random
complains "ids out of the table"
gone o5 "no output of runs that failed"
run 1 "run into a file" run mlp.sparta --dim batch=1 --output-dir text; complains "run into a file"

# ------------------------------------------------------------------ damaged packages
size=$(wc -c < bert.sparta)
head -c $((size / 2)) bert.sparta > half.sparta; run 1 "half a package" inspect half.sparta; complains "half a package"
head -c 100 bert.sparta > tiny.sparta; run 1 "the start of a package" run tiny.sparta --output-dir o6
flip() { # FILE OFFSET: another byte there
    cp bert.sparta "$1"
    byte=$(dd if=bert.sparta bs=1 skip="$2" count=1 2> /dev/null | od -An -tu1 | tr -d ' ')
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}
flip header.sparta 9; run 1 "a flipped byte in the header" run header.sparta --output-dir o6
flip plan.sparta 4200; run 1 "a flipped byte in the plan" run plan.sparta --output-dir o6
flip weights.sparta $((size - 200)); run 1 "a flipped byte in a weight" inspect weights.sparta --check; complains "flipped weight"
run 1 "verify finds it too" verify weights.sparta --against bert.onnx
gone o6 "nothing ran"

# ------------------------------------------------------------------ bench
run 0 "bench" bench bert.sparta --iterations 5 --threads 1; has out "the model as it was given, dense" "bench says against what"
has out "at batch=1 sequence=24, 1 thread" "bench says at which sizes"
run 0 "bench --quiet" bench bert.sparta --iterations 3 --threads 1 -q; has out "median_ms" "bench --quiet is the table alone"
run 0 "bench --profile" bench bert.sparta --iterations 5 --profile; has out "reason" "bench --profile has reasons"
has out "all layers: " "bench --profile sums the layers"; has out "Shape of input_ids" "a node without a name is called by what it reads"
if grep -q '^%[0-9]' out; then bad "no made-up name is shown"; else good "no made-up name is shown"; fi
run 0 "bench --json" bench bert.sparta --iterations 5 --profile --threads 1 --json --export-times times.json
json "d['schema'] == 'sparta.bench/1' and d['ratio'] > 0 and len(d['ratio_ci95']) == 2 and d['threads'] == 1 and d['isa'] and 0 < d['sparse_flop_share'] <= 1" "bench --json has its fields"
json "all(set(d[k]) >= {'name', 'median_ms', 'p90_ms', 'p99_ms', 'items_per_s'} for k in ('subject', 'baseline'))" "bench --json has its subjects"
json "all(set(l) >= {'name', 'op', 'ms', 'implement', 'gops_real', 'share_of_peak', 'reason', 'source'} for l in d['layers']) and d['layers']" "bench --json has its layers"
json "d['sizes'] == {'batch': 1, 'sequence': 24} and 0 < d['layers_ms'] <= d['profiled_ms'] * 1.05 and abs(d['layers_ms'] - sum(l['ms'] for l in d['layers'])) < 1e-6" "the times of the layers are those of the run"
json "all((l['density'] is not None) == (l['op'] == 'Linear') for l in d['layers'])" "only weights have a density"
json "all(l['baseline_ms'] is not None for l in d['layers'] if '/self/' not in l['name'])" "every layer that is the same in the given model has its baseline"
cp times.json out; json "len(d['points'][0]['subject_ms']) == 5 and len(d['points'][0]['baseline_ms']) == 5" "--export-times has every time"
run 0 "bench sweeps" bench bert.sparta --iterations 3 --batch 1,2 --threads 1,2 --json
json "[r['point'] for r in d['runs']] == ['batch=1 threads=1', 'batch=1 threads=2', 'batch=2 threads=1', 'batch=2 threads=2']" "a sweep has every combination"
run 0 "bench sweeps a size" bench bert.sparta --iterations 3 --dim sequence=5,24 --no-baseline --table csv; has out "sequence=24" "a sweep of sizes"
has out ",,,," "what was not measured is empty, not 0"
run 0 "bench --sort time" bench bert.sparta --iterations 5 --no-baseline --profile --sort time --json
json "[l['ms'] for l in d['layers']] == sorted((l['ms'] for l in d['layers']), reverse=True)" "the slowest layer comes first"
run 2 "bench --sort without --profile" bench bert.sparta --sort time; complains "bench --sort without --profile"
run 2 "bench --sort by something else" bench bert.sparta --profile --sort name; complains "bench --sort by something else"
run 0 "bench sweeps layers" bench bert.sparta --iterations 2 --batch 1,2 --no-baseline --profile --table csv
if [ "$(grep -c '^point,layer,op' out)" = 1 ] && grep -q '^batch=2,.*Linear' out; then good "as one table"; else bad "as one table"; fi
run 0 "bench compiled in memory" bench mlp.onnx --iterations 2 --no-measure --no-baseline --json
json "d['subject']['bytes'] > 400000" "counts the weights"
run 0 "bench of a model" bench mlp.onnx --iterations 3 --no-measure --no-baseline
run 0 "bench against a package" bench bert.sparta --against dense.sparta --iterations 3
run 2 "bench with a wrong list" bench bert.sparta --threads 1,two
run 2 "bench with an unknown symbol" bench bert.sparta --dim width=3
run 1 "bench of a missing file" bench missing.sparta
run 1 "bench of a text" bench text

# ------------------------------------------------------------------ kernel, format, doctor
run 0 "kernel bench" kernel bench --op matmul --m 70 --n 64 --k 64 --pattern 4x1 --sparsity 0.9 --dtype f32 --time 0.01 --json
json "set(d) >= {'median_us', 'best_us', 'nnz', 'gops_real', 'gops_dense_equivalent', 'peak_gops', 'share_of_peak', 'dense', 'ratio_to_dense', 'threads', 'implement', 'parameters'} and d['dense']['best_us'] > 0" "kernel bench --json has its fields"
run 0 "kernel bench sweeps" kernel bench --m 8 --n 16 --k 16 --sparsity 0.5,0.9 --time 0.01 --table md; has out "| 0.900 |" "kernel bench sweeps"
run 0 "kernel bench for people" kernel bench --m 8 --n 16 --k 16 --time 0.01 --threads 1; has out "matmul of 8 tokens, 16x16, 4x1 at sparsity 0.9" "kernel bench says what it timed"
run 0 "kernel bench of n:m" kernel bench --m 8 --n 16 --k 16 --pattern 2:4 --time 0.01 --json; json "d['sparsity'] == 0.5 and d['nnz'] == 128" "n:m has its own sparsity"
python3 -c 'import sys, zipfile, struct
h = b"{\x27descr\x27: \x27|b1\x27, \x27fortran_order\x27: False, \x27shape\x27: (8, 8), }".ljust(117) + b"\n"
zipfile.ZipFile(sys.argv[1], "w").writestr("w.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h + bytes([1, 0] * 32))' mask.npz
run 0 "kernel bench of a mask file" kernel bench --m 8 --n 8 --k 8 --pattern mask.npz --time 0.01 --json
json "d['sparsity'] == 0.5 and d['nnz'] == 32 and d['stored_bytes'] >= 128" "a mask file has its own sparsity"
run 1 "kernel bench of a mask of another shape" kernel bench --m 8 --n 8 --k 16 --pattern mask.npz --time 0.01
run 0 "kernel bench sweeps for people" kernel bench --m 8,9 --n 16 --k 16 --time 0.01
if [ "$(wc -l < out)" = 3 ]; then good "a sweep is a table and nothing else"; else bad "a sweep is a table and nothing else"; fi
run 2 "kernel bench of nothing" kernel bench --m 0
run 2 "kernel bench of a wrong pattern" kernel bench --pattern 4by1 --time 0.01
run 0 "format check" format check "csr"; has out "(i,j)->(i:dense, j:compressed)" "format check prints the canonical text"
run 0 "format check with a shape" format check "(i,j)->(i:dense, j:compressed)" --shape 4x4
run 2 "format check of a wrong text" format check "(i,j)->(i:dens, j:compressed)"; complains "format check of a wrong text"
run 2 "format check of a wrong shape" format check csr --shape 4y4
run 0 "format pack" format pack o4/logits.npy --format csr -o l.npz
has out "l.npz: (i,j)->" "format pack says what it wrote"
run 0 "format unpack" format unpack l.npz -o l.npy; has out "l.npy: f32 3x10" "format unpack says what it wrote"
if cmp -s o4/logits.npy l.npy; then good "unpack gives back what was packed"; else bad "unpack gives back what was packed"; fi
run 0 "format convert" format convert l.npz --to "bsr(2,2)" -o l2.npz
run 0 "format unpack again" format unpack l2.npz -o l2.npy
if cmp -s o4/logits.npy l2.npy; then good "convert keeps the values"; else bad "convert keeps the values"; fi
for kind in coo ell bitmap dia csc "bell(2,3)" "sr-bcrs(2,4)" "(i,j)->(i:dense, j:ragged)" "(i,j)->(i:dense, j:loose)" \
    "(i,j)->(i:compressed(nonunique), j:singleton(aos))" "(i,j)->(i:dense, j/4:dense, j%4:structured[4,4]), crd=u2" \
    "(i,j)->(j/8:dense, i:compressed, j%8/2:packed[auto](pad=zero), j%2:dense)"; do
    run 0 "format pack $kind" format pack o4/logits.npy --format "$kind" -o k.npz
    run 0 "format unpack $kind" format unpack k.npz -o k.npy
    if cmp -s o4/logits.npy k.npy; then good "$kind gives back what was packed"; else bad "$kind gives back what was packed"; fi
done
run 0 "format pack bitmap for its arrays" format pack o4/logits.npy --format bitmap -o k.npz
run 0 "inspect the arrays of a bitmap" inspect k.npz; has out "p0_l1_bits" "a bitmap has bits"; hasnt out "p0_l1_crd" "and no crd"
run 2 "format pack n:m of a dense array" format pack o4/logits.npy --format nm24 -o x.npz; has err "run a 2:4 sparsifier first" "which says what to do"; gone x.npz "which writes nothing"
run 2 "format pack into too narrow rows" format pack o4/logits.npy --format "(i,j)->(i:dense, j:packed[4])" -o x.npz; has err "row 0 has 10 entries, packed[4] holds 4; use packed[10]" "which says what would fit"
run 0 "format check of a sum" format check "sum{ rownnz<=4 -> (i,j)->(i:compressed, j:packed[4]); rest -> csr }"; has out "sum{rownnz<=4 -> (i,j)->(i:compressed, j:packed[4]); rest -> " "its canonical text"
run 2 "format check of a sum that is wrong" format check "sum{rownnz<=4 -> ell; rest -> csr"; complains "format check of a sum that is wrong"
run 0 "format check of an opaque format" format check "quads(16)"; has out "quads(16)" "its canonical text"
run 2 "format check with 9 sizes" format check csr --shape 1x1x1x1x1x1x1x1x1
run 2 "format check with an empty size" format check csr --shape 4x; complains "format check with an empty size"
run 2 "format check of a shape that does not fit" format check csr --shape 4x4x4; complains "format check of a shape that does not fit"
run 0 "format check --json" format check csr --json; json "d['schema'] == 'sparta.format/1' and d['format'] == '(i,j)->(i:dense, j:compressed)'" "format check --json has the text"
run 2 "format check of an impossible n:m" format check "(i,j)->(i:dense, j/8:dense, j%8:structured[2,4])"; has err "format:1:29: structured[2,4] needs level expression j%4, got j%8" "which names the column"
if command -v python3 > /dev/null; then
    python3 -c "
import struct
head = b\"{'descr': '<f4', 'fortran_order': False, 'shape': (16, 16), }\"
head += b' ' * (-(len(head) + 11) % 64) + b'\\n'
row = struct.pack('<16f', *range(1, 17)) + bytes(15 * 16 * 4)
open('arrow.npy', 'wb').write(b'\\x93NUMPY\\x01\\x00' + struct.pack('<H', len(head)) + head + row)"
    run 5 "format pack past the limit" format pack arrow.npy --format ell -o x.npz; has err "would store 16.0x the nonzeros (limit 4.0x; longest segment 16, mean 1.0)" "which says how much"; gone x.npz "past the limit nothing is written"
    run 0 "format pack with a higher limit" format pack arrow.npy --format ell --limit 16 -o x.npz
    run 0 "format stats past the limit" format stats arrow.npy --format ell --json; json "d['fill'] == 16 and d['crd_bytes'] == 1024 and d['levels'][1]['longest'] == 16" "stats has bytes by part and the longest segment"
    run 5 "format stats with a limit" format stats arrow.npy --format ell --limit 2
    run 0 "format pack dense formats whatever the fill" format pack arrow.npy --format vnni --limit 1 -o x.npz
fi
run 0 "format stats" format stats o4/logits.npy --format csr --json; json "d['slots'] == 30 and d['fill'] == 1" "format stats counts"
json "set(d) >= {'schema', 'format', 'dtype', 'shape', 'pattern', 'elements', 'slots', 'bytes', 'fill', 'pos_bytes', 'crd_bytes', 'value_bytes', 'levels', 'output'} and d['schema'] == 'sparta.format/1' and d['output'] is None" "format stats --json has its fields"
run 0 "format stats of a packed file" format stats l.npz --json; json "d['format'] == '(i,j)->(i:dense, j:compressed)' and d['bytes'] == 16 + 120 + 120" "says what is stored"
run 0 "format stats of a packed file, in another format" format stats l.npz --format coo --json; json "d['crd_bytes'] == 240" "says what would be"
run 2 "format stats without --format" format stats o4/logits.npy; has err "IN --format TEXT" "which says how"
run 0 "format stats --table" format stats o4/logits.npy --format csr --table csv; has out "format,elements,slots,bytes,pos_bytes,crd_bytes,value_bytes,fill" "format stats as a table"
run 0 "format pack a sum" format pack o4/logits.npy --format "sum{first(4) -> csr; rest -> coo}" -o sum.npz --json
json "[p['slots'] for p in d['parts']] == [12, 18] and d['slots'] == 30 and d['output'] == 'sum.npz'" "a sum tells its parts"
run 0 "format unpack a sum" format unpack sum.npz -o sum.npy
if cmp -s o4/logits.npy sum.npy; then good "a sum gives back what was packed"; else bad "a sum gives back what was packed"; fi
run 0 "inspect a packed file" inspect sum.npz; has out "a packed tensor, sum{first(4) ->" "inspect knows a packed tensor"
run 0 "inspect arrays" inspect l.npz; has out "p0_values" "inspect lists arrays"
run 0 "inspect an array" inspect o4/logits.npy --json; json "d['layers'][0]['shape'] == [3, 10]" "inspect knows its shape"
json "d['layers'][0]['block'] == ''" "a dense array has no block"
run 1 "format unpack of a text" format unpack text -o x.npy; has err "sparta format pack" "which says how to make one"
run 1 "format unpack of another npz" format unpack o4/logits.npy -o x.npy
run 1 "format pack of a model" format pack bert.onnx --format csr -o x.npz; has err "give a .npy" "which says what to give"
run 2 "format pack without --format" format pack o4/logits.npy -o x.npz
run 2 "format pack of nothing" format pack; has err "IN --format TEXT -o OUT.npz" "which says how"
run 2 "unpack writes npy and mtx" format unpack l.npz -o x.txt; has err ".npy and .mtx" "which says what it writes"; gone x.txt "and writes nothing"
run 0 "unpack to mtx" format unpack l.npz -o l.mtx; has l.mtx "%%MatrixMarket matrix coordinate real general" "a sparse matrix"
run 0 "pack the mtx again" format pack l.mtx --format coo -o l3.npz
run 0 "pattern to pattern" format pack "$seeds/fuzz_mtx/pattern.mtx" --format csr --limit 100 -o pat.npz; run 0 "unpack a pattern" format unpack pat.npz -o pat.mtx
has out "pattern 4x6" "which says so"; has pat.mtx "%%MatrixMarket matrix coordinate pattern general" "stays a pattern"
for kind in csr csc coo bsr dia stored; do run 0 "format pack SciPy's $kind" format pack "$seeds/fuzz_npz/$kind.npz" --format dcsr -o k.npz; done
run 0 "format pack of an smtx" format pack "$seeds/fuzz_mtx/dlmc.smtx" --format csr -o k.npz
run 2 "format pack of a file with several arrays" format pack "$seeds/fuzz_safetensors/reference.safetensors" --format csr -o none.npz; has err "holds 7 arrays; say which with --tensor" "which says what to do"; gone none.npz "and writes nothing"
run 0 "format pack --tensor" format pack "$seeds/fuzz_safetensors/reference.safetensors" --tensor w --format csr -o k.npz; has out "5 elements" "takes that one"
run 2 "format pack --tensor of none" format pack "$seeds/fuzz_safetensors/reference.safetensors" --tensor wx --format csr -o x.npz; complains "format pack --tensor of none"
run 4 "format pack of a scalar" format pack "$seeds/fuzz_safetensors/reference.safetensors" --tensor scalar --format csr -o x.npz; complains "format pack of a scalar"
run 0 "format pack --threads" format pack o4/logits.npy --format csr --threads 2 -o k.npz
if cmp -s l.npz k.npz; then good "threads do not change the file"; else bad "threads do not change the file"; fi
run 0 "format pack --progress" format pack o4/logits.npy --format csr --progress plain -o k.npz; has err "sparta: 2 of 4: packing" "tells where it is"
run 1 "format pack into nowhere" format pack o4/logits.npy --format csr -o /nonexistent/x.npz; complains "format pack into nowhere"
run 5 "format pack past the budget" format pack o4/logits.npy --format "(i,j)->(i/65536:dense, i%65536:dense, j/65536:dense, j%65536:dense)" --max-memory 16M -o big.npz; gone big.npz "past the budget nothing is written"
run 1 "format convert of an array" format convert o4/logits.npy --to csr -o x.npz; has err "sparta format pack" "which says how to make one"
run 2 "format convert without --to" format convert l.npz -o x.npz; has err "--to TEXT" "which says how"
run 2 "format convert to a wrong text" format convert l.npz --to "csrr" -o x.npz; has err "csr" "which guesses"
printf '# two of them\nformat fours = (i,j)->(i/4:dense, j:bitmap, i%%4:dense), pos=u16\nformat mixed = sum{first(2) -> fours; rest -> csr}\n' > my.formats
run 0 "--formats" format check mixed --formats my.formats; has out "sum{first(2) -> (i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16; rest -> " "formats of one's own"
run 0 "format pack with one's own" format pack o4/logits.npy --format fours --formats my.formats -o own.npz; run 0 "which unpacks without the file" format unpack own.npz -o own.npy
if cmp -s o4/logits.npy own.npy; then good "and gives back what was packed"; else bad "and gives back what was packed"; fi
printf 'format a = csr\nformat b = (i,j)->(i:dens, j:dense)\n' > wrong.formats
run 2 "a wrong file of formats" format check csr --formats wrong.formats; has err "wrong.formats:2:" "names the line"; complains "a wrong file of formats"
run 1 "no file of formats" format check csr --formats nowhere.formats; complains "no file of formats"
run 0 "a name is unknown without its file" format check csr; run 2 "a name of nowhere" format check fours; complains "a name of nowhere"
run 0 "inspect takes --formats" inspect bert.onnx --formats my.formats
run 2 "and refuses wrong ones" compile bert.onnx --formats wrong.formats -o x.sparta; gone x.sparta "before it compiles"
printf 'tensor "*output.dense.weight" {\n    format fours\n}\n' > own.sched
run 0 "a schedule uses --formats" inspect bert.onnx --formats my.formats --schedule own.sched --json; json "any(e['clause'] == 'format' for e in d['schedule'])" "a schedule knows the names"
run 2 "a schedule without them" inspect bert.onnx --schedule own.sched; has err "fours" "names what it lacks"
run 0 "format advise" format advise o4/logits.npy; has out "csr" "lists csr"; has out "dense" "lists dense"; has out "implement" "says what would run it"
run 0 "format advise --json" format advise o4/logits.npy --json
json "d['schema'] == 'sparta.format/1' and d['elements'] == 30 and d['density'] == 1 and d['formats'][0]['bytes'] == 120" "the dense array is best stored dense"
json "all(set(f) >= {'format', 'canonical', 'pattern', 'exact', 'share', 'implement', 'within_limit', 'elements', 'slots', 'bytes', 'fill'} for f in d['formats'])" "format advise --json has its fields"
run 0 "format advise --group" format advise o4/logits.npy --group; has out "no other order of the rows" "a full array has no better order"
run 2 "format advise -o" format advise o4/logits.npy -o x.npy; has err "--group" "-o is for --group"
run 0 "format advise of a matrix" format advise "$seeds/fuzz_mtx/real.mtx" --table csv; has out "format,pattern,fill,bytes,share,us,implement,limit" "advice as a table"; has out "none for f64 yet" "and no kernel is promised for f64"
run 0 "format advise of a tensor of 3 dimensions" format advise o1/last_hidden_state.npy; has err "note: " "which says that patterns need matrices"
run 1 "format advise of a text" format advise text; complains "format advise of a text"
run 2 "format advise with a wrong format" format advise o4/logits.npy --format csrr; complains "format advise with a wrong format"
run 2 "a schedule for packages alone" verify bert.sparta --against bert.sparta --schedule nowhere.sched; has err "none is given" "which says why"
run 0 "format pack of an mtx" format pack "$seeds/fuzz_mtx/real.mtx" --format csr --limit 100 -o m.npz; has out "5 elements" "its entries are packed"
run 2 "format of an unknown word" format pakc o4/logits.npy; has err "did you mean pack" "an unknown word is guessed"
run 0 "doctor" doctor; has out "compiler" "doctor names the compiler"; has out "nobody else can write there" "doctor says that the cache is safe"
run 0 "doctor --json" doctor --json --threads 1; json "d['peak_gops'] > 0 and d['cpu']['cores'] >= 1 and d['libraries']" "doctor --json has its fields"
json "bool(d['gpus']) == (d['gpu_problem'] is None) and (d['nvrtc'] is None) == bool(d['nvrtc_problem'])" "doctor --json speaks of GPUs"
export SPARTA_CUDA_DRIVER=/nowhere SPARTA_NVRTC=/nowhere
run 0 "doctor without a GPU" doctor --threads 1; has out "SPARTA_CUDA_DRIVER /nowhere: it cannot be opened" "doctor says why there is none"; has out "SPARTA_NVRTC /nowhere" "and no compiler for it"
unset SPARTA_CUDA_DRIVER SPARTA_NVRTC
export SPARTA_ONEDNN=0
run 0 "doctor without oneDNN" doctor --threads 1; has out "switched off by SPARTA_ONEDNN=0" "doctor says why oneDNN is not used"
run 0 "doctor --json without oneDNN" doctor --json --threads 1; json "not [l for l in d['libraries'] if l['name'] == 'oneDNN'][0]['found']" "and in JSON"
unset SPARTA_ONEDNN
# what is remembered: shown, forgotten, and measured again
run 0 "doctor --times of no database" doctor --times --cache none; has out "0 times in no file" "says that there is none"
run 1 "doctor --times --db of no file" doctor --times --db no.db; complains "doctor --times --db of no file"; gone no.db "and makes none"
run 2 "doctor --yes" doctor --yes; complains "doctor --yes"
run 0 "times of a model" compile mlp.onnx --db t.db -o t.sparta
run 0 "doctor --times" doctor --times --db t.db; has out "dense4" "names implements"; hasnt out "sparta=" "and no machine"
run 0 "doctor --times --json" doctor --times --db t.db --json
json "d['schema'] == 'sparta.doctor/1' and d['times'] and all(t['us'] > 0 and t['spread'] >= 0 and t['measured'] >= 1 and 0 <= t['age_days'] < 1 and t['doubt'] is None for t in d['times'])" "doctor --times --json has its fields"
cp t.db shown.db; run 0 "doctor --times of tasks" doctor --times --json --db shown.db; task=$(python3 -c "import json; print(json.load(open('out'))['times'][0]['task'])")
run 0 "doctor --forget of a task as it is shown" doctor --forget "$task" --yes --db shown.db; hasnt out "0 times forgotten" "it goes"; rm shown.db*
run 0 "doctor --forget of nothing" doctor --forget "*no such layer*" --db t.db; has out "0 times forgotten" "what a glob does not name stays"
run 2 "doctor --forget" doctor --forget --db t.db; complains "doctor --forget"; has err "add --yes" "asks first, on a terminal"
run 0 "doctor --forget GLOB" doctor --forget dense4 --yes --times --db t.db --json
json "d['forgotten'] > 0 and all(t['implement'] != 'dense4' for t in d['times'])" "doctor --forget forgets what is named"
run 0 "measured again" compile mlp.onnx --db t.db --json -o t.sparta
json "any(l['source'] == 'measured' for l in d['layers'])" "what was forgotten is measured"
run 0 "and remembered" compile mlp.onnx --db t.db --json -o t.sparta
json "all(l['source'] == 'database' for l in d['layers'] if l['op'] == 'Linear')" "and then it is not"
run 0 "compile --remeasure" compile mlp.onnx --db t.db --no-propagate --remeasure --json -o t.sparta
json "all(l['source'] == 'measured' for l in d['layers'] if l['op'] == 'Linear')" "compile --remeasure believes no time of before"
run 2 "compile --remeasure --no-measure" compile mlp.onnx --db t.db --remeasure --no-measure -o both.sparta; complains "compile --remeasure --no-measure"; has err "with --no-measure nothing is timed, and --remeasure times all anew" "says why"; gone both.sparta "and writes nothing"
if python3 -c "import sqlite3" 2> /dev/null; then
    sql() { python3 -c "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); [print(*row) for row in db.execute(sys.argv[2])]; db.commit()" "$@"; }
    others="SELECT count(*) FROM trial WHERE key NOT GLOB 'gpu *'"
    # a point that was searched for, and rows that nobody reads: a key that is too long, no time, no verdict
    for row in "'gpu product', 'wgmma', 'BN=64', '', 5" "hex(zeroblob(512)), 'dense', '', '', 1" "'minus', 'dense', '', '', -1"; do sql t.db "INSERT INTO trial VALUES($row, 0, 'ok', 1, 1, $(date +%s)000, 0)"; done
    sql t.db "INSERT INTO trial VALUES('verdict', 'dense', '', '', 1, 0, 'odd', 1, 1, 0, 0)"
    cp t.db globs.db; cp t.db all.db; n=$(sql t.db "$others")
    run 0 "doctor --forget '*'" doctor --forget "*" --yes --times --db globs.db; has out "gpu product" "points that were searched for stay"; has out "1 times in ./globs.db" "all others that have a name go"
    run 0 "doctor --forget 'gpu*'" doctor --forget "gpu*" --yes --times --db globs.db; has out "1 time forgotten" "points go by their name"; has out "0 times in" "and are not there"
    run 0 "doctor --forget --yes" doctor --forget --yes --times --db all.db; has out "$n times forgotten" "without a glob those go too that nobody reads, and are counted"
    has out "gpu product" "and points stay"; if [ "$(sql all.db "$others")" = 0 ]; then good "nothing else is there"; else bad "nothing else is there"; fi
    if command -v script > /dev/null; then
        for answer in n y; do
            printf '%s\n' $answer | script -qec "$S doctor --forget --db t.db" /dev/null > out 2> err
            has out "Forget $n times" "doctor --forget asks on a terminal"; if [ $answer = n ]; then gone=0; else gone=$n; fi
            has out "$gone times forgotten" "$answer: $gone go"; if [ "$(sql t.db "$others")" = $((n - gone)) ]; then good "$answer: and the file says so"; else bad "$answer: and the file says so"; fi
        done
    fi
    sql t.db "DELETE FROM trial WHERE key GLOB 'gpu *'"
fi
export SPARTA_SQLITE=0
run 1 "doctor --forget without SQLite" doctor --forget --yes --db t.db; has err "nothing was shown or forgotten" "does not say that it forgot"
unset SPARTA_SQLITE
run 0 "doctor --forget --yes" doctor --forget --yes --times --db t.db; has out "0 times in ./t.db" "without a glob all of them go"
# times of layers in PyTorch, which lie in a file beside the database
mkdir -p cache/sparta; chmod 700 cache/sparta
torch=cache/sparta/torch-times.json now=$(date +%s)
name=$(sed -n 's/^model name[^:]*:[[:space:]]*//p' /proc/cpuinfo | head -1 | sed 's/[[:space:]]*$//')
gib=$(awk -v pages="$(getconf _PHYS_PAGES)" -v size="$(getconf PAGE_SIZE)" 'BEGIN { printf "%.0f", pages * size / 1073741824 }')
version=$("$S" --version | head -1 | cut -d' ' -f2)
here="torch 2.13.0+cpu, sparta $version 18c2, ${name:+$name, }$(getconf _NPROCESSORS_ONLN) cores, $gib GiB"
timed() { # FIRST [KEY-OF-THE-SECOND]: the file; of the first layer AT and DISTURBED
    printf '{\n"linear 64x64, 4x1; 2 threads; %s": {"ways": {"dense": 91.123456789012, "4x1": 3e1}, %s},\n"linear 8x8, 1x1; %s": {"ways": {"1x1": 7}, "at": %s.5, "disturbed": false}}' \
        "$here" "$1" "${2:-$here}" "$now" > $torch
}
timed "\"at\": $now.25, \"disturbed\": false"
run 0 "doctor --times of PyTorch" doctor --times; has out "3 times of layers in PyTorch" "counts them"; has out "linear 64x64, 4x1; 2 threads " "shows what was timed"; hasnt out "18c2" "and no machine"
run 0 "doctor --times of PyTorch --json" doctor --times --json
json "[(t['task'], t['implement'], t['point'], round(t['us'], 3), t['doubt']) for t in d['times'] if t['implement'] == 'torch'] == [('linear 64x64, 4x1; 2 threads', 'torch', 'dense', 91.123, None), ('linear 64x64, 4x1; 2 threads', 'torch', '4x1', 30, None), ('linear 8x8, 1x1', 'torch', '1x1', 7, None)] and all(t['age_days'] < 1 for t in d['times'])" "a row for each way"
timed "\"at\": $((now + 2 * 86400 + 60)), \"disturbed\": false" "torch 2.13.0, sparta $version 18c2, Another CPU, 512 cores, 1 GiB"
run 0 "doctor --times of PyTorch of a clock that was wrong" doctor --times; has out "in the future" "says that they are of the future"; hasnt out "too old" "and not that they are old"
timed "\"at\": $((now - 91 * 86400)), \"disturbed\": false" "torch 2.13.0, sparta $version 18c2, Another CPU, 512 cores, 1 GiB"
run 0 "doctor --times of PyTorch that are not believed" doctor --times; has out "too old" "says that they are too old"; has out "another machine" "and of which machine they are not"
timed "\"at\": $now, \"disturbed\": true" "$(echo "$here" | sed 's/sparta [^ ]*/sparta 0.0.1/')"
run 0 "doctor --times of a version" doctor --times; has out "another version" "says that it is another"; hasnt out "disturbed" "SPARTA_TRUST=all believes those of a busy machine"
unset SPARTA_TRUST
run 0 "doctor --times of a busy machine" doctor --times; has out "disturbed" "says so"
export SPARTA_TRUST=all
timed "\"at\": $now.25, \"disturbed\": false"; chmod 600 $torch
run 2 "doctor --forget of PyTorch" doctor --forget "linear 8x8*"; complains "doctor --forget of PyTorch"; has err "and 1 of " "says how many"
run 0 "doctor --forget of another layer" doctor --forget "linear 9x9*" --yes; has out "0 times forgotten" "nothing goes"; has $torch "3e1" "the file stays as it was"
run 0 "doctor --forget of a layer of PyTorch" doctor --forget "linear 8x8, 1x1" --yes --times --json
json "d['forgotten'] == 1 and d['torch_times_forgotten'] and [round(t['us'], 3) for t in d['times'] if t['implement'] == 'torch'] == [91.123, 30]" "the others stay"
run 0 "doctor --forget of a way" doctor --forget "4x?" --yes; has out "1 time forgotten, also in " "it goes"; has $torch '"dense": 91.123456789012' "the others stay as they were"; hasnt $torch '"4x1":' "and it is not there"
has $torch '"disturbed": false' "what else was said of it stays"; has $torch "\"at\": $now.25" "and when it was"
if [ "$(stat -c %a $torch)" = 600 ] && [ "$(ls -A cache/sparta | grep -c 'torch-times\|tmp')" = 1 ]; then good "doctor --forget leaves the mode, and no other file"; else bad "doctor --forget leaves the mode, and no other file"; fi
run 0 "doctor --forget torch" doctor --forget torch --yes; hasnt $torch linear "all of PyTorch go"
for row in '' '[]' '{"a": 3}' '{"a": {"ways": {"dense": -1}, "at": 1, "disturbed": false}}' '{"a": {"ways": {"dense": 1e400}, "at": 1, "disturbed": false}}' '{"a": {"ways": {"dense": 1}, "at": 1, "disturbed": 0}}' \
    '{"a": {"ways": {"dense": 1}, "at": 1, "disturbed": false, "more": 1}}' '{"a": {"ways": [1], "at": 1, "disturbed": false}}' '{"a": {"ways": {"dense": 1}, "at": "x", "disturbed": false}}' '{"a": {"ways"'; do
    printf '%s' "$row" > $torch
    run 0 "doctor --times of a damaged file" doctor --times --forget dense --yes; has err "torch-times.json: no time in it is believed" "names it ($row)"; hasnt out "PyTorch" "shows none"
    if [ "$(cat $torch)" = "$row" ]; then good "a damaged file is left"; else bad "a damaged file is left"; fi
done
timed "\"at\": $now, \"disturbed\": false"; chmod 770 cache/sparta
run 0 "doctor --times where others write" doctor --times --forget dense --yes; hasnt out "linear" "shows none"; has $torch "dense" "a file that others could have written is left"
chmod 700 cache/sparta
run 0 "doctor --forget of all" doctor --forget --yes --json; json "d['forgotten'] >= 3 and d['torch_times_forgotten']" "all go"; gone $torch "without a glob the file goes"
run 0 "doctor without a cache" doctor --cache none --compiler none; has out "none" "doctor says so"

# ------------------------------------------------------------------ where output cannot go, and signals
if [ -w /dev/full ]; then
    "$S" zoo > /dev/full 2> err; [ $? = 1 ] && good "a full disk behind stdout is exit 1" || bad "a full disk behind stdout is exit 1"
    has err "stdout" "and says so"
fi
"$S" --help 2> err | :
{ "$S" --man 2> err; echo $? > code; } | true
if [ "$(cat code)" = 0 ] || [ "$(cat code)" = 1 ]; then good "a closed pipe is no crash"; else bad "a closed pipe is no crash"; fi
"$S" zoo >&- 2> err; [ $? = 1 ] && good "a closed stdout is exit 1" || bad "a closed stdout is exit 1"
for signal in INT TERM; do
    rm -f err
    "$S" bench bert.sparta --time 3600 --threads 1 --progress plain > out 2> err &
    pid=$!
    says err ": measuring" $pid; kill -$signal $pid; wait $pid
    [ $? = 130 ] && good "SIG$signal stops it with 130" || bad "SIG$signal stops it with 130"
    has err "sparta: bench: interrupted; " "SIG$signal is said"
done
# Wherever a signal meets compile, with its compiler under way or its kernels being timed: no package and no piece of one.
rm -rf halted; mkdir halted; rm -rf "$XDG_CACHE_HOME"
for pause in 0.05 0.3 0.6; do
    "$S" compile bert.onnx -o halted/p.sparta --cache "$T/cold$pause" > out 2> err &
    pid=$!
    sleep $pause; kill -INT $pid 2> /dev/null; wait $pid
    code=$?
    if [ $code = 130 ] && [ -z "$(ls -A halted)" ]; then good "SIGINT after $pause s of compile leaves nothing"
    elif [ $code = 0 ] && [ "$(ls -A halted)" = p.sparta ]; then good "SIGINT after $pause s came too late"; rm halted/p.sparta
    else bad "SIGINT after $pause s of compile (exit $code, $(ls -A halted | tr '\n' ' '))"; fi
    if find "$T/cold$pause" -name '*tmp*' 2> /dev/null | grep -q .; then bad "nor in the cache"; else good "nor in the cache"; fi
done
gone core "no core was left"
if ls -d .*.tmp* ./*.tmp* > /dev/null 2>&1; then bad "no temporary file was left"; else good "no temporary file was left"; fi

# ------------------------------------------------------------------ schedules
mkdir -p sched
printf 'sparsifier heavy = magnitude(pattern=4x1, sparsity=0.9)\n' > sched/common.sched
cat > sched/s.sched <<'END'
# the encoder, stored in strips
include "common.sched"
tensor "encoder.layer.*.weight" { sparsify heavy; format strip(4) }
END
run 0 "a dense model for schedules" zoo bert-mini --dim layers=1 --dim hidden=64 --dim heads=4 --dim ffn=128 --dim vocab=50 --dim positions=130 -o sd.onnx
run 0 "inspect --schedule" inspect sd.onnx --schedule sched/s.sched
has out "what the schedule did" "it says what was done"; has out "s.sched:3:35" "with the place of each clause"; has out "encoder.layer.0.output.dense.weight" "and the weight"
run 0 "inspect --schedule --json" inspect sd.onnx --schedule sched/s.sched --json
json "len(d['schedule']) == 12 and all(abs(e['density'] - 0.1) < 0.02 and e['pattern'] == '4x1' for e in d['schedule'])" "every weight is pruned"
json "{e['implement'] for e in d['schedule'] if e['clause'] == 'format'} == {'strip4'}" "and pinned"
run 0 "compile --schedule" compile sd.onnx --schedule sched/s.sched --no-measure -o s.sparta --json
json "d['sparse_layers'] == 4" "compile --schedule makes the layers sparse"
run 0 "verify with the schedule" verify s.sparta --against sd.onnx --schedule sched/s.sched
run 3 "verify without it" verify s.sparta --against sd.onnx
printf 'tensor "*" {\n  sparsify magnitude(pattern=1x1, sparsity=0.95)\n  format bsr(16)\n}\n' > sched/much.sched
for verb in "inspect tiny.onnx" "compile tiny.onnx --no-measure -o x.sparta"; do
    run 5 "$verb with a format that stores too much" $verb --schedule sched/much.sched; has err "much.sched:3:3: " "the clause is named"; has err "x the nonzeros (limit 4.0x" "with the limit"
    run 0 "$verb with a higher limit" $verb --schedule sched/much.sched --limit 1000
done
run 2 "inspect --limit alone" inspect tiny.onnx --limit 9; complains "inspect --limit alone"
run 2 "inspect --schedule of a package" inspect s.sparta --schedule sched/s.sched; complains "inspect --schedule of a package"
# refuse CODE TEXT MESSAGE: compile with this schedule is refused with CODE and MESSAGE, and writes nothing
refuse() {
    printf '%s\n' "$2" > sched/bad.sched
    run "$1" "schedule: $2" compile sd.onnx --schedule sched/bad.sched --no-measure -o bad.sparta
    has err "$3" "which says: $3"; gone bad.sparta "and writes nothing"
}
refuse 2 'tensr "a" {}' "bad.sched:1:1: expected include, format, sparsifier, model or tensor, found 'tensr'; did you mean 'tensor'?"
refuse 2 'tensor "encoder.layer.*.wieght" { sparsify threshold(1) }' "matches no weight; the nearest names are 'encoder.layer.0"
refuse 2 'tensor "enc*" { format strip(4) } tensor "*output*" { format rows(4) }' "conflicts with format strip(4) at bad.sched:1:17"
refuse 4 'tensor "enc*" { quantize i8 }' "bad.sched:1:17: quantize i8: this version does not quantise yet"
refuse 2 'tensor "enc*" { kernel { unroll(n) } }' "it schedules the loops of the kernel of a format"
refuse 2 'tensor "enc*" { format bsr(4,4); kernel { vectorize(m1,2); unroll(q) } }' "bad.sched:1:60: 'encoder.layer"
refuse 2 'include "bad.sched"' "'bad.sched' includes itself"
refuse 2 'tensor "enc*" { format (i,j,k)->(i:dense, j:dense, k:dense) }' "bad.sched:1:17: "
refuse 2 'tensor "enc*" { format fours }' "fours"
printf 'tensor "enc*" { sparsify magnitude(pattern=4x1, sparsity=0.9); format fours }\n' > sched/own.sched
run 0 "compile with a format that no kernel has" compile sd.onnx --schedule sched/own.sched --formats my.formats --no-measure --json -o own.sparta
json "{l['implement'] for l in d['layers'] if l['op'] == 'Linear'} <= {'walk', 'generated_linear'} and all('no kernel of its own' in l['reason'] for l in d['layers'] if l['op'] == 'Linear')" "it walks or is generated, and says so"
run 0 "verify what walks" verify own.sparta --against sd.onnx --schedule sched/own.sched --formats my.formats
run 0 "bench what walks" bench sd.onnx --schedule sched/own.sched --formats my.formats --no-measure --iterations 2 --threads 1,2 --json; json "len(d['runs']) == 2" "a sweep knows the formats as well"

# what is computed as the model runs
run 0 "a model of few tokens" zoo mlp --dim inputs=40 --dim hidden1=2000 --dim hidden2=300 -o dyn.onnx
cat > sched/dyn.sched <<'END'
model { dim batch=1 }
tensor "/fc1/Relu:output" { sparsify topk(5%) }
tensor "/fc3/Gemm:input"  { sparsify threshold(0.001, bound=50%, expect=40) }
END
run 0 "inspect what is computed" inspect dyn.onnx --schedule sched/dyn.sched --dim batch=1 --json
json "[(e['text'], e['tensor'], e['n'], e['k'], round(e['density'], 3)) for e in d['schedule']] == [('topk(k=5%)', '/fc1/Relu_output_0', 0, 2000, 0.05), ('threshold(value=0.001, bound=50%, expect=40)', '/fc2/Relu_output_0', 0, 300, 0.5)]" "what each clause does"
json "[l['implement'] for l in d['layers']][1] == 'few_skip' and '5 %' in d['layers'][1]['reason']" "and who would run it, on what assumption"
run 0 "compile what is computed" compile dyn.onnx --schedule sched/dyn.sched --no-measure -o dyn.sparta --json
json "d['layers'][1]['implement'] == 'few_skip'" "it skips"
run 0 "verify with the schedule" verify dyn.sparta --against dyn.onnx --schedule sched/dyn.sched
run 3 "verify without it" verify dyn.sparta --against dyn.onnx; has err "differs" "and says so"
run 0 "bench what skips" bench dyn.onnx --schedule sched/dyn.sched --no-measure --iterations 3 --profile --json
json "{l['gops_real'] for l in d['layers'] if l['implement'] == 'few_skip'} == {0}" "operations that only it knows are not counted"
run 4 "propagate writes ONNX" propagate dyn.onnx --schedule sched/dyn.sched -o x.onnx; has err "is for packages: leave it out here" "which has no Sparsify"; gone x.onnx "and writes nothing"
refuse 2 'tensor "nobody:output" { sparsify topk(5) }' "bad.sched:1:1: tensor \"nobody:output\": there is no node or module 'nobody'"
refuse 4 'tensor "*dense/MatMul:input" { sparsify magnitude(1x1, 0.5) }' "sparsify magnitude is for weights"
refuse 2 'tensor "*dense/MatMul:input" { sparsify topk(0) }' "expected how many elements of a line, at least 1, or a share such as 25%"

# ---------------------------------------------------------------- scores that are routed
run 0 "a model with attention" zoo bert-mini --dim layers=1 --dim hidden=32 --dim heads=2 --dim ffn=32 --dim vocab=50 --dim positions=256 -o route.onnx
echo 'tensor "*/Softmax:input" { sparsify similarity(topk=2, block=32) }' > sched/route.sched
run 0 "inspect routed scores" inspect route.onnx --schedule sched/route.sched --json
json "[l['implement'] for l in d['layers']][1] == 'attention_skip' and 'blocks of 32 keys' in d['layers'][1]['reason']" "and who would run them"
run 0 "compile routed scores" compile route.onnx --schedule sched/route.sched --dim batch=1 --dim sequence=256 --no-measure -o route.sparta --json
json "d['layers'][1]['implement'] == 'attention_skip' and 'at most 3 of 8 blocks of 32 keys' in d['layers'][1]['reason']" "it skips, and says how much"
run 0 "verify with the schedule" verify route.sparta --against route.onnx --schedule sched/route.sched --dim batch=1 --dim sequence=256
run 0 "bench what is routed" bench route.onnx --schedule sched/route.sched --dim batch=1 --dim sequence=256 --no-measure --iterations 3 --profile --json
json "[l['implement'] for l in d['layers'] if l['op'] == 'Attention'] == ['attention_skip']" "its Attention skips"
echo 'tensor "*/Softmax:output" { sparsify topk(10%) }' > sched/share.sched
echo 'tensor "*/Softmax:output" { sparsify topk(20%) }' > sched/more.sched
run 0 "compile a share of a size" compile route.onnx --schedule sched/share.sched --dim sequence=64 --no-measure -o share.sparta
run 0 "verify with the schedule at that size" verify share.sparta --against route.onnx --schedule sched/share.sched --dim sequence=64
run 3 "verify with another share" verify share.sparta --against route.onnx --schedule sched/more.sched --dim sequence=64; has err "Softmax" "says where they differ"
run 4 "verify without the size" verify share.sparta --against route.onnx --schedule sched/share.sched; has err "fix it with --dim" "says what to do"
refuse 2 'tensor "*dense/MatMul:input" { sparsify similarity(2) }' "similarity is of the scores of an attention"
refuse 2 'tensor "*Softmax:input" { sparsify similarity(2, block=0) }' "a block has 1 to"
refuse 4 'tensor "encoder.layer.0.output.dense.weight" { sparsify similarity(2) }' "not a weight"

finish
