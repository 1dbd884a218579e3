"""Schedules: what to do with which weights (docs/schedules.md), as text and as an object."""

from __future__ import annotations

import contextlib
import ctypes as c
import os
from typing import Any

from ._library import Context, Handle, Path, lib, string


class Rule:
    """What is said of the weights that a glob names. Each call returns the rule, so that they chain."""

    def __init__(self, schedule: Schedule, handle: Any) -> None:
        self._schedule, self._handle = schedule, handle

    def _say(self, what: str, text: object) -> Rule:
        with self._schedule._context.lock:
            self._schedule._context.call("sparta_schedule_" + what, self._handle, str(text))
        return self

    def sparsify(self, sparsifier: object) -> Rule:
        """ "magnitude(pattern=4x1, sparsity=0.9)": what decides which elements stay."""
        return self._say("sparsify", sparsifier)

    def set_format(self, format: object) -> Rule:
        """ "strip(4)": how what stays is stored."""
        return self._say("set_format", format)

    def set_implement(self, implement: object) -> Rule:
        """ "quads(RANGE=256)": what runs it, at this point of its space."""
        return self._say("set_implement", implement)

    def quantize(self, precision: object) -> Rule:
        """A precision, which the language has and no kernel yet."""
        return self._say("quantize", precision)

    def kernel(self, primitives: object) -> Rule:
        """Loops, which the language has and no kernel yet."""
        return self._say("kernel", primitives)


class Schedule(Handle):
    """A schedule. `s["encoder.*.weight"]` is a new rule; `str(s)` is its text, which Schedule.parse reads.

    >>> s = Schedule()
    >>> rule = s["encoder.*.weight"].sparsify("magnitude(pattern=4x1, sparsity=0.9)").set_format("strip(4)")
    >>> print(s)
    tensor "encoder.*.weight" {
        sparsify magnitude(pattern=4x1, sparsity=0.9)
        format strip(4)
    }
    """

    def __init__(self, folder: Path | None = None, _parse: tuple[str, str] | None = None) -> None:
        context = Context()
        self._folder, self._name = folder, _parse[1] if _parse else "schedule"
        handle = context.make("sparta_schedule_parse", *_parse, folder) if _parse else context.make("sparta_schedule_create", folder)
        super().__init__(context, handle, "sparta_schedule_free")

    @classmethod
    def parse(cls, text: str, name: str = "schedule", folder: Path | None = None) -> Schedule:
        """Masks and includes of the text lie beneath `folder`; messages say `name` where a file's would say the file."""
        return cls(folder, (text, name))

    @classmethod
    def open(cls, path: Path) -> Schedule:
        """Of a file; masks and includes lie beside it."""
        with open(path, encoding="utf-8") as file:
            return cls.parse(file.read(), os.fspath(path), os.path.dirname(os.path.abspath(path)))

    def __getitem__(self, glob: str) -> Rule:
        with self._context.lock:
            handle = lib.sparta_schedule_tensor.argtypes[-1]._type_()
            self._context.call("sparta_schedule_tensor", self._handle, glob, c.byref(handle))
        return Rule(self, handle)

    def __str__(self) -> str:
        with self._context.lock:
            out = c.c_char_p()
            self._context.check(lib.sparta_schedule_print(self._handle, c.byref(out)))
            return string(out.value).strip()

    def again(self, context: Context, stack: contextlib.ExitStack) -> Any:
        """The same as an object of another context, until the stack ends."""
        copy = context.make("sparta_schedule_parse", str(self), self._name, self._folder)
        stack.callback(lib.sparta_schedule_free, copy)
        return copy
