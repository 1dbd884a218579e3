"""sparta: a model and what is sparse about it in; the same answer, faster, out.

    import sparta

    package = sparta.compile("bert.onnx", "bert.sparta")          # checked against the model before it is written
    answer = package.run({"input_ids": ids, "attention_mask": mask})
    for layer in package.layers:
        print(layer["name"], layer["pattern"], layer["implement"], layer["reason"])

Arrays are NumPy's, or anything with __dlpack__. Errors are ValueError, TypeError, MemoryError or sparta.Error, each with a `status` and one sentence
that says where, what and what to do. Needs neither torch nor a compiler. docs/python.md is the tour.
"""

from ._library import Error, version
from .formats import Format, Packed, pack
from .package import Package, compile, inspect, load, propagate, save_arrays
from .schedule import Schedule

__version__ = version()
__all__ = ["Error", "Format", "Package", "Packed", "Schedule", "compile", "inspect", "load", "pack", "propagate", "save_arrays"]
