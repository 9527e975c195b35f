"""The formats that can be imported. Needs no torch: a worker announces them when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "onnx": "workers.graph.importers.onnx",
        "onnx.zip": "workers.graph.importers.onnx_bundle",
        "pt2": "workers.graph.importers.pt2",
        "torchscript": "workers.graph.importers.torchscript",
    }
)
"""The module that opens each format, by the format's usual file ending.

Every module has a function ``open_model`` (``opened.Opener``); only the sandbox imports them.
``pt2`` is the archive that ``torch.export.save`` writes, ``torchscript`` is ``torch.jit.save``'s.
"""
