"""Arrays of others as tensors of the library and back, without a copy: NumPy's, torch's, and whatever has __dlpack__ (JAX, CuPy on the CPU).

The one place that takes them in: what the memory of an array does not say (a mask, a negative bit, a wrapper's meaning, a gradient) is honoured here
or refused in one sentence, for all who call.
"""

import ctypes as c
import math
import sys

from ._library import contexts, header, lib, numbers, types

Tensor = types["sparta_tensor"]
RANK = numbers["SPARTA_RANK"]

# Names that NumPy has; bfloat16 by ml_dtypes where that is installed, otherwise as bytes; small integers are one to a byte.
_NUMPY = {
    "F32": "float32", "F16": "float16", "F64": "float64", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32",
    "U32": "uint32", "I64": "int64", "U64": "uint64", "BOOL": "bool", "U4": "uint8", "I4": "int8", "U2": "uint8", "I2": "int8",
}  # fmt: skip
_WORD = {v: k for k, v in vars(header.sparta_dtype).items()}
_CODE = {_NUMPY[w]: getattr(header.sparta_dtype, w) for w in reversed(_NUMPY)}
_CODE["bfloat16"] = header.sparta_dtype.BF16

_capsule = c.pythonapi.PyCapsule_GetPointer
_capsule.restype, _capsule.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


def numpy_dtype(code):
    import numpy as np

    word = _WORD[code]
    if word != "BF16":
        return np.dtype(_NUMPY[word])
    try:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    except ImportError:
        return np.dtype("V2")


def dtype_name(code):
    return lib.sparta_dtype_name(code).decode()


def view(array, name="", rows=False):
    """(tensor, what must live as long as it): a view of an array that is read; lists and scalars become arrays first. A copy where the memory does
    not have the values as they are (torch's negative bit, another byte order, addresses that are no multiples), and, of rows, where it is not
    row-major.
    """
    import numpy as np

    if _is_torch(array):
        tensor, keep = _of_torch(array, name)
    elif not isinstance(array, (np.ndarray, np.generic)) and hasattr(array, "__dlpack__"):
        tensor, keep = _of_dlpack(array, name)
    else:
        tensor, keep = _of_numpy(array, name)
    if not rows or _is_row_major(tensor):
        return tensor, keep
    copied = np.array(borrow(tensor, keep), order="C", copy=True)
    return _tensor(copied, tensor.dtype), copied


def written(array, name):
    """(tensor, what must live as long as it, what to call when the call is back): the memory of an array that is written. Never a copy, which would
    leave the array as it was; but of torch's negative bit one, which is written back."""
    import numpy as np

    if _is_torch(array):
        tensor, keep = _of_torch(array, name, True)
        done = _WrittenBack(array, keep)
    elif isinstance(array, np.ndarray):
        if not array.flags.writeable:
            raise ValueError(f"{name} is read-only")
        (tensor, keep), done = _of_numpy(array, name, True), None
    else:
        raise TypeError(f"{name} is {_a(array)}, not an array that can be written")
    if _overlaps(tensor):
        raise ValueError(f"{name}: several of its elements lie at one address; give an array with memory for each")
    return tensor, keep, done or (lambda: None)


class _WrittenBack:
    """To be called when a tensor of torch was written: autograd counts it."""

    def __init__(self, array, memory):
        self.array, self.memory = array, memory

    def __call__(self):
        import torch

        if self.array.is_neg():
            with torch.no_grad():
                self.array.copy_(self.memory)
        elif not self.array.is_inference():
            torch.autograd.graph.increment_version(self.array)


def _a(array):
    return f"a {type(array).__name__}"


def _is_torch(array):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _of_numpy(array, name, writes=False):
    import numpy as np

    if is_masked(array):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; give .filled(...) of it")
    array = np.asarray(array)
    # Of bf16 where NumPy does not know it: only bytes come out of a package.
    code = numbers["SPARTA_BF16"] if array.dtype == np.dtype("V2") else _CODE.get(array.dtype.name)
    if code is None:
        raise TypeError(f"{name}: arrays of {array.dtype} are not known")
    if array.ndim > RANK:
        raise ValueError(f"{name}: {array.ndim} dimensions; at most {RANK} are known")
    if not array.dtype.isnative:
        if writes:
            raise TypeError(f"{name}: its bytes are in the other order ({array.dtype.str}), which is not written; give one of {array.dtype.name}")
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ctypes.data % array.itemsize or any(s % array.itemsize for s, n in zip(array.strides, array.shape) if n > 1):
        if writes:
            raise ValueError(f"{name}: its addresses are not multiples of {array.itemsize} bytes; give an array that is aligned")
        array = array.copy()
    return _tensor(array, code), array


def is_masked(array):
    """Is it NumPy's masked array, whose values are not all there?"""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(array, numpy.ma.MaskedArray)


