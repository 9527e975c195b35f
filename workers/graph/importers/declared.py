"""What a file says about its own inputs: the entry ``plait_inputs.json`` in its archive.

It is for what a format cannot hold itself: the inputs' shapes of a TorchScript archive that was
scripted or frozen, and which of a program's open dimensions is the batch. An example::

    {"tokens": {"shape": ["batch", "sequence"], "dtype": "int64"},
     "image": {"shape": ["sequence", "batch", 64], "dtype": "float32"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.graph.graph import ITEM_SIZES
from workers.graph.importers.source import ImportFailure

ENTRY = "plait_inputs.json"
"""Its name among the ``extra_files`` of ``torch.export.save`` and ``torch.jit.save``."""

BATCH, SEQUENCE = "batch", "sequence"
MAX_DIMENSIONS = 16
EXAMPLE = '{"x": {"shape": ["batch", 3, 224, 224], "dtype": "float32"}}'


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """A dimension is a size, or ``BATCH`` or ``SEQUENCE``, whose sizes are the job's."""

    shape: tuple[int | str, ...]
    dtype: str


def declared_inputs(text: str | bytes) -> dict[str, DeclaredInput]:
    """The inputs by name, in the order of the call; none for an empty text.

    Raises ImportFailure naming the input that is written wrongly.
    """
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise _malformed("it holds no object")
    return {name: _input(name, given) for name, given in found.items()}


def _input(name: str, given: Any) -> DeclaredInput:
    if not isinstance(given, Mapping) or set(given) != {"shape", "dtype"}:
        raise _malformed(f"input {name!r} must have a shape and a dtype, and nothing else")
    shape, dtype = given["shape"], given["dtype"]
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise _malformed(f"input {name!r} has the dtype {dtype!r}; known: {', '.join(ITEM_SIZES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise _malformed(f"the shape of input {name!r} is no list of dimensions")
    for size in shape:
        number = isinstance(size, int) and not isinstance(size, bool) and size >= 1
        if not number and size not in (BATCH, SEQUENCE):
            raise _malformed(
                f"input {name!r} has the dimension {size!r}; a dimension is a size of at least 1, "
                f'"{BATCH}" or "{SEQUENCE}"'
            )
    return DeclaredInput(tuple(shape), dtype)


def _malformed(what: str) -> ImportFailure:
    return ImportFailure("malformed", f"the file's {ENTRY} is wrong: {what}; write it as {EXAMPLE}")
