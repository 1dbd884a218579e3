#!/bin/sh
# What the papers promise is there: C calls of the installed header, verbs that exist, variables that are described.
# Usage: tests/cli/papers.sh PATH-OF-SPARTA
. "$(dirname "$0")/bed.sh"

# ------------------------------------------------------------------ C calls
grep -o 'sparta_[a-z_0-9]*' "$root/include/sparta.h" | sort -u > public
for page in "$root/README.md" "$root"/docs/*.md; do
    name=${page#"$root/"}
    grep -o '\bsparta_[a-z_0-9]*' "$page" | sort -u | comm -23 - public > private
    if [ ! -s private ] || grep -q 'The C calls on this page are internal' "$page"; then good "$name: C calls are public, or marked"
    else bad "$name: says that these are internal: $(tr '\n' ' ' < private)"; fi
done

# ------------------------------------------------------------------ verbs
run 0 "--help" --help; cp out help
run 0 "--man" --man; cp out man
for shell in bash zsh fish; do
    run 0 "--completion $shell" --completion $shell; cp out "completion.$shell"
done
# hidden FILE REGEX NAME
hidden() { if grep -qE -- "$2" "$1"; then bad "$3"; else good "$3"; fi; }
for verb in tune quantize report serve generate; do
    hidden help "^  $verb |later" "--help does not offer $verb, which is not there"
    hidden man "^.SS sparta $verb" "the manual page does not offer $verb"
    hidden completion.bash "(\"| )$verb " "the completion of bash does not offer $verb"
    hidden completion.zsh "'$verb:" "the completion of zsh does not offer $verb"
    hidden completion.fish "-a $verb " "the completion of fish does not offer $verb"
done
for verb in zoo inspect compile bench; do
    has completion.zsh "'$verb:" "zsh completes $verb"
    has completion.fish "-a $verb -d" "fish completes $verb"
done
has completion.zsh "--export-times" "zsh completes flags"; has completion.fish "-l export-times" "fish completes flags"
if command -v zsh > /dev/null; then if zsh -n completion.zsh; then good "zsh reads its completion"; else bad "zsh reads its completion"; fi; fi
if command -v fish > /dev/null; then
    if fish -n completion.fish; then good "fish reads its completion"; else bad "fish reads its completion"; fi
    if fish -c 'source completion.fish; complete -C "sparta bench --prof"' 2> err | grep -q -- --profile; then good "fish completes"; else bad "fish completes"; fi
fi

# Help of a verb speaks of itself: every row of shown.def is a flag that the verb takes, no text names another verb's meaning, and flags of every verb come last.
verbs="zoo inspect propagate prune compile run verify bench kernel format specialize doctor"
sed -n 's/^CLI_OPTION(\([A-Z0-9_]*\), "\([^"]*\)", [^,]*, [A-Z]*, "[^"]*", [^,]*, [^,]*, [a-z]*, "\([^"]*\)".*/\1 \2 \3/p' "$root/cli/options.def" > options
if [ "$(wc -l < options)" = "$(grep -c '^CLI_OPTION' "$root/cli/options.def")" ]; then good "every option was read"; else bad "every option was read"; fi
sed -n 's/^CLI_SHOWN(\([a-z]*\), \([A-Z0-9_]*\),.*/\1 \2/p' "$root/cli/shown.def" > shown
while read -r verb option; do
    grep "^$option " options | grep -qw -- "$verb" || bad "shown.def: $verb does not take $option"
done < shown
if [ -z "$(sort shown | uniq -d)" ]; then good "shown.def has each flag of a verb once"; else bad "shown.def has each flag of a verb once"; fi
for verb in $verbs; do
    run 0 "$verb --help" $verb --help
    for other in $verbs; do # kernel has jobs of these names
        [ $other = $verb ] || [ $verb = kernel ] || hidden out "[( ]$other: " "the help of $verb does not speak of $other"
    done
    awk 'NR == FNR { common[$2] = $3 == "*"; next } /^  (-[a-z], )?--/ { flag = $0; sub(/.*--/, "", flag); sub(/[^a-z-].*/, "", flag); if (seen && !common[flag]) wrong = 1; seen = common[flag] } END { exit wrong }' options out
    if [ $? = 0 ]; then good "flags of every verb come last in $verb --help"; else bad "flags of every verb come last in $verb --help"; fi
done
run 0 "specialize --help" specialize --help; has out "--output DIR" "specialize writes a folder"
run 0 "zoo --help" zoo --help; has out "--dim SIZE=N" "zoo has sizes"; hasnt out "folder to write" "and writes a file"
hidden man "(zoo|specialize|compile|kernel): " "the manual page neither"

# Every word that tables and help use for what is ours is explained, in the order of the alphabet.
has man ".SH WORDS" "the manual page has a glossary"
sed -n 's/^CLI_TERM("\([^"]*\)".*/\1/p' "$root/cli/glossary.def" > words
for word in package pattern density implement plan target symbol schedule format TeSA zoo; do
    if grep -qx -- "$word" words && grep -qx -- ".B $word" man; then good "the glossary has $word"; else bad "the glossary has $word"; fi
done
if LC_ALL=C sort -fc words 2> err; then good "in the order of the alphabet"; else bad "in the order of the alphabet"; fi

# ------------------------------------------------------------------ environment
# Every variable that the code reads is in the manual page and in docs/environment.md.
# Ours are words of the sources, wherever they are read: tables name some.
grep -rhoE --include='*.[ch]' 'getenv\("[A-Z_]+"|"SPARTA_[A-Z_]+"' "$root/src" "$root/cli" | grep -oE '[A-Z_]+' | sort -u > read
grep -oE '^CLI_VARIABLE\("[A-Z_]+"' "$root/cli/environment.def" | grep -oE '"[A-Z_]+' | tr -d '"' | sort -u > described
if [ "$(comm -23 read described)" = "" ]; then good "every variable that is read is described"; else bad "described in environment.def:$(comm -23 read described | tr '\n' ' ')"; fi
while read -r variable; do
    has man "$variable" "the manual page has $variable"
    has "$root/docs/environment.md" "\`$variable\`" "docs/environment.md has $variable"
done < described
export SPARTA_TARGET=bogus; run 2 "SPARTA_TARGET that is none" zoo; complains "SPARTA_TARGET"; has err "avx2" "says what it may be"
export SPARTA_TARGET=; run 0 "an empty one is not set" zoo; unset SPARTA_TARGET
export SPARTA_CC_TIMEOUT=soon; run 2 "SPARTA_CC_TIMEOUT that is no number" zoo; complains "SPARTA_CC_TIMEOUT"; unset SPARTA_CC_TIMEOUT
run 0 "a model" zoo mlp -o m.onnx

# ------------------------------------------------------------------ SQLite is a help, not a need
if readelf -d "$S" | grep -q sqlite; then bad "the program starts without SQLite"; else good "the program starts without SQLite"; fi
export SPARTA_SQLITE=0
run 0 "compile without SQLite" compile m.onnx -o m.sparta; has err "measured times are forgotten" "says what is missing"
gone cache/sparta/tune.db "and no database is made"
run 0 "doctor without SQLite" doctor --threads 1; has out "would enable remembering" "doctor says what it would do"
unset SPARTA_SQLITE
run 0 "compile with SQLite" compile m.onnx -o m.sparta
exists cache/sparta/tune.db "keeps its times"
finish
