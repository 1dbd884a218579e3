"""An ONNX file as bytes, for graphs that are made here: no package of ONNX is needed to write one.

    file = File()
    y = file.node("MatMul", [x, w], name="fc1")
    file.save(folder)             model.onnx; what is large is memory beside it, file.external

A message of protobuf is a list of fields, each a number and a payload; this writes the dozen messages that a graph has.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import torch

OPSET, IR = 23, 10
LARGE = 1024  # bytes; larger tensors are no part of the file
TYPES = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7,
    torch.bool: 9, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip


# ---------------------------------------------------------------- protobuf
def _number(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _int(field: int, n: int) -> bytes:
    return _number(field << 3) + _number(n)


def _bytes(field: int, payload: bytes | str) -> bytes:
    payload = payload.encode() if isinstance(payload, str) else payload
    return _number(field << 3 | 2) + _number(len(payload)) + payload


def _attribute(name: str, value: Any) -> bytes:
    """AttributeProto of an int, a float, a text or a list of ints."""
    start = _bytes(1, name)
    if isinstance(value, float):
        return start + _number(2 << 3 | 5) + struct.pack("<f", value) + _int(20, 1)
    if isinstance(value, str):
        return start + _bytes(4, value) + _int(20, 3)
    if isinstance(value, torch.Tensor):
        return start + _bytes(5, _tensor("", value)) + _int(20, 4)
    if isinstance(value, (list, tuple)):
        return start + b"".join(_int(8, int(i)) for i in value) + _int(20, 7)
    return start + _int(3, int(value)) + _int(20, 2)


def memory(tensor: torch.Tensor) -> Any:
    """The bytes of a tensor, as an array; row-major, a copy where it lies otherwise."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()


def _raw(tensor: torch.Tensor) -> bytes:
    return memory(tensor).tobytes()


def _tensor(name: str, value: torch.Tensor, location: str = "") -> bytes:
    """TensorProto. location: of its bytes where they are not in the file."""
    head = b"".join(_int(1, n) for n in value.shape) + _int(2, TYPES[value.dtype]) + _bytes(8, name)
    return head + (_bytes(13, _bytes(1, "location") + _bytes(2, location)) + _int(14, 1) if location else _bytes(9, _raw(value)))


def _value(name: str, dtype: torch.dtype, dims: list[int | str]) -> bytes:
    """ValueInfoProto; a dim is a number or a name."""
    shape = b"".join(_bytes(1, _bytes(2, d) if isinstance(d, str) else _int(1, d)) for d in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, TYPES[dtype]) + _bytes(2, shape)))


# ---------------------------------------------------------------- the file
class File:
    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.inputs: list[bytes] = []
        self.outputs: list[bytes] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self.external: dict[str, Any] = {}  # once it is saved: bytes by location
        self._constants: dict[tuple, str] = {}
        self._count = 0

    def fresh(self, word: str) -> str:
        self._count += 1
        return f"{word}_{self._count}"

    def node(self, op: str, inputs: list[str], outputs: int | list[str] = 1, name: str | None = None, **attributes: Any) -> Any:
        """Adds a node; the name of its output, or a list of them."""
        names = [self.fresh(op) for _ in range(outputs)] if isinstance(outputs, int) else outputs
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        text = b"".join(_bytes(1, i) for i in inputs) + b"".join(_bytes(2, o) for o in names) + _bytes(3, name or names[0]) + _bytes(4, op)
        self.nodes.append(text + b"".join(_bytes(5, _attribute(n, v)) for n, v in attributes.items() if v is not None))
        return names if len(names) > 1 or not isinstance(outputs, int) else names[0]

    def constant(self, value: Any, dtype: torch.dtype = torch.int64) -> str:
        """The name of a small constant: a number, or a list of them."""
        tensor = torch.tensor(value, dtype=dtype)
        key = (dtype, tuple(tensor.shape), _raw(tensor))
        if key not in self._constants:
            self._constants[key] = self.fresh("constant")
            self.tensors[self._constants[key]] = tensor
        return self._constants[key]

    def input(self, name: str, dtype: torch.dtype, dims: list[int | str]) -> None:
        self.inputs.append(_value(name, dtype, dims))

    def output(self, name: str, dtype: torch.dtype, dims: list[int | str]) -> None:
        self.outputs.append(_value(name, dtype, dims))

    def save(self, folder: str) -> str:
        """The path of the model."""
        self.external = {name: memory(t) for name, t in self.tensors.items() if t.numel() * t.element_size() > LARGE}
        weights = b"".join(_bytes(5, _tensor(name, t, name if name in self.external else "")) for name, t in self.tensors.items())
        graph = b"".join(_bytes(1, n) for n in self.nodes) + _bytes(2, "torch") + weights
        graph += b"".join(_bytes(11, v) for v in self.inputs) + b"".join(_bytes(12, v) for v in self.outputs)
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(_int(1, IR) + _bytes(2, "sparta") + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _int(2, OPSET)))
        return path
