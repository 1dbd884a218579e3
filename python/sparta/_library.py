"""libsparta.so in this process: found, loaded, declared by its header; contexts, errors and notes.

A context serves one thread at a time, so every object of this package owns one, and what many threads may call at once (Package.run) takes one
from a pool. ctypes releases the interpreter's lock for the length of a call.
"""

import _thread
import contextlib
import ctypes as c
import os
import sys
import threading
import time
import warnings
import weakref

from ._header import Header, text

_FREE = {name: name + "_close" for name in ("sparta_archive", "sparta_model", "sparta_package")}  # of other handles NAME_free
QUICK = 0.02  # seconds that Ctrl-C may wait for a call
Path = str | os.PathLike[str]  # of a file, wherever one is taken
HERE = os.path.dirname(os.path.abspath(__file__))
_CLONE = os.path.dirname(os.path.dirname(HERE))


class Error(Exception):
    """What the library said. `status` is its word for it, "E_FORMAT". Those that are about values and types are ValueErrors and TypeErrors too."""

    status = "E_INTERNAL"


class InvalidValue(Error, ValueError):
    pass


class InvalidType(Error, TypeError):
    pass


class OutOfMemory(Error, MemoryError):
    pass


class DeviceFailed(Error, RuntimeError):
    pass


class Note(UserWarning):
    """What the library remarks about a call that did what it should: sizes that it assumed, times that it cannot keep."""


_KIND = {
    "E_SHAPE": InvalidValue,
    "E_RANGE": InvalidValue,
    "E_USAGE": InvalidValue,
    "E_DTYPE": InvalidType,
    "E_MEMORY": OutOfMemory,
    "E_DEVICE": DeviceFailed,
}


def _find():
    """The installed library beside this file; in a clone, the one that make built. SPARTA_LIBRARY names another."""
    given = os.environ.get("SPARTA_LIBRARY")
    installed, built = HERE + "/lib/libsparta.so.0", _CLONE + "/build/release/libsparta.so"
    library = next((path for path in ([given] if given else [installed, built]) if os.path.exists(path)), None)
    if not library:
        raise ImportError("sparta: no libsparta.so; run `make` in the clone, or `pip install .` there")
    headers = (os.path.dirname(library) + "/sparta.h", HERE + "/lib/sparta.h", _CLONE + "/include/sparta.h")
    return os.path.abspath(library), next(path for path in headers if os.path.exists(path))


def _load():
    path, header = _find()
    with open(header, encoding="utf-8") as file:
        declared = Header(file.read())
    library = c.CDLL(path)
    for name, (result, arguments) in declared.functions.items():
        if name == "sparta_plugin":  # plugins define it
            continue
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library, declared


lib, header = _load()
types, numbers = header.types, header.numbers


def new(name, **fields):
    """A struct with its size set and these fields; texts may be str."""
    unknown = sorted(set(fields) - {f[0] for f in types[name]._fields_})
    if unknown:
        raise TypeError(f"{name} has no {unknown[0]!r}")
    s = types[name](**fields)
    if s._fields_[0][0] == "size":
        s.size = c.sizeof(s)
    return s


def texts(values, name):
    """A list of them, with None at its end; None where there are none."""
    values = [text(value, name) for value in values]
    if None in values:  # it would end the list
        raise TypeError(f"{name} is a text (str, bytes or a path), not None")
    return (c.c_char_p * (len(values) + 1))(*values, None) if values else None


def string(value):
    return None if value is None else os.fsdecode(value)


