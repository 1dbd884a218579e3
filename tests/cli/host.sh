#!/bin/sh
# Hosts that are not kind: compilers that fail, small limits, full disks, files that change in use, processes that are killed, other
# people's homes. Usage: tests/cli/host.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"

run 0 "a model" zoo mlp --prune 4x1:0.9 -o mlp.onnx

# ------------------------------------------------------------------ times that cannot be kept
echo "not a database" > notes.txt
run 0 "a file that is no database is none" compile mlp.onnx -q --db notes.txt -o slow.sparta
has err "note: tune: ./notes.txt: file is not a database; records live in memory" "that times are not kept is told even with -q"
# Both flags of doctor say that file $1 cannot be used.
unusable() {
    for what in --times "--forget --yes"; do
        run 1 "doctor $what of $1" doctor $what --db "$1"
        has err "sparta: doctor: ./$1: nothing was shown or forgotten, since the file cannot be used now" "doctor $what shows no times of memory as those of $1"
    done
}
unusable notes.txt
if python3 -c "import sqlite3" 2> /dev/null; then
    run 0 "times of a model" compile mlp.onnx --db held.db -o slow.sparta
    python3 -c "
import sqlite3, time
db = sqlite3.connect('held.db', isolation_level=None)
db.execute('BEGIN EXCLUSIVE')
open('held', 'w').write('held')
time.sleep(600)" & holder=$!
    says held held $holder
    run 0 "a database that another process holds" compile mlp.onnx -q --db held.db -o slow.sparta
    has err "note: tune: ./held.db: another process holds its lock; records live in memory" "is told even with -q"
    unusable held.db
    kill $holder; wait $holder 2> /dev/null
    run 0 "doctor --times when it is free" doctor --times --db held.db; hasnt out "0 times in" "all are there"
fi

# ------------------------------------------------------------------ portable code that nobody asked for
printf '#!/bin/sh\ncase "$*" in *--version*) echo bad 1.0;; *) echo "error: no disk today" >&2; exit 1;; esac\n' > badcc
chmod +x badcc
run 0 "a compiler that fails is no failure" compile mlp.onnx --no-measure -q --compiler "$T/badcc" -o slow.sparta
has err "warning: slow.sparta: " "portable code is told even with -q"
has err "no disk today" "and why"
run 0 "the same with --json" compile mlp.onnx --no-measure -q --json --compiler "$T/badcc" -o slow.sparta
json "'portable C' in d['warning']" "and in JSON"
run 0 "inspect shows it" inspect slow.sparta
has err "slow.sparta: " "inspect shows it: in words"
has err "portable C" "inspect shows it: which"
run 0 "inspect has it in JSON" inspect slow.sparta --json
json "'no disk today' in d['warning']" "inspect has it in JSON: why"
run 0 "run shows it" run slow.sparta --output-dir o --json
json "'portable C' in d['warning']" "run has it in JSON"
run 0 "portable code that was asked for" compile mlp.onnx --no-measure -q --target portable --json -o asked.sparta
json "d['warning'] is None" "portable code that was asked for is no warning"
hasnt err "warning" "nor said"
run 0 "no compiler wanted" compile mlp.onnx --no-measure -q --compiler none -o asked.sparta
hasnt err "warning" "no compiler wanted: no warning"

# ------------------------------------------------------------------ hosts that ignore their children, and small limits
cat > ignore.py <<'END'
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
END
if command -v python3 > /dev/null; then
    if timeout 120 python3 ignore.py "$S" compile mlp.onnx --no-measure -q --cache "$T/c1" -o m.sparta > out 2> err && ! grep -q warning err; then
        good "SIGCHLD ignored: compiled all the same"; else bad "SIGCHLD ignored: compiled all the same"; fi
fi
if nm "$S" 2> /dev/null | grep -q __asan_init; then
    skip "ulimit -v: not with the address sanitizer, which maps terabytes"
else
    if (ulimit -v 1500000; timeout 120 "$S" compile mlp.onnx --no-measure -q --cache "$T/c2" -o m.sparta > out 2> err) && ! grep -q warning err; then
        good "ulimit -v of 1.5 GB: compiled all the same"; else bad "ulimit -v of 1.5 GB: compiled all the same"; fi
fi