def is_wrapper(array):
    """Does a tensor of torch only look like one: of a subclass with a meaning of its own, or inside of torch.func?"""
    import torch

    return type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or torch._C._functorch.is_functorch_wrapped_tensor(array)


def reaches(array):
    """Has a strided tensor of torch as much memory as its sizes say?"""
    last = array.storage_offset() + sum((n - 1) * s for n, s in zip(array.shape, array.stride()))
    return not array.numel() or (array.data_ptr() and array.untyped_storage().nbytes() >= (last + 1) * array.element_size())


def _of_torch(array, name, writes=False):
    """Its memory, where it has any: what only looks like a tensor is refused by name."""
    import torch

    if is_wrapper(array):
        raise TypeError(f"{name} is {_a(array)} without memory of its own (of a subclass, or inside of torch.func); give a plain tensor")
    if array.layout != torch.strided or array.is_nested or array.is_quantized:
        kind = "nested" if array.is_nested else "quantized" if array.is_quantized else str(array.layout)
        raise TypeError(f"{name}: a {kind} tensor is not taken here; give a dense one")
    if array.device.type != "cpu":
        raise ValueError(f"{name}: its memory is on {array.device}; move it to the CPU")
    code = _CODE.get(str(array.dtype).removeprefix("torch."))
    if code is None:
        raise TypeError(f"{name}: tensors of {array.dtype} are not known")
    if array.dim() > RANK:
        raise ValueError(f"{name}: {array.dim()} dimensions; at most {RANK} are known")
    if array.requires_grad:
        raise ValueError(f"{name}: it requires a gradient, which would be lost; give .detach() of it")
    if not reaches(array):
        raise ValueError(f"{name}: its memory is smaller than its sizes say; was its storage resized?")
    # Memory that has the values as they are: a negative bit says that it has them with the other sign.
    memory = array.resolve_neg()
    if array.numel() and array.data_ptr() % array.element_size():
        if writes:
            raise ValueError(f"{name}: its address is not a multiple of {array.element_size()} bytes; give a tensor that is aligned")
        memory = memory.clone()
    t = Tensor(dtype=code, rank=memory.dim(), data=memory.data_ptr())
    t.dim[: t.rank], t.stride[: t.rank] = memory.shape, memory.stride()
    return t, memory


def _tensor(array, code):
    t = Tensor(dtype=code, rank=array.ndim, data=array.ctypes.data)
    for i in range(array.ndim):
        t.dim[i], t.stride[i] = array.shape[i], array.strides[i] // array.itemsize
    return t


def elements(t):
    """How many a tensor of the library has."""
    return math.prod(t.dim[: t.rank])


def _is_row_major(t):
    step = 1
    for i in reversed(range(t.rank)):
        if t.dim[i] != 1 and t.stride[i] != step:
            return False
        step *= t.dim[i]
    return True


def _overlaps(t):
    """Could two elements lie at one address? Strides in order: each must pass what those before it reach."""
    reach = 0
    if 0 in t.dim[: t.rank]:
        return False
    for stride, n in sorted((abs(t.stride[i]), t.dim[i]) for i in range(t.rank) if t.dim[i] != 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def _of_dlpack(array, name):
    """Of other libraries."""
    try:
        device, _ = array.__dlpack_device__()
        if device != 1:
            raise ValueError(f"its memory is on device {device} of DLPack; move it to the CPU")
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError, ValueError) as e:
        raise ValueError(f"{name}: {e}") from None
    t = Tensor()
    # The capsule is not consumed: it frees what it holds when it goes.
    with contexts.one() as context:
        context.call("sparta_tensor_from_dlpack", _capsule(capsule, b"dltensor"), c.byref(t))
    return t, (array, capsule)


def borrow(tensor, owner):
    """A read-only NumPy view of a tensor whose memory `owner` keeps."""
    import numpy as np

    shape = tuple(tensor.dim[: tensor.rank])
    dtype = numpy_dtype(tensor.dtype)
    if not tensor.data or 0 in shape:
        return np.empty(shape, dtype)
    strides = [s * dtype.itemsize for s in tensor.stride[: tensor.rank]]
    # Strides may be negative: from the lowest byte to the highest.
    low = sum(min(s, 0) * (n - 1) for s, n in zip(strides, shape))
    high = sum(max(s, 0) * (n - 1) for s, n in zip(strides, shape)) + dtype.itemsize
    memory = (c.c_char * (high - low)).from_address(tensor.data + low)
    memory.owner = owner
    array = np.ndarray(shape, dtype, memory, -low, strides)
    array.flags.writeable = False
    return array


def copy(tensor):
    """A NumPy array of its own."""
    import numpy as np

    return np.array(borrow(tensor, None), order="C", copy=True)


def empty(code, shape):
    import numpy as np

    return np.empty(shape, numpy_dtype(code))
