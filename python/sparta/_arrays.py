"""Arrays of others as tensors of the library and back, without a copy: NumPy's, and whatever has __dlpack__ (torch, JAX, CuPy on the CPU)."""

import ctypes as c

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
    """(tensor, what must live as long as it): a view of an array; lists and scalars become arrays first. rows: a copy where it is not row-major."""
    import numpy as np

    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        tensor, keep = _from_dlpack(array, name)
        if not rows or _is_row_major(tensor):
            return tensor, keep
        copied = np.ascontiguousarray(borrow(tensor, keep))
        return _tensor(copied, tensor.dtype), copied
    array = np.ascontiguousarray(array).reshape(np.shape(array)) if rows else np.asarray(array)
    # Of bf16 where NumPy does not know it: only bytes come out of a package.
    code = numbers["SPARTA_BF16"] if array.dtype == np.dtype("V2") else _CODE.get(array.dtype.name)
    if code is None or not array.dtype.isnative:
        raise TypeError(f"{name}: arrays of {array.dtype} are not known")
    if array.ndim > RANK:
        raise ValueError(f"{name}: {array.ndim} dimensions; at most {RANK} are known")
    if not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return _tensor(array, code), array


def _tensor(array, code):
    t = Tensor(dtype=code, rank=array.ndim, data=array.ctypes.data)
    for i in range(array.ndim):
        t.dim[i], t.stride[i] = array.shape[i], array.strides[i] // array.itemsize
    return t


def _is_row_major(t):
    step = 1
    for i in reversed(range(t.rank)):
        if t.dim[i] != 1 and t.stride[i] != step:
            return False
        step *= t.dim[i]
    return True


def _from_dlpack(array, name):
    device, _ = array.__dlpack_device__()
    if device != 1:
        raise ValueError(f"{name}: its memory is on device {device} of DLPack; move it to the CPU")
    try:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError) as e:
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
