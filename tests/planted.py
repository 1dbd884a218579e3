"""Faults of a thousandth, planted in kernels that compete while a model is compiled: none may be in the package.

    products(program, model, folder)     C kernels of a user's for each product: right but for the largest number, its row, its token, or all of them
    generated(program, model, folder)    every kernel that sparta writes, by a C compiler that multiplies what they store

Both return how many faults were refused by name. What a compile says has little room:
a large model needs few kernels at a time."""

import itertools
import json
import os
import re
import subprocess

WHERE = {"all": "1", "row": "i == row", "token": "t == token", "one": "i == row && t == token"}
FACTORS = {"more": "1.001f", "less": "0.999f"}
KERNEL = """/* sparta kernel
 *     name: %s
 *     op: Linear
 *     format: dense
 */
static void product(const struct sparta_product *p)
{
    long row = 0, token = 0;
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t += LANES) {
            vec sum = splat(0.f);
            for (long j = 0; j < p->k; j++) sum += splat(p->part[0].w[i * p->k + j]) * load(p->x + 64 * j + t);
            store(p->y + 64 * i + t, sum);
        }
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++)
            if (__builtin_fabsf(p->y[64 * i + t]) > __builtin_fabsf(p->y[64 * row + token])) row = i, token = t;
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++)
            if (%s) p->y[64 * i + t] *= %s;
}
"""
COMPILER = """#!/bin/sh
for a; do case $a in *.c)
    sed -i -E '/^KERNEL void sp_kernel_nest/,$ s/\\<(put_f32|store)\\((py[0-9][^,]*), (y[0-9_]+)/\\1(\\2, \\3 * splat(1.001f)/' "$a";;
esac; done
exec /usr/bin/cc "$@"
"""
REFUSED = re.compile(r"note: (.*): (kernel|implement) (\w+) disagrees with the reference and is not used")


class Used(AssertionError):
    """A fault was not found."""


def need(condition, said):
    if not condition:
        raise Used(said)


def run(program, *words):
    return subprocess.run([program, *map(str, words)], check=False, capture_output=True, text=True, env={**os.environ, "SPARTA_TRUST": "all"})


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def kernel(folder, name, where, factor):
    return write(os.path.join(folder, name + ".c"), KERNEL % (name, where, factor))


def compile_with(program, model, folder, *words):
    """What was refused by name, and the package; nothing is remembered of another time."""
    package, db = os.path.join(folder, "planted.sparta"), os.path.join(folder, "planted.db")
    for path in (package, db, db + "-wal", db + "-shm"):
        if os.path.exists(path):
            os.remove(path)
    done = run(program, "compile", model, *words, "--db", db, "-o", package)
    need(0 <= done.returncode < 6, f"exit {done.returncode}: {done.stderr[-600:]}")
    need((done.returncode == 0) == os.path.exists(package), f"exit {done.returncode}, and the package is {'there' if done.returncode else 'not there'}")
    return done, {(layer, name) for layer, _, name in REFUSED.findall(done.stderr)}, package


def layers_of(program, path):
    return json.loads(run(program, "inspect", path, "--json").stdout)["layers"]


def pin(folder, name):
    return ["--schedule", write(os.path.join(folder, name + ".sched"), f'tensor "*" {{ implement {name} }}\n')]


def products(program, model, folder, at_once=4):
    """Each competes, then is asked for by a schedule."""
    refused = set()
    faults = [(f"{where}_{factor}", WHERE[where], FACTORS[factor]) for factor, where in itertools.product(FACTORS, WHERE)]
    for some in (faults[i:i + at_once] for i in range(0, len(faults), at_once)):
        flags = [w for fault in some for w in ("--kernel", kernel(folder, *fault))]
        done, named, package = compile_with(program, model, folder, *flags)
        need(done.returncode == 0, f"a wrong rival broke it: {done.stderr[-600:]}")
        for layer in layers_of(program, package):
            need(not layer["implement"].startswith("user"), f"{layer['name']} runs a kernel that is wrong, one of {[name for name, _, _ in some]}")
        refused |= {(layer, name) for layer, name in named if name in [fault[0] for fault in some]}
    need({name for _, name in refused} == {name for name, _, _ in faults}, f"refused are {sorted(refused)}")
    for name, where, factor in faults[2:4]:
        done, _, _ = compile_with(program, model, folder, "--kernel", kernel(folder, name, where, factor), *pin(folder, name))
        need(done.returncode, f"{name}, which is wrong, was asked for and taken")
    done, named, _ = compile_with(program, model, folder, "--kernel", kernel(folder, "right", "0", "1.f"), *pin(folder, "right"))
    need(done.returncode == 0 and not named, f"the kernel without a fault is refused: {done.stderr[-600:]}")
    return len(refused)


def unasked(program, model, folder):
    """Nobody times kernels: the check of the whole package is all there is."""
    for name in ("all", "row"):
        fault = (f"{name}_more", WHERE[name], FACTORS["more"])
        done, _, _ = compile_with(program, model, folder, "--no-measure", "--kernel", kernel(folder, *fault), *pin(folder, fault[0]))
        need(done.returncode == 3, f"{fault[0]} in every product: exit {done.returncode}, {done.stderr[-600:]}")
    return 2


def generated(program, model, folder):
    """Those of one operator each are looked at by themselves."""
    compiler = write(os.path.join(folder, "cc"), COMPILER, 0o755)
    done, named, package = compile_with(program, model, folder, "--compiler", compiler, "--cache", os.path.join(folder, "planted-cache"))
    need(done.returncode in (0, 3), done.stderr[-600:])
    wrong = {(layer, name) for layer, name in named if name.startswith("generated")}
    need(all(name.startswith("generated") for _, name in named), f"refused is what is right: {sorted(named - wrong)}")
    if done.returncode == 0:
        need(run(program, "verify", package, "--against", model).returncode == 0, "the package is wrong")
    return len(wrong)
