"""Every ONNX file that a verb writes in a test is opened and run by onnxruntime: what onnx.checker passes, a runtime may refuse.

    python tests/written.py FILE...        one line for each that it does not take, and at the end the counts

What runs the program in tests looks at them (tests/python/common.py, tests/torch/common.py, tests/cli/bed.sh), and so does the test of Python's own
`propagate`. A file that asks for an operator or a type that onnxruntime has no kernel for is not held against it, but said."""

import os
import sys

import numpy as np

SIZE = 3  # of dims that vary
TYPES = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(bool)": "?"} | {f"tensor({u}int{b})": f"{u[:1] or 'i'}{b // 8}" for u in ("", "u") for b in (8, 16, 32, 64)}
BEHIND = ("NOT_IMPLEMENTED", "Could not find an implementation", "Unsupported model IR version", "is under development", "is till opset")


class Refused(Exception):
    """onnxruntime does not take what was written."""


def after(command, folder=None):
    """Looks at the ONNX files that a command line wrote."""
    command = [str(w) for w in command]
    for flag, path in zip(command, command[1:]):
        if flag in ("-o", "--output") and path.endswith(".onnx"):
            why = look(os.path.join(folder or "", path))
            if why:
                print(f"not asked about {path}: {why}")


def given(session):
    """An input of each: random numbers, and zeros for integers, which are indices everywhere."""
    rng, sizes = np.random.default_rng(0), {}
    return {i.name: (np.zeros if TYPES[i.type][0] in "iu?" else lambda s, d: rng.standard_normal(s).astype(d))([d if isinstance(d, int) else sizes.setdefault(d or (i.name, n), SIZE) for n, d in enumerate(i.shape)], TYPES[i.type])
            for i in session.get_inputs()}


def look(path):
    """None, or why onnxruntime cannot be asked; Refused where it does not take the file."""
    try:
        import onnxruntime as ort
    except ImportError:
        return "this Python has no onnxruntime"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        if any(i.type not in TYPES for i in session.get_inputs()):
            return "NumPy has no such type: " + ", ".join(i.type for i in session.get_inputs())
        session.run(None, given(session))
    except Exception as error:
        said = str(error).splitlines()[0]
        if any(word in str(error) for word in BEHIND):
            return said
        raise Refused(f"onnxruntime does not take {os.path.basename(path)}: {said}") from None
    return None


def main(paths):
    taken = failed = 0
    for path in paths:
        try:
            why = look(path)
        except Refused as error:
            failed += 1
            print(error)
            continue
        taken += not why
        if why:
            print(f"not asked: {os.path.basename(path)}: {why}")
    print(f"{taken} of {len(paths)} taken")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
