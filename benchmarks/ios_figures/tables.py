"""Tables in Markdown of what ``sections`` computed, and where in a document they go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ios_published import LAST_BLOCK_GAINS, SAMPLE_IOS_STAGES

Row = dict[str, Any]
Rows = Sequence[Row]
Column = tuple[str, Callable[[Row], str]]

TITLES = {
    "inception_v3": "Inception-v3",
    "randwire": "RandWire",
    "nasnet_a_large": "NASNet-A-Large",
    "squeezenet": "SqueezeNet",
}


def fill(document: Path, sections: Mapping[str, Any]) -> None:
    """Replace what stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->`` by the table of
    that name, for every table with rows in ``sections``: in the section of its name or in those
    that have it before a colon. Raises ValueError if a place is missing."""
    text = document.read_text()
    for name, (section, make) in TABLES.items():
        rows = [
            row
            for title, found in sections.items()
            if title.partition(":")[0] == section
            for row in found["rows"]
        ]
        if not rows:
            continue
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        place = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        count = len(place.findall(text))
        if count != 1:
            raise ValueError(f"{document} has {count} places for the table {name!r}; it needs one")
        made = f"{begin}\n\n{make(rows)}\n\n{end}"
        text = place.sub(made.replace("\\", r"\\"), text)
    document.write_text(text)


def table(columns: Iterable[Column], rows: Rows) -> str:
    columns = list(columns)
    head = " | ".join(title for title, _ in columns)
    body = [" | ".join(value(row) for _, value in columns) for row in rows]
    return "\n".join(f"| {line} |" for line in (head, " | ".join(["---"] * len(columns)), *body))


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: TITLES.get(str(row[key]), str(row[key]))


def _ms(key: str) -> Callable[[Row], str]:
    def latency(row: Row) -> str:
        if row.get(key) is None:
            return "–"
        return f"{row[key]:.2f} ms" if abs(row[key]) >= 1 else f"{row[key]:.3g} ms"

    return latency


def _times(key: str) -> Callable[[Row], str]:
    return lambda row: "–" if row.get(key) is None else f"{row[key]:.2f} ×"


def _whole(key: str, unit: str = "") -> Callable[[Row], str]:
    return lambda row: "–" if row.get(key) is None else f"{row[key]:,.0f}{unit}"


def _against(published: str, simulated: str) -> Callable[[Row], str]:
    def difference(row: Row) -> str:
        if row.get(published) is None or row.get(simulated) is None:
            return "–"
        return f"{row[simulated] / row[published] - 1:+.0%}"

    return difference


_LATENCY: Sequence[Column] = (
    ("paper", _ms("published_ms")),
    ("simulated", _ms("simulated_ms")),
    ("difference", _against("published_ms", "simulated_ms")),
)
_GAIN: Sequence[Column] = (
    ("paper", _times("published_gain")),
    ("simulated", _times("simulated_gain")),
    ("difference", _against("published_gain", "simulated_gain")),
)
_ENGINE: Sequence[Column] = (
    ("synchronised", _ms("simulated_ms_synchronised")),
    ("difference", _against("published_ms", "simulated_ms_synchronised")),
)
_STAGES: Column = (
    "stages (of several groups, merged)",
    lambda row: f"{row['stages']} ({row['stages_of_several_groups']}, {row['stages_merged']})",
)


def _schedules(rows: Rows) -> str:
    columns = [
        ("network", _text("network")),
        ("schedule", _text("schedule")),
        *_LATENCY,
        *_ENGINE,
        *((f"gain, {title}", value) for title, value in _GAIN),
        ("without barriers", _ms("simulated_ms_without_barriers")),
        _STAGES,
    ]
    return table(columns, rows)


def _schedules_alone(rows: Rows) -> str:
    columns = [
        ("network", _text("network")),
        ("schedule", _text("schedule")),
        ("simulated", _ms("simulated_ms")),
        ("gain, simulated", _times("simulated_gain")),
        *((_ENGINE[0],) if "simulated_ms_synchronised" in rows[0] else ()),
        ("without barriers", _ms("simulated_ms_without_barriers")),
        _STAGES,
    ]
    return table(columns, rows)


def _normalised(rows: Rows) -> str:
    """Throughput against the best of each network, as the figures draw it."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    kinds = list(dict.fromkeys(row["schedule"] for row in rows))
    sources = [
        (title, key)
        for title, key in (
            ("paper", "published_ms"),
            ("simulated", "simulated_ms"),
            ("synchronised", "simulated_ms_synchronised"),
        )
        if key in rows[0]
    ]
    lines = []
    for network in networks:
        mine = [row for row in rows if row["network"] == network]
        for source, key in sources:
            best = min(row[key] for row in mine)
            lines.append(
                {"network": network, "of": source}
                | {row["schedule"]: f"{best / row[key]:.2f}" for row in mine}
            )
    columns = [("network", _text("network")), ("", _text("of"))]
    return table([*columns, *((kind, _text(kind)) for kind in kinds)], lines)


