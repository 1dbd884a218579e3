"""Tables of what runs each layer of a model: rows that print as a table. Without torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._library import lib, numbers, string

LAYER_COLUMNS = {
    "layer": "name",
    "shape": "shape",
    "pattern": "pattern",
    "density": "density",
    "runs as": "implement",
    "us": "us",
    "dense us": "dense_us",
    "why": "reason",
}


def left_reason(kind: str) -> str:
    """Why a weight of this kind is left, in the library's words."""
    return string(lib.sparta_left_reason(numbers["SPARTA_LEFT_" + kind]))


class Report(list):
    """Rows; print shows a table. Those of layers are as `sparta inspect --json` has them; a schedule's have columns of their own."""

    exchange: Any = None  # sparta.prune.one_shot's, of a target time

    def __init__(self, rows: Iterable[dict[str, Any]] = (), columns: dict[str, str] = LAYER_COLUMNS) -> None:
        super().__init__(rows)
        self.columns = dict(columns)

    def __str__(self) -> str:
        head = list(self.columns)
        body = [[_shown(key, row[key]) for key in self.columns.values()] for row in self]
        right = [key in ("density", "norm_kept", "error", "us", "dense_us") for key in self.columns.values()]
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        lines = [
            "  ".join(cell.rjust(w) if number else cell.ljust(w) for cell, w, number in zip(row, widths, right)).rstrip() for row in [head, *body]
        ]
        if any(r.get("us") is not None for r in self):
            lines.append(self._total())
        return "\n".join(lines)

    def _total(self) -> str:
        """Of the layers that were timed on a quiet machine, or, where none was, by what is estimated."""
        sound = [r for r in self if r.get("us") is not None and not r.get("disturbed")]
        timed = [r for r in sound if r.get("source") != "model"]
        layers = [r for r in self if r.get("left") != left_reason("EMBEDDING")]
        said = f"{sum(r['sparse'] for r in self)} of {len(layers)} layers run sparse"
        if sound:
            us, dense = (sum(r[key] for r in timed or sound) for key in ("us", "dense_us"))
            said += f"; {'those timed take' if timed else 'estimated:'} {us:.0f} us, dense {dense:.0f} us: {dense / us:.2f}x"
        busy = sum(bool(r.get("disturbed")) for r in self)
        return said + (f"; not counted: {busy} timed while other programs worked" if busy else "")


_DIGITS = {"density": 2, "norm_kept": 3, "error": 3}


def _shown(key: str, value) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return f"{value:.{_DIGITS.get(key, 0)}f}" if isinstance(value, float) else str(value)
