"""libsparta.so in this process, by its public header: what a test of many small models needs, without a process for each."""

import ctypes as c
import os

import numpy as np

from common import ROOT, Failed

LIBRARY = os.path.abspath(os.environ.get("SPARTA_LIBRARY", os.path.join(ROOT, "build/release/libsparta.so")))
RANK = 8
DTYPES = ["float32", "float16", None, "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


class Tensor(c.Structure):
    _fields_ = [("dtype", c.c_int), ("rank", c.c_int), ("dim", c.c_int64 * RANK), ("stride", c.c_int64 * RANK), ("data", c.c_void_p), ("device", c.c_int)]


class Named(c.Structure):
    _fields_ = [("name", c.c_char_p), ("tensor", Tensor)]


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("max_memory", c.c_size_t), ("strict", c.c_int), ("parallel_for", c.c_void_p), ("host", c.c_void_p),
                ("cache_dir", c.c_char_p), ("compiler", c.c_char_p)]


class CompileOptions(c.Structure):  # as far as tests set them
    _fields_ = [("size", c.c_size_t), ("masks", c.c_char_p), ("target", c.c_char_p), ("dense_only", c.c_int), ("no_measure", c.c_int),
                ("threads", c.c_int)]


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("threads", c.c_int), ("profile", c.c_int)]


def view(array):
    """A row-major array as a sparta_tensor; the array must outlive it."""
    t = Tensor(dtype=DTYPES.index(array.dtype.name), rank=array.ndim, data=array.ctypes.data)
    for i in range(array.ndim):
        t.dim[i] = array.shape[i]
        t.stride[i] = array.strides[i] // array.itemsize
    return t


def copy(tensor):
    shape = tuple(tensor.dim[: tensor.rank])
    count = int(np.prod(shape, dtype=np.int64))
    dtype = np.dtype(DTYPES[tensor.dtype])
    return np.frombuffer(c.string_at(tensor.data, count * dtype.itemsize), dtype).reshape(shape).copy() if count else np.empty(shape, dtype)


class Library:
    """One context. compiler=False: portable kernels only, no process is started."""

    def __init__(self, compiler=True):
        self.lib = c.CDLL(LIBRARY)
        self.lib.sparta_ctx_create.restype = c.c_void_p
        self.lib.sparta_message.restype = c.c_char_p
        options = ContextOptions(c.sizeof(ContextOptions))
        if not compiler:
            options.compiler = options.cache_dir = b""
        self.context = c.c_void_p(self.lib.sparta_ctx_create(c.byref(options)))

    def need(self, what, status):
        if status:
            raise Failed(f"{what}: {self.lib.sparta_message(self.context).decode(errors='replace')}")

    def compile(self, model, package, **options):
        o = CompileOptions(c.sizeof(CompileOptions), **options)
        self.need("compile", self.lib.sparta_compile(self.context, model.encode(), package.encode(), c.byref(o)))

    def run(self, package, feeds, names, threads):
        """Runs each of the feeds (name -> array) in one session; the outputs of each by name."""
        opened, session = c.c_void_p(), c.c_void_p()
        try:
            self.need("open", self.lib.sparta_package_open(self.context, package.encode(), c.byref(opened)))
            o = SessionOptions(c.sizeof(SessionOptions), threads, 0)
            self.need("session", self.lib.sparta_session_create(self.context, opened, c.byref(o), c.byref(session)))
            return [self.run_once(session, feed, names) for feed in feeds]
        finally:
            self.lib.sparta_session_free(session)
            self.lib.sparta_package_close(opened)

    def run_once(self, session, feed, names):
        inputs = (Named * len(feed))(*[Named(n.encode(), view(a)) for n, a in feed.items()])
        outputs = (Named * len(names))(*[Named(n.encode()) for n in names])
        self.need("run", self.lib.sparta_session_run(self.context, session, inputs, len(feed), outputs, len(names)))
        return {n: copy(o.tensor) for n, o in zip(names, outputs)}
