"""Times that were measured before, in a small JSON file beside the kernel cache:

    {what was timed: {"ways": {way: microseconds}, "at": when, in seconds, "disturbed": did others work meanwhile?}}

What was timed says everything that a time depends on: shapes, pattern, threads, versions, machine. Times that were disturbed serve the call that took
them, are not believed later, and the next quiet ones take their place; all of them grow old (docs/times.md). A file that cannot be read, or that lies
where others could write, counts as empty: times are then taken again.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import stat
import tempfile
import time
from typing import Any

from ._quiet import trusts_all

MOST = 4096  # entries; the oldest go
DAYS = 90  # for which a time is believed


def _folder() -> str:
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "sparta")


def _safe(folder: str) -> bool:
    try:
        facts = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


@functools.cache
def machine() -> str:
    """The CPU, its cores and memory, and the versions whose kernels were timed; a library that was built anew counts as another."""
    import torch

    from ._library import lib, version

    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), cpu)
    except OSError:
        pass
    folder = os.path.dirname(lib._name)
    built = [os.stat(path).st_mtime_ns for path in (lib._name, os.path.join(folder, "libsparta_torch.so")) if os.path.exists(path)]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"torch {torch.__version__}, sparta {version()} {max(built):x}, {cpu}, {os.cpu_count()} cores, {memory:.0f} GiB"


def _sound(row: Any) -> bool:
    if not isinstance(row, dict) or set(row) != {"ways", "at", "disturbed"} or not isinstance(row["ways"], dict):
        return False
    numbers = all(_number(us) and 0 < us < 1e12 for us in row["ways"].values())
    return numbers and _number(row["at"]) and 0 <= row["at"] < 1e12 and isinstance(row["disturbed"], bool)


def _number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _believed(row: dict[str, Any]) -> bool:
    """A clock that was a little ahead is none to doubt."""
    return (not row["disturbed"] or trusts_all()) and -1 < (time.time() - row["at"]) / 86400 < DAYS


class Times:
    """The file's times, and those that were taken since. anew: none of the file's is believed, and those that are taken take their place.

    >>> Times("/nowhere/at/all").get("x") is None
    True
    """

    def __init__(self, folder: str | None = None, anew: bool = False) -> None:
        self._folder = folder or _folder()
        self._path = os.path.join(self._folder, "torch-times.json")
        self._times = {} if anew else self._read()
        self._new: dict[str, dict[str, Any]] = {}

    def _read(self) -> dict[str, dict[str, Any]]:
        if not _safe(self._folder):
            return {}
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.loads(file.read(1 << 24))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and all(_sound(row) for row in found.values()) else {}

    def _row(self, key: str) -> dict[str, Any] | None:
        """What this call goes by: its own times, disturbed or not, or those of the file that it believes."""
        old = self._times.get(key)
        return self._new.get(key) or (old if old and _believed(old) else None)

    def get(self, key: str) -> dict[str, float] | None:
        row = self._row(key)
        return row and row["ways"]

    def disturbed(self, key: str) -> bool:
        """Are these times of a busy machine? Then this call took them, for this layer or for one like it."""
        row = self._row(key)
        return row is not None and row["disturbed"]

    def put(self, key: str, ways: dict[str, float], disturbed: bool = False) -> None:
        """The times of other ways stay, and then the whole is as old as they are."""
        old = self._row(key)
        row: dict[str, Any] = {"ways": dict(ways), "at": time.time(), "disturbed": disturbed}
        if old and not set(old["ways"]) <= set(ways):
            row = {"ways": {**old["ways"], **ways}, "at": old["at"], "disturbed": disturbed or old["disturbed"]}
        self._new[key] = row

    def save(self) -> None:
        """The old file or the new one is there, never a half. What another process wrote meanwhile stays."""
        if not self._new:
            return
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            if not _safe(self._folder):
                return
            merged = self._read()
            for key, row in self._new.items():
                old = merged.get(key)
                if old and row["disturbed"] and not old["disturbed"] and _believed(old):
                    continue  # a quiet time stays
                merged.pop(key, None)
                merged[key] = row
            with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False, encoding="utf-8") as file:
                json.dump(dict(list(merged.items())[-MOST:]), file, indent=0)
            os.replace(file.name, self._path)
        except OSError:
            pass