def _batches(rows: Rows) -> str:
    both = [row for row in rows if "published_ms" in row]
    columns = [
        ("batch", _text("batch")),
        ("schedule", _text("schedule")),
        *_LATENCY,
        *_ENGINE,
        ("images/s, paper", _whole("published_images_per_second")),
        ("images/s, simulated", _whole("simulated_images_per_second")),
        ("images/s, without barriers", _whole("simulated_images_per_second_without_barriers")),
    ]
    return table(columns, both)


def _batch_gains(rows: Rows) -> str:
    lines = []
    for batch in dict.fromkeys(row["batch"] for row in rows):
        mine = {row["schedule"]: row for row in rows if row["batch"] == batch}
        slow, both = mine["sequential"], mine["IOS-Both"]
        lines.append(
            both
            | {
                "published_gain": slow["published_ms"] / both["published_ms"],
                "simulated_gain": slow["simulated_ms"] / both["simulated_ms"],
            }
            | {
                kind: f"{slow['simulated_ms'] / mine[kind]['simulated_ms']:.2f} ×"
                for kind in ("greedy", "IOS-Merge", "IOS-Parallel")
            }
        )
    kinds = [
        (f"{kind}, simulated", _text(kind)) for kind in ("greedy", "IOS-Merge", "IOS-Parallel")
    ]
    columns = [
        ("batch", _text("batch")),
        *((f"IOS-Both, {title}", value) for title, value in _GAIN),
        *kinds,
        _STAGES,
    ]
    return table(columns, lines)


def _blocks(rows: Rows) -> str:
    columns = [
        ("", _text("what")),
        ("units", _text("units")),
        ("sequential, simulated", _ms("simulated_ms_sequential")),
        ("IOS-Both, simulated", _ms("simulated_ms")),
        ("gain, paper", _times("published_gain")),
        ("gain, simulated", _times("simulated_gain")),
        ("without barriers", _times("simulated_gain_without_barriers")),
    ]
    return table(columns, rows)


def _specialisation(rows: Rows) -> str:
    """One line for each that the network runs at; the least of a line is bold."""
    labels = list(dict.fromkeys(row["run_at"] for row in rows))
    lines = []
    for on in labels:
        mine = [row for row in rows if row["run_at"] == on]
        for source, key in (
            ("paper", "published_ms"),
            ("simulated", "simulated_ms"),
            ("simulated, stage by stage", "simulated_ms_stage_by_stage"),
            ("simulated, without barriers", "simulated_ms_without_barriers"),
        ):
            best = min(row[key] for row in mine)
            lines.append(
                {"run at": on, "of": source}
                | {
                    f"for {row['scheduled_for']}": f"**{row[key]:.2f} ms**"
                    if row[key] == best
                    else f"{row[key]:.2f} ms"
                    for row in mine
                }
            )
    columns = [("run at", _text("run at")), ("", _text("of"))]
    return table([*columns, *((f"for {of}", _text(f"for {of}")) for of in labels)], lines)


def _pruning(rows: Rows) -> str:
    columns = [
        ("network", _text("network")),
        ("r, s", lambda row: f"{row['r']}, {row['s']}"),
        *_LATENCY,
        *_ENGINE,
        ("stage by stage", _ms("predicted_ms")),
        *((f"gain, {title}", value) for title, value in _GAIN),
        ("search on a GPU, paper", _whole("published_seconds", " s")),
        ("distinct stages", _whole("stages_distinct")),
        ("measured", _whole("stages_measured")),
        ("CPU time, simulated", _whole("cpu_seconds", " s")),
    ]
    return table(columns, rows)


def _warps(rows: Rows) -> str:
    columns = [
        ("schedule", _text("schedule")),
        *_LATENCY,
        ("warps against sequential, paper", _times("published_warps_ratio")),
        ("resident warps, simulated", _times("simulated_warps_ratio")),
        ("difference", _against("published_warps_ratio", "simulated_warps_ratio")),
        ("stages", lambda row: ", ".join(f"`{stage}`" for stage in row["found"])),
    ]
    return table(columns, rows)


