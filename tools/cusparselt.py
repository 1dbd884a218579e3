"""2:4 products by cuSPARSELt's own C functions, for tools/bench_gpu.py: y = x w' with the weight compressed once and the algorithm that its search finds fastest for the
shape. torch's way to it takes the default algorithm and makes a plan in every call.

The library is what SPARTA_CUSPARSELT names (a file), or the libcusparseLt.so.0 that torch has loaded. Enumerations and sizes are those of cusparseLt.h 0.6 to 0.8.
"""

import ctypes
import os

import torch

F16, BF16 = 2, 14  # cudaDataType
COLUMNS, ROWS = 1, 2  # cusparseOrder_t
PLAIN, TURNED = 0, 1  # cusparseOperation_t
SUM_F32 = 2  # cusparseComputeType
ALGORITHM, ALIGNMENT, OLDEST = 0, 16, 600
TYPES = {torch.float16: F16, torch.bfloat16: BF16}


class Opaque(ctypes.Structure):
    """Every struct of the library: 512 bytes in 0.8, up to 11024 before."""

    _fields_ = [("data", ctypes.c_uint8 * 16384)]


def opaque():
    """On 16 bytes."""
    room = (ctypes.c_uint8 * (ctypes.sizeof(Opaque) + 16))()
    made = Opaque.from_buffer(room, -ctypes.addressof(room) % 16)
    made.room = room
    return made


class Problem(RuntimeError):
    pass


def _open():
    named = os.environ.get("SPARTA_CUSPARSELT")
    try:
        return ctypes.CDLL(named or "libcusparseLt.so.0")
    except OSError as error:
        raise Problem(f"cuSPARSELt cannot be opened ({error}); pip install nvidia-cusparselt-cu13, and name libcusparseLt.so.0 by SPARTA_CUSPARSELT") from None


def _check(name, status):
    if status:
        raise Problem(f"{name}: status {status}")


class Product:
    """One weight (rows, cols) for x (tokens, cols)."""

    def __init__(self, weight, x):
        self.library, self.x = _open(), x
        self.y = x.new_empty(x.shape[0], weight.shape[0])
        self.handle, self.plan, self.chosen = opaque(), opaque(), opaque()
        self._call("Init", self.handle)
        version = ctypes.c_int()
        self._call("GetVersion", self.handle, ctypes.byref(version))
        if version.value < OLDEST:
            raise Problem(f"cuSPARSELt {version.value} is older than {OLDEST}")
        self._describe(*weight.shape, x.shape[0], TYPES[weight.dtype])
        self._compress(weight)
        self.room = None
        self._reserve()
        self._run("MatmulSearch")
        self._reserve()  # of what was found

    def _call(self, name, *arguments):
        """Structs go by address; numbers are declared by their ctypes."""
        given = [ctypes.byref(a) if isinstance(a, Opaque) else a for a in arguments]
        _check(f"cusparseLt{name}", getattr(self.library, f"cusparseLt{name}")(*given))

    def _describe(self, rows, cols, tokens, kind):
        """w (rows, cols) by rows; x (tokens, cols) by rows, turned; y as (rows, tokens) by columns, which is (tokens, rows) by rows."""
        self.described = w, x, y, product = [opaque() for _ in range(4)]
        size, small = ctypes.c_int64, ctypes.c_int
        end = ctypes.c_uint32(ALIGNMENT), small(kind)
        self._call("StructuredDescriptorInit", self.handle, w, size(rows), size(cols), size(cols), *end, small(ROWS), small(0))
        self._call("DenseDescriptorInit", self.handle, x, size(tokens), size(cols), size(cols), *end, small(ROWS))
        self._call("DenseDescriptorInit", self.handle, y, size(rows), size(tokens), size(rows), *end, small(COLUMNS))
        self._call("MatmulDescriptorInit", self.handle, product, small(PLAIN), small(TURNED), w, x, y, y, small(SUM_F32))
        self._call("MatmulAlgSelectionInit", self.handle, self.chosen, product, small(0))
        self._call("MatmulPlanInit", self.handle, self.plan, product, self.chosen)

    def _compress(self, weight):
        size, room = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("SpMMACompressedSize", self.handle, self.plan, ctypes.byref(size), ctypes.byref(room))
        self.packed = torch.empty(size.value, dtype=torch.uint8, device=weight.device)
        self.compressing = torch.empty(max(room.value, 1), dtype=torch.uint8, device=weight.device)
        self.weight = weight.contiguous()
        self.compress()

    def compress(self):
        self._call("SpMMACompress", self.handle, self.plan, _at(self.weight), _at(self.packed), _at(self.compressing), self._stream())

    def _reserve(self):
        size = ctypes.c_size_t()
        self._call("MatmulGetWorkspace", self.handle, self.plan, ctypes.byref(size))
        if self.room is None or self.room.numel() < size.value:
            self.room = torch.empty(max(size.value, 1), dtype=torch.uint8, device=self.x.device)

    def _stream(self):
        return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def _run(self, name):
        one, zero, stream = ctypes.c_float(1), ctypes.c_float(0), self._stream()
        self._call(name, self.handle, self.plan, ctypes.byref(one), _at(self.packed), _at(self.x), ctypes.byref(zero), _at(self.y), _at(self.y), _at(self.room),
                   ctypes.byref(stream), ctypes.c_int32(1))

    def multiply(self):
        self._run("Matmul")
        return self.y

    def algorithm(self):
        """The number of what the search found."""
        found = ctypes.c_int(-1)
        self._call("MatmulAlgGetAttribute", self.handle, self.chosen, ctypes.c_int(ALGORITHM), ctypes.byref(found), ctypes.c_size_t(ctypes.sizeof(found)))
        return found.value


def _at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())
