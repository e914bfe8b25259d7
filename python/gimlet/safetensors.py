"""Reads and writes safetensors: the length of a header in eight bytes, the header as JSON, and arrays one after the other."""

import json

import numpy

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
           "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAMES = {numpy.dtype(code): name for name, code in _DTYPES.items()}


def _array(name, shape, data):
    """An array over bytes that can be written to. bfloat16 is that of ml_dtypes if it is installed, else becomes float32."""
    if name != "BF16":
        return data.view(_DTYPES[name]).reshape(shape)
    if bfloat16 is not None:
        return data.view(bfloat16).reshape(shape)
    # A bfloat16 is the upper half of the float32 of the same value.
    return (data.view("<u2").astype("<u4") << 16).view("<f4").reshape(shape)


def of_bytes(data):
    """The arrays of a whole file in memory, a `bytearray`, which they share; and its metadata."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    numbers = numpy.frombuffer(data, numpy.uint8, offset=8 + length)
    arrays = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        arrays[name] = _array(about["dtype"], about["shape"], numbers[begin:end])
    return arrays, metadata


def read(pipe):
    """The arrays that come through a pipe, each with memory of its own; None if nothing comes."""
    length = pipe.read(8)
    if len(length) < 8:
        return None
    header = json.loads(pipe.read(int.from_bytes(length, "little")))
    header.pop("__metadata__", None)
    arrays = {}
    for name, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = about["data_offsets"]
        data = numpy.empty(end - begin, numpy.uint8)
        if pipe.readinto(data) < end - begin:
            return None
        arrays[name] = _array(about["dtype"], about["shape"], data)
    return arrays


def write(file, arrays):
    """Writes arrays by name into an open file.

    Raises TypeError for an array of a type that the format does not have.
    """
    header, end, parts = {}, 0, []
    for name, array in arrays.items():
        array = numpy.asarray(array)
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        dtype = "BF16" if array.dtype.name == "bfloat16" else _NAMES.get(little.dtype)
        if dtype is None:
            raise TypeError(f"`{name}` is an array of {array.dtype}; expected bool, integers, or floats of 2, 4 or 8 bytes")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        parts.append(little)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for part in parts:
        file.write(numpy.ascontiguousarray(part).reshape(-1).view(numpy.uint8).data if part.size else b"")
