"""Zip archives, good and hostile."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

EXPORTED: Mapping[str, bytes] = {
    "model/models/model.json": b"{}",
    "model/data/weights/weight_0": bytes(range(256)) * 16,
    "model/archive_format": b"pt2",
    "model/archive_version": b"0",
}

SCRIPTED: Mapping[str, bytes] = {
    "net/data.pkl": b"\x80\x02}.",
    "net/code/__torch__.py": b"class Net(Module):\n",
    "net/constants.pkl": b"\x80\x02).",
    "net/version": b"3\n",
}
"""What torch.jit.save writes."""

PICKLED: Mapping[str, bytes] = {
    "net/data.pkl": b"\x80\x02}.",
    "net/data/0": b"weights",
    "net/version": b"3\n",
}
"""What torch.save writes."""

ONNX = b"\x08\x0a\x12\x07pytorch"
"""The beginning of a ModelProto: its IR version and its producer."""

BUNDLE: Mapping[str, bytes] = {"net/model.onnx": ONNX, "net/model.onnx.data": b"weights"}
"""An ONNX model and its external data."""


def archive(members: Mapping[str, bytes] = EXPORTED, compress: bool = False) -> bytes:
    """A zip; by default one that looks like torch.export.save's."""
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return buffer.getvalue()


def with_link() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, content in EXPORTED.items():
            zipped.writestr(name, content)
        link = zipfile.ZipInfo("model/link")
        link.external_attr = 0o120777 << 16
        zipped.writestr(link, "/etc/passwd")
    return buffer.getvalue()


def with_duplicate() -> bytes:
    """The same name twice, which zipfile itself would warn of."""
    return archive({**EXPORTED, "model/data/weights/weight_X": b"x"}).replace(
        b"weight_X", b"weight_0"
    )


def with_overlap() -> bytes:
    """Two entries of the directory that share one body."""
    data = bytearray(archive({"model/archive_format": b"x" * 1000, "model/other": b"y" * 1000}))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<L", data, second + 42, 0)
    return bytes(data)


def bomb() -> bytes:
    """A thousand times smaller than what it unpacks to."""
    return archive({**EXPORTED, "model/zeros": bytes(50 << 20)}, compress=True)


def with_huge_directory() -> bytes:
    """An end record that claims a central directory of a gigabyte."""
    data = bytearray(archive())
    end = data.rindex(b"PK\x05\x06")
    struct.pack_into("<L", data, end + 12, 1 << 30)
    return bytes(data)


def encrypted() -> bytes:
    data = bytearray(archive())
    first = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, first + 8, 1)
    return bytes(data)
