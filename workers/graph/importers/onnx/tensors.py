"""ONNX tensors to torch's."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch
from onnx import TensorProto, numpy_helper
from torch import Tensor

from workers.graph.importers.onnx.wire import MARKER
from workers.graph.importers.source import ImportFailure

DTYPES: Mapping[int, torch.dtype] = MappingProxyType(
    {
        TensorProto.FLOAT: torch.float32,
        TensorProto.DOUBLE: torch.float64,
        TensorProto.FLOAT16: torch.float16,
        TensorProto.BFLOAT16: torch.bfloat16,
        TensorProto.INT8: torch.int8,
        TensorProto.INT16: torch.int16,
        TensorProto.INT32: torch.int32,
        TensorProto.INT64: torch.int64,
        TensorProto.UINT8: torch.uint8,
        TensorProto.UINT16: torch.uint16,
        TensorProto.UINT32: torch.uint32,
        TensorProto.UINT64: torch.uint64,
        TensorProto.BOOL: torch.bool,
    }
)
"""The element types that can be computed with."""


def dtype_of(elem_type: int, what: str) -> torch.dtype:
    """torch's type for ONNX's. Raises ImportFailure naming ``what`` if there is none."""
    if elem_type not in DTYPES:
        raise ImportFailure(
            "unsupported_input",
            f"{what} is of type {TensorProto.DataType.Name(elem_type).lower()}, which Plait does "
            "not compute with; known are "
            + ", ".join(TensorProto.DataType.Name(known).lower() for known in DTYPES),
        )
    return DTYPES[elem_type]


class TensorReader:
    """Reads tensors whose bytes lie in the message, in the mapped file or in a bundle's files.

    Tensors of mapped bytes share their memory: they must not be written to.
    """

    def __init__(
        self, data: memoryview, places: Sequence[tuple[int, int]], folder: Path | None
    ) -> None:
        self._data, self._places, self._folder = data, places, folder
        self._files: dict[str, memoryview] = {}

    def read(self, proto: TensorProto) -> Tensor:
        """The tensor. Raises ImportFailure naming it if its bytes are missing or do not fit."""
        what = f"tensor {proto.name!r}"
        dtype = dtype_of(proto.data_type, what)
        shape = tuple(proto.dims)
        if any(size < 0 for size in shape):
            raise ImportFailure("malformed", f"{what} has the shape {list(shape)}")
        content = self._content(proto, what)
        if content is None:
            try:
                return torch.from_numpy(numpy_helper.to_array(proto).copy()).to(dtype)
            except (ValueError, TypeError):
                return self._via_float(proto, dtype, what)
        count = torch.Size(shape).numel()
        if len(content) != count * dtype.itemsize:
            raise ImportFailure(
                "malformed",
                f"{what} of shape {list(shape)} needs {count * dtype.itemsize} bytes but has "
                f"{len(content)}; export the model again",
            )
        if not count:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(content, dtype=dtype, count=count).reshape(shape)

    def _via_float(self, proto: TensorProto, dtype: torch.dtype, what: str) -> Tensor:
        """Types that torch does not take from NumPy, such as bfloat16."""
        try:
            array = numpy_helper.to_array(proto).astype("float32")
        except (ValueError, TypeError) as error:
            raise ImportFailure("malformed", f"{what} cannot be read: {error}") from error
        return torch.from_numpy(array).to(dtype)

    def _content(self, proto: TensorProto, what: str) -> memoryview | None:
        """The mapped bytes of the tensor; None if they are in the message."""
        if proto.data_location == TensorProto.EXTERNAL:
            return self._external(proto, what)
        marker = next((e.value for e in proto.metadata_props if e.key == MARKER), None)
        if marker is None:
            return None
        if not marker.isdecimal() or int(marker) >= len(self._places):
            raise ImportFailure("malformed", f"{what} has a {MARKER!r} entry of its own")
        start, length = self._places[int(marker)]
        return self._data[start : start + length]

    def _external(self, proto: TensorProto, what: str) -> memoryview:
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        if self._folder is None:
            raise ImportFailure(
                "malformed",
                f"{what} lies outside of the file, in {location!r}; upload a .zip of the .onnx "
                "file together with its data files, or save the model as one file",
            )
        content = self._file(location, what)
        try:
            start = int(entries.get("offset", 0))
            length = int(entries.get("length", len(content) - start))
        except ValueError as error:
            raise ImportFailure("malformed", f"{what} says no number for its place") from error
        if start < 0 or length < 0 or start + length > len(content):
            raise ImportFailure(
                "malformed",
                f"{what} lies at bytes {start} to {start + length} of {location!r}, which has "
                f"{len(content)}",
            )
        return content[start : start + length]

    def _file(self, location: str, what: str) -> memoryview:
        assert self._folder is not None  # noqa: S101  # its caller looked
        if location not in self._files:
            path = (self._folder / location).resolve()
            inside = path.is_relative_to(self._folder.resolve()) and path.is_file()
            if not location or Path(location).is_absolute() or not inside:
                raise ImportFailure(
                    "malformed", f"{what} lies in {location!r}, which is not in the bundle"
                )
            self._files[location] = mapped(path)
        return self._files[location]


def mapped(path: Path) -> memoryview:
    """The file's bytes, read when they are touched; private, so that torch may have them."""
    if not path.stat().st_size:
        return memoryview(bytearray())
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def elem_type(dtype: torch.dtype) -> int:
    """ONNX's number for a torch type; the inverse of ``dtype_of``."""
    return next(number for number, known in DTYPES.items() if known is dtype)
