"""An ONNX file without its large tensors, and where in the file these lie.

Parsing a model with its weights keeps three copies of them in memory: the file's bytes, the parsed
message and the tensors. Here the weights stay in the file, which is mapped: only the message around
them is copied and parsed. The format is Protocol Buffers' wire format; of ONNX it needs to know
which fields hold graphs, tensors and attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

LARGE_BYTES = 4096  # a shorter tensor is parsed with the message
MARKER = "plait.mapped"
"""Key of the ``metadata_props`` entry that stands for a tensor's bytes; its value is an index."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 64
_RAW_DATA, _TENSOR_METADATA = 9, 16

# Message → field number → message in that field, as far as tensors may lie below it.
_NESTED = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Function": {7: "Node"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {},
}


class WireError(ValueError):
    """Bytes that are no Protocol Buffers message; says at which byte it went wrong."""


@dataclass
class Slim:
    """``message`` is the model with each large tensor's bytes replaced by a marker; ``places`` are
    the first byte and the length of each in the file, by the marker's index."""

    message: bytes = b""
    places: list[tuple[int, int]] = field(default_factory=list)


def slim(data: memoryview) -> Slim:
    """Take the large tensors out of a serialised ModelProto. Raises WireError."""
    result = Slim()
    result.message = _copy(data, 0, len(data), "Model", result, 0)
    return result


def _copy(data: memoryview, start: int, end: int, kind: str, result: Slim, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise WireError(f"messages are nested more than {_MAX_DEPTH} deep at byte {start}")
    out = bytearray()
    for number, wire, first, content, stop in _fields(data, start, end):
        if wire == _BYTES and number in _NESTED[kind]:
            nested = _copy(data, content, stop, _NESTED[kind][number], result, depth + 1)
            out += _tag(number) + _varint(len(nested)) + nested
        elif kind == "Tensor" and number == _RAW_DATA and stop - content > LARGE_BYTES:
            if wire != _BYTES:
                raise WireError(f"the tensor at byte {start} has no bytes")
            marker = _text(1, MARKER) + _text(2, str(len(result.places)))
            out += _tag(_TENSOR_METADATA) + _varint(len(marker)) + marker
            result.places.append((content, stop - content))
        else:
            out += data[first:stop]
    return bytes(out)


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Each field's number, wire type, first byte, first byte of its content, and end."""
    position = start
    while position < end:
        first = position
        key, position = _read_varint(data, position, end)
        wire, content = key & 7, position
        if wire == _VARINT:
            _, position = _read_varint(data, position, end)
        elif wire == _FIXED64:
            position += 8
        elif wire == _FIXED32:
            position += 4
        elif wire == _BYTES:
            length, content = _read_varint(data, position, end)
            position = content + length
        else:
            raise WireError(f"byte {first} begins no field")
        if position > end:
            raise WireError(f"the field at byte {first} is cut off")
        yield key >> 3, wire, first, content, position


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise WireError(f"the number before byte {position} does not end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)


def _text(number: int, text: str) -> bytes:
    return _tag(number) + _varint(len(text)) + text.encode()
