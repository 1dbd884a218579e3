"""Times that were measured before, in a small JSON file beside the kernel cache: {what was timed: {way: microseconds}}.

What was timed says everything that a time depends on: shapes, pattern, threads, versions, CPU. A file that cannot be read, or that lies where others
could write, counts as empty: times are then taken again.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import stat
import tempfile

MOST = 4096  # entries; the oldest go


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
    """The CPU, and the versions whose kernels were timed; a library that was built anew counts as another."""
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
    return f"torch {torch.__version__}, sparta {version()} {max(built):x}, {cpu}"


class Times:
    """The file's times, and those that were taken since.

    >>> Times("/nowhere/at/all").get("x") is None
    True
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder or _folder()
        self._path = os.path.join(self._folder, "torch-times.json")
        self._times = self._read()
        self._new: dict[str, dict[str, float]] = {}

    def _read(self) -> dict[str, dict[str, float]]:
        if not _safe(self._folder):
            return {}
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.loads(file.read(1 << 24))
        except (OSError, ValueError, RecursionError):
            return {}
        good = isinstance(found, dict) and all(
            isinstance(ways, dict) and all(isinstance(us, (int, float)) and 0 < us < 1e12 for us in ways.values()) for ways in found.values()
        )
        return found if good else {}

    def get(self, key: str) -> dict[str, float] | None:
        return self._new.get(key) or self._times.get(key)

    def put(self, key: str, ways: dict[str, float]) -> None:
        self._new[key] = {**(self.get(key) or {}), **ways}

    def save(self) -> None:
        """The old file or the new one is there, never a half. What another process wrote meanwhile stays."""
        if not self._new:
            return
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            if not _safe(self._folder):
                return
            merged = {**self._read(), **self._new}
            with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False, encoding="utf-8") as file:
                json.dump(dict(list(merged.items())[-MOST:]), file, indent=0)
            os.replace(file.name, self._path)
        except OSError:
            pass