def _outside():
    """How far up from who asks the code is that called this package, as warnings count it."""
    level, frame = 1, sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("sparta", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


def at_end(thing, function, *arguments):
    """Calls it when the thing is gone, but for a forked child: the threads that it would wait for are its parent's. Not when the process ends."""
    process = os.getpid()

    def call():
        try:
            if os.getpid() == process:
                function(*arguments)
        except KeyboardInterrupt:  # nobody hears what is raised here: once more, when this is over
            threading.Timer(0.001, _thread.interrupt_main).start()

    end = weakref.finalize(thing, call)
    end.atexit = False
    return end


class Context:
    """A context of the library. Use it from one thread at a time."""

    def __init__(self, **options):
        self.cx = lib.sparta_ctx_create(new("sparta_ctx_options", **options))
        if not self.cx.value:
            raise MemoryError("sparta: no memory for a context")
        self.lock = threading.RLock()
        self.quick = -1  # elements for which paced() calls directly
        self.interrupt = None  # an exception of a callback, to be raised when the call that it ended is back
        at_end(self, lib.sparta_ctx_free, self.cx)

    def call(self, name, *arguments):
        """One function of the header, which takes the context first or a handle that has it; raises what it says, and warns of what it notes."""
        self._heard(self._call, name, arguments)

    def _call(self, name, arguments):
        function = getattr(lib, name)
        given = [*arguments] if function.argtypes[0] is not types["sparta_ctx"] else [self.cx, *arguments]
        for i, of in header.texts[name]:
            given[i] = text(given[i], of)
        self.check(function(*given))

    def _heard(self, run, name, arguments):
        try:
            run(name, arguments)
        except Error:
            with contextlib.suppress(Note):  # where notes are errors this one goes first
                self._tell()
            raise
        if self.interrupt:  # too late to stop anything
            self._interrupted()
        self._tell()

    def _tell(self):
        notes = string(lib.sparta_notes(self.cx))
        if notes:
            lib.sparta_ctx_reset(self.cx)  # each is heard once
        for note in notes.splitlines():
            warnings.warn(f"sparta: {note}", Note, stacklevel=_outside())

    def long(self, name, *arguments):
        """The same for a function that may take long, in a thread of its own: Ctrl-C reaches Python at once, and cancels it. Signals come to the main
        thread alone, so that others just call."""
        main = threading.current_thread() is threading.main_thread()
        self._heard(self._beside if main else self._call, name, arguments)

    def paced(self, size, name, *arguments):
        """The same for a function that is called again and again, each time for so many elements: one that was quick for half as many is called
        directly, because a thread takes longer than a small model."""
        begin = time.perf_counter()
        if size <= self.quick:
            self.call(name, *arguments)
        else:
            self.long(name, *arguments)
        if time.perf_counter() - begin > QUICK:
            self.quick = -1
        elif size > self.quick // 2:
            self.quick = 2 * size

    def _beside(self, name, arguments):
        failed, ended, begun = [], threading.Event(), threading.Lock()

        def work():
            if not begun.acquire(blocking=False):  # it was given up
                return
            try:
                self._call(name, arguments)
            except BaseException as e:
                failed.append(e)
            ended.set()

        thread, stopped = threading.Thread(target=work, daemon=True), None
        while not ended.is_set():
            try:
                if stopped:
                    self.stop(stopped)
                    if begun.acquire(blocking=False):
                        break
                else:
                    thread.start()
                ended.wait()
            except BaseException as e:  # whatever happens here, the work ends first: it uses what the caller holds
                # No thread is to be had, as at the end of Python.
                if isinstance(e, RuntimeError) and thread.ident is None and begun.acquire(blocking=False):
                    return self._call(name, arguments)
                stopped = stopped or e
        if stopped:  # whatever came of it
            self.interrupt = stopped
            self._interrupted()
        if failed:
            raise failed[0]

    def _interrupted(self):
        interrupt, self.interrupt = self.interrupt, None
        lib.sparta_ctx_reset(self.cx)
        raise interrupt

    def stop(self, exception):
        """Cancels what runs; the call raises this where it comes back."""
        self.interrupt = self.interrupt or exception
        lib.sparta_ctx_cancel(self.cx)

    def check(self, status):
        if not status:
            return
        word = os.fsdecode(lib.sparta_status_name(status))
        message = string(lib.sparta_message(self.cx)) or word
        if self.interrupt:
            self._interrupted()
        error = _KIND.get(word, Error)(message)
        error.status = word
        raise error

    def make(self, name, *arguments):
        """The same for a function that makes a handle, its last argument."""
        kind = getattr(lib, name).argtypes[-1]._type_
        handle = kind()
        try:
            self.long(name, *arguments, c.byref(handle))
        except BaseException:
            if handle.value:  # too late to stop it
                getattr(lib, _FREE.get(kind.__name__, kind.__name__ + "_free"))(handle)
            raise
        return handle


class Handle:
    """An object of the library with a context of its own; freed before it, and before what it holds."""

    held = None  # memory that it reads

    def __init__(self, context, handle, free):
        self._context, self._handle = context, handle
        # The context is an argument so that it lives until the handle is gone.
        at_end(self, Handle._free, context, handle, free)

    @staticmethod
    def _free(context, handle, free):
        with context.lock:
            getattr(lib, free)(handle)


class Pool:
    """Things that one thread at a time uses, made when all are taken. A forked child makes its own: the threads of its parent's are not there."""

    def __init__(self, make):
        self.make, self.idle, self.process = make, [], os.getpid()

    @contextlib.contextmanager
    def one(self):
        if self.process != os.getpid():
            self.idle, self.process = [], os.getpid()
        try:
            thing = self.idle.pop()
        except IndexError:
            thing = self.make()
        try:
            yield thing
        finally:
            self.idle.append(thing)


contexts = Pool(Context)  # for calls that leave nothing behind in theirs


def version():
    """The version of the library."""
    return string(lib.sparta_version())
