"""The indices of a format while it is being written.

    with sparta.iter(dim=2) as (I, J):
        J.compress(coordinate=True).pack()
        levels = [I, J]

The proposal that this follows prints the first line without brackets, `with sparse.iter(dim=2) as I, J:`. Python reads that as two things to enter,
`sparse.iter(dim=2) as I` and then `J`, a global that does not exist yet. So that it runs as printed, entering an index defines the next name that the
caller's code asks for, until the `with` ends.
"""

import builtins
import dis
import sys

NAMES = "ijklmnop"


class Axis:
    """One index of a tensor; all its coordinates are there until compress() says otherwise."""

    def __init__(self, loops, expression):
        self._loops, self.expression, self.kind = loops, expression, "dense"
        self._lent = None

    def compress(self, coordinate=True):
        """Store only those that are there: where they begin and which they are (csr). Without coordinates: all up to a row's last (ragged)."""
        self.kind = "compressed" if coordinate else "ragged"
        return self

    def pack(self, width=None):
        """Behind compress(): equally many in each row, those of the longest or `width`, so that no row says where it begins (ellpack)."""
        if self.kind != "compressed":
            raise ValueError(f"axis {self.expression}: pack() needs the coordinates that compress(coordinate=True) keeps; call that first")
        if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
            raise ValueError(f"axis {self.expression}: pack(width={width!r}) must be a number of at least 1, or None for the longest row")
        self.kind = f"packed[{width or 'auto'}]"
        return self

    def bitmap(self):
        """One bit a coordinate."""
        self.kind = "bitmap"
        return self

    def level(self):
        """As the language writes it."""
        return f"{self.expression}:{self.kind}"

    def __repr__(self):
        return f"<axis {self.level()}>"

    # ---------------------------------------------------------------- `with` one index after the other
    def __iter__(self):
        return builtins.iter(self._loops.axes)

    def __enter__(self):
        self._lent = self._loops.lend(self, sys._getframe(1))
        return self

    def __exit__(self, *_):
        if self._lent:
            scope, name, old = self._lent
            self._lent = None
            if old is None:
                scope.pop(name, None)
            else:
                scope[name] = old


class Loops:
    """What iter() gives: enter it for the indices."""

    def __init__(self, dim):
        if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= len(NAMES):
            raise ValueError(f"iter(dim={dim!r}): a tensor has 1 to {len(NAMES)} dimensions")
        self.axes = tuple(Axis(self, name) for name in NAMES[:dim])

    def __enter__(self):
        self.axes[0]._lent = self.lend(self.axes[0], sys._getframe(1))
        return self.axes[0]

    def __exit__(self, *_):
        return self.axes[0].__exit__()

    def lend(self, axis, frame):
        """Defines the global that the caller enters next as the next index: (scope, name, what it was), or None where there is no such."""
        after = self.axes[self.axes.index(axis) + 1 :]
        name = after and _asked_next(frame)
        if not name or not isinstance(frame.f_globals.get(name, axis), Axis) or hasattr(builtins, name):
            return None
        old = frame.f_globals.get(name)
        frame.f_globals[name] = after[0]
        return frame.f_globals, name, old


_SILENT = ("CACHE", "PUSH_NULL", "NOP", "EXTENDED_ARG")
_ENTERS = ("BEFORE_WITH", "SETUP_WITH", "COPY")  # what follows the thing that a `with` enters: 3.11 to 3.13, 3.10, from 3.14 on


def _asked_next(frame):
    """The global that the code enters right behind storing, or dropping, what it just entered; None: it does something else."""
    code = [i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and i.opname not in _SILENT]
    if len(code) < 3 or not code[0].opname.startswith(("STORE", "POP_TOP")) or code[2].opname not in _ENTERS:
        return None
    return code[1].argval if code[1].opname in ("LOAD_GLOBAL", "LOAD_NAME") else None


def iter(dim=2):
    """The indices of a tensor with `dim` dimensions, to say how each is stored.

    >>> with iter(dim=2) as (I, J):
    ...     row = J.compress()
    ...     print([I.level(), J.level()])
    ['i:dense', 'j:compressed']
    """
    return Loops(dim)