# ------------------------------------------------------------------ a full disk under the cache
mkdir full
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=64k none full 2> /dev/null; then
    head -c 200000 /dev/zero > full/filler 2> /dev/null
    run 0 "the cache's disk is full" compile mlp.onnx --cache "$T/full/cache" --no-measure -o m.sparta
    hasnt err warning "the cache's disk is full: compiled in TMPDIR"
    has err "cache: " "the cache's disk is full: said"
    umount full
else
    skip "a full disk: mount is not allowed here"
fi

# ------------------------------------------------------------------ files that change while they are in use
# The compiler's first call comes while the model is mapped: here it spoils the model.
spoil() { # spoil WHAT: a compiler that does WHAT once, then its work
    printf '#!/bin/sh\n[ -e %s/spoilt ] || { touch %s/spoilt; %s; }\nexec cc "$@"\n' "$T" "$T" "$1" > spoilcc
    chmod +x spoilcc
    rm -f spoilt live.sparta
    cp mlp.onnx live.onnx
    sleep 0.05
}
run 0 "another model" zoo mlp --prune 4x1:0.5 --seed 2 -o other.onnx
spoil "truncate -s 1000 $T/live.onnx"
run 1 "a model is truncated while it is compiled" compile live.onnx --no-measure --cache "$T/c3" --compiler "$T/spoilcc" -o live.sparta
complains "a model is truncated"
has err "live.onnx" "a model is truncated: which"
has err "truncated" "a model is truncated: that"
has err "--copy" "a model is truncated: what to do"
gone live.sparta "a model is truncated: no package"
spoil "truncate -s 1000 $T/live.onnx"
timeout 120 "$S" compile live.onnx --no-measure --json --cache "$T/c3" --compiler "$T/spoilcc" -o live.sparta > out 2> err
json "d['error']['exit'] == 1 and 'truncated' in d['error']['message']" "a model is truncated: --json"
spoil "cp $T/other.onnx $T/live.onnx"
run 1 "a model is written while it is compiled" compile live.onnx --no-measure --cache "$T/c4" --compiler "$T/spoilcc" -o live.sparta
has err "while it was in use" "a model is written: said"
gone live.sparta "a model is written: no package"
spoil "mv $T/other.onnx $T/live.onnx"
run 1 "a model is replaced while it is compiled" compile live.onnx --no-measure --cache "$T/c4" --compiler "$T/spoilcc" -o live.sparta
has err "replaced" "a model is replaced: said"
spoil "truncate -s 1000 $T/live.onnx"
run 0 "--copy does not mind" inspect live.onnx --copy
run 5 "--copy stays in the budget" inspect live.onnx --copy --max-memory 100K

# ------------------------------------------------------------------ processes that are killed, other people's homes
mkdir kill
: > kill/.m.sparta.0123abcd.sparta-tmp
: > kill/.m.sparta.mine
run 0 "compile where a killed one left something" compile mlp.onnx --no-measure -o kill/m.sparta
gone kill/.m.sparta.0123abcd.sparta-tmp "what a killed process left is swept"
if [ -e kill/.m.sparta.mine ]; then good "what it did not leave stays"; else bad "what it did not leave stays"; fi
if [ "$(id -u)" = 0 ] && mkdir home && chown 12345 home; then
    HOME=$T/home XDG_CACHE_HOME= timeout 120 "$S" doctor --threads 1 > out 2> err
    has out "root's own" "doctor as root in a user's home: which cache"
    gone home/.cache "doctor as root in a user's home: nothing is made there"
else
    skip "another user's home: not root"
fi

# ------------------------------------------------------------------ nothing to do, and too much
run 0 "a batch of none on the reference" run mlp.onnx --dim batch=0 --output-dir o --json
json "d['outputs'][0]['shape'][0] == 0" "a batch of none: an empty answer"
run 0 "a batch of none in a session" run asked.sparta --batch 0 --output-dir o --json
json "d['outputs'][0]['shape'][0] == 0" "a batch of none in a session: an empty answer"
run 2 "there is nothing to time in it" bench asked.sparta --batch 0
run 5 "a size beyond 63 bits" run mlp.onnx --dim batch=9223372036854775807 --output-dir o
run 5 "a size beyond 63 bits in a session" run asked.sparta --dim batch=9223372036854775807 --output-dir o
if ! nm "$S" 2> /dev/null | grep -q __asan_init; then
    truncate -s 3G large.npy
    (ulimit -v 2000000; timeout 120 "$S" inspect large.npy > out 2> err)
    got=$?
    if [ $got = 5 ]; then good "no room to map a file"; else bad "no room to map a file (exit $got)"; fi
fi

finish
