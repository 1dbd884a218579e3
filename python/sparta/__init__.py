"""sparta: a model and what is sparse about it in; the same answer, faster, out.

    import sparta

    package = sparta.compile("bert.onnx", "bert.sparta")          # checked against the model before it is written
    answer = package.run({"input_ids": ids, "attention_mask": mask})
    for layer in package.layers:
        print(layer["name"], layer["pattern"], layer["implement"], layer["reason"])

Arrays are NumPy's, or anything with __dlpack__. Errors are ValueError, TypeError, MemoryError or sparta.Error, each with a `status` and one sentence
that says where, what and what to do. Needs neither torch nor a compiler. docs/python.md is the tour.
"""

from typing import TYPE_CHECKING, Any

from ._library import Error, Note, version
from .expression import Expression, expr
from .formats import Format, Packed, pack
from .package import Package, compile, inspect, load, propagate, save_arrays
from .schedule import Schedule

if TYPE_CHECKING:  # what __getattr__ finds
    from . import attention, compat, masked, nn, patterns, prune, sparsifiers, tensors, testing
    from ._files import report, verify
    from ._loops import iter
    from .compact import compact_
    from .model_schedule import create_schedule
    from .sparsifiers import Sparsifier
    from .stages import build_, sparsify_, unbuild_
    from .tensors import (
        BitmapTensor,
        BsrTensor,
        CooTensor,
        CscTensor,
        CsfTensor,
        CsrTensor,
        DcsrTensor,
        DiaTensor,
        EllpackTensor,
        NMTensor,
        SparseTensor,
    )
    from .tuning import build, tune

# What is imported when it is first asked for, by module; most of it needs torch.
_LATER = {
    "_files": ("report", "verify"),
    "_loops": ("iter",),
    "model_schedule": ("create_schedule",),
    "compact": ("compact_",),
    "sparsifiers": ("Sparsifier",),
    "stages": ("build_", "sparsify_", "unbuild_"),
    "tensors": (
        "BitmapTensor",
        "BsrTensor",
        "CooTensor",
        "CscTensor",
        "CsfTensor",
        "CsrTensor",
        "DcsrTensor",
        "DiaTensor",
        "EllpackTensor",
        "NMTensor",
        "SparseTensor",
    ),
    "tuning": ("build", "tune"),
}
_MODULES = ("attention", "compat", "masked", "nn", "patterns", "prune", "sparsifiers", "tensors", "testing")
_WHERE = {name: module for module, names in _LATER.items() for name in names}

__version__ = version()
__all__ = [
    "Error",
    "Expression",
    "Format",
    "Note",
    "Package",
    "Packed",
    "Schedule",
    "compile",
    "expr",
    "inspect",
    "load",
    "pack",
    "propagate",
    "save_arrays",
    *_WHERE,
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _WHERE:
        globals()[name] = value = getattr(importlib.import_module("." + _WHERE[name], __name__), name)
        return value
    raise AttributeError(f"module 'sparta' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES})
