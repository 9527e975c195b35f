"""The blocks of the IOS paper's Table 1, from ``tests/reference/ios_table1``.

The published counts follow from: concat and add count as Units, the block's entry does not, no
pruning, and endings are disjoint unions of principal filters (the ``published`` convention).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.schedulers.counts import Counts

Bound = int | None

FILES = Path(__file__).parents[1] / "reference" / "ios_table1"


@dataclass(frozen=True)
class Table1Block:
    """``published`` and ``paper`` map (r, s) to the exact counts under each convention, where the
    file has them; ``transitions`` and ``schedules`` are the digits that the paper prints."""

    file: Path
    units: int
    width: int
    successors: tuple[tuple[int, ...], ...]
    transitions: str
    schedules: str
    published: dict[tuple[Bound, Bound], Counts]
    paper: dict[tuple[Bound, Bound], Counts]


def _load(name: str) -> Table1Block:
    file = FILES / f"{name}.json"
    content = json.loads(file.read_text())
    exact = content.get("exact_counts", {})
    return Table1Block(
        file=file,
        units=content["n"],
        width=content["width"],
        successors=tuple(tuple(after) for after in content["successors"]),
        transitions=content["paper_table1"]["transitions"],
        schedules=content["paper_table1"]["schedules"],
        published=_counts(exact, "principal_filters"),
        paper=_counts(exact, "all_endings"),
    )


def _counts(exact: dict[str, Any], convention: str) -> dict[tuple[Bound, Bound], Counts]:
    found: dict[tuple[Bound, Bound], Counts] = {}
    for key, value in exact.items():
        match = re.fullmatch(r"(\w+) r=(\w+) s=(\w+)", key)
        assert match is not None, key
        if match[1] == convention:
            r, s = (None if bound == "None" else int(bound) for bound in match.groups()[1:])
            found[r, s] = Counts(
                states=value["states"],
                transitions=value["transitions"],
                schedules=value["schedules"],
                stages=value["distinct_stages"],
            )
    return found


INCEPTION_V3, SQUEEZENET, NASNET_LARGE, RANDWIRE_LARGE = BLOCKS = tuple(
    _load(name) for name in ("inception_v3", "squeezenet", "nasnet_large", "randwire_large")
)