def _sample_stages(rows: Rows) -> str:
    parallel = next(row for row in rows if row["schedule"] == "IOS-Parallel")
    found = dict(zip(parallel["found"], parallel["simulated_ms_of_stages"], strict=True))
    lines = [
        {"stage": f"`{stage}`", "published_ms": published, "simulated_ms": found.get(stage)}
        for stage, published in SAMPLE_IOS_STAGES
    ]
    return table([("stage", _text("stage")), *_LATENCY], lines)


def _greedy(rows: Rows) -> str:
    """What the greedy schedule saves, which is the same decision in both; no search chose it."""
    lines = []
    for network in dict.fromkeys(row["network"] for row in rows):
        mine = {row["schedule"]: row for row in rows if row["network"] == network}
        slow, greedy = mine["sequential"], mine["greedy"]
        lines.append(
            {
                name: slow[name] - greedy[name]
                for name in ("published_ms", "simulated_ms", "simulated_ms_synchronised")
            }
            | {"network": network, "several": greedy["stages_of_several_groups"]}
        )
    columns = [
        ("network", _text("network")),
        ("stages of several groups", _text("several")),
        ("saved, paper", _ms("published_ms")),
        ("saved, simulated", _ms("simulated_ms")),
        ("saved, synchronised", _ms("simulated_ms_synchronised")),
    ]
    return table(columns, lines)


def _last_block(rows: Rows) -> str:
    columns = [
        ("scheduled for batch", _text("scheduled_for")),
        ("run at batch", _text("run_at")),
        ("simulated", _ms("simulated_ms")),
        ("without barriers", _ms("simulated_ms_without_barriers")),
        ("stages, paper", _text("published_stages")),
        ("stages, simulated", lambda row: str(len(row["stages"]))),
        ("found", lambda row: "; ".join(f"`{stage}`" for stage in row["stages"])),
    ]
    return table(columns, rows)


def _last_block_gains(rows: Rows) -> str:
    lines = []
    for batch, published in LAST_BLOCK_GAINS.items():
        mine = {row["scheduled_for"]: row for row in rows if row["run_at"] == batch}
        own = mine.pop(batch)
        (other,) = mine.values()
        gain, free = (
            other[key] / own[key] for key in ("simulated_ms", "simulated_ms_without_barriers")
        )
        lines.append(
            {
                "what": f"at batch {batch}, own schedule against the other's",
                "published_gain": published,
                "simulated_gain": gain,
                "free": free,
            }
        )
    columns = [("", _text("what")), *_GAIN, ("without barriers", _times("free"))]
    return table(columns, lines)


def _pairs(rows: Rows) -> str:
    columns = [
        ("batch", _text("batch")),
        ("convolutions", _text("units")),
        ("side by side", _ms("simulated_ms_side_by_side")),
        ("one after the other", _ms("simulated_ms_in_turn")),
        ("merged to 3 × 3", _ms("simulated_ms_merged")),
    ]
    return table(columns, rows)


def _legend(rows: Rows) -> str:
    lines = [{"letter": letter, "unit": unit} for letter, unit in rows[0]["legend"].items()]
    return table([("", _text("letter")), ("unit", _text("unit"))], lines)


TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "schedules on the V100": ("schedules_v100", _schedules),
    "throughput on the V100": ("schedules_v100", _normalised),
    "schedules on the RTX 2080 Ti": ("schedules_rtx2080ti", _schedules_alone),
    "throughput on the RTX 2080 Ti": ("schedules_rtx2080ti", _normalised),
    "schedules as CUDA Graphs": ("schedules_graph", _schedules_alone),
    "pairs": ("pairs", _pairs),
    "batch sizes": ("batches", _batches),
    "gains by batch size": ("batches", _batch_gains),
    "blocks": ("blocks", _blocks),
    "batch specialisation": ("batch_specialisation", _specialisation),
    "device specialisation": ("device_specialisation", _specialisation),
    "pruning": ("pruning", _pruning),
    "warps": ("warps", _warps),
    "stages of the sample network": ("warps", _sample_stages),
    "savings of greedy": ("schedules_v100", _greedy),
    "last block": ("last_block", _last_block),
    "gains of the last block": ("last_block", _last_block_gains),
    "units of the last block": ("last_block", _legend),
}
"""By the name of its place in the document: the section and what makes the table."""
