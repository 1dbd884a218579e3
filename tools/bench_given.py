"""Times BERTs with whole rows pruned: as compile makes them (the given graph and the smaller one compete) against --no-propagate, and against
the model as it was given with dense kernels. Prints a table for docs/benchmarks/propagation.md.

    make bench-given                   bert-base with 6 layers, 4 s a subject, about three minutes; leave the machine alone
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HIDDEN, HEAD = 768, 64


def sparta(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"sparta {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def cases():
    """What is pruned: the layers, by a part of their names, and which of their outputs stay."""
    row = np.arange(HIDDEN)
    qkv = [f"{name}.weight" for name in ("query", "key", "value")]
    return {
        "Q and K: 53 of 64 rows a head": (qkv[:2], row % HEAD < 53),
        "V: 40 of 64 rows a head": (qkv[2:], row % HEAD < 40),
        "half of the intermediate rows": (["intermediate.dense.weight"], np.arange(4 * HIDDEN) % 2 == 0),
        "4 of 12 heads": (qkv, row >= 4 * HEAD),
    }


def masks(model, names, keep):
    """Of weights and biases, in the file's orientation: the zoo stores (inputs, outputs) or (outputs, inputs), as the wide layer tells."""
    shapes = {i.name: tuple(i.dims) for i in onnx.load(model).graph.initializer}
    outputs_first = next(s for n, s in shapes.items() if n.endswith("intermediate.dense.weight"))[0] == 4 * HIDDEN
    made = {}
    for name in (n for n in shapes if any(n.endswith(part) for part in names)):
        stays = keep[:, None] if outputs_first else keep[None, :]
        made[name] = np.broadcast_to(stays, shapes[name]).astype(np.uint8)
        bias = name.replace("weight", "bias")
        if bias in shapes:
            made[bias] = keep.astype(np.uint8)
    return made


def ratio(result):
    lo, hi = result["ratio_ci95"]
    return f"**{result['ratio']:.2f}x** ({lo:.2f} to {hi:.2f})"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default="build/release/sparta")
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--time", type=float, default=4, help="seconds a subject")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, mask, best, plain = (os.path.join(folder, n) for n in ("m.onnx", "m.npz", "best.sparta", "plain.sparta"))
        sparta(a.sparta, "zoo", "bert-base", "--dim", f"layers={a.layers}", "--dim", "vocab=1000", "-o", model, "-q")
        print("| pruned | parameters, M | compiled | against --no-propagate | against the given model, dense |\n|---|---|---|---|---|")
        for name, (layers, keep) in cases().items():
            np.savez(mask, **masks(model, layers, keep))
            sparta(a.sparta, "compile", model, "--masks", mask, "-o", best, "-q")
            sparta(a.sparta, "compile", model, "--masks", mask, "--no-propagate", "-o", plain, "-q")
            before, after = (json.loads(sparta(a.sparta, "inspect", f, "--json"))["parameters"] / 1e6 for f in (plain, best))
            one, two = (json.loads(sparta(a.sparta, "bench", best, *words, "--time", a.time, "--json", "-q")) for words in (("--against", plain), ()))
            print(f"| {name} | {before:.1f} | {after:.1f} | {ratio(one)} | {ratio(two)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
