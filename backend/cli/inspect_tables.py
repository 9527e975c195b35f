"""What ``plait inspect`` finds, as tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def scientific(number: int) -> str:
    """Two digits, as in the IOS paper's Table 1: 7.2e12."""
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def exactly(number: int) -> str:
    """All digits, and for a long number also two: 7,150,961,274,600 (7.2e12)."""
    return f"{number:,}" if number < 1_000_000 else f"{number:,} ({scientific(number)})"


def scaled(number: float, unit: str = "") -> str:
    """With a decimal prefix: 11.5 G."""
    prefixes = iter(("k", "M", "G", "T"))
    prefix = ""
    while abs(number) >= 1000 and (larger := next(prefixes, None)):
        number, prefix = number / 1000, larger
    digits = f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
    return f"{digits} {prefix}{unit}".rstrip()


def adjacency_table(found: dict[str, Any]) -> Table:
    """One column for each convention."""
    name = found["model"] or "graph"
    table = Table(title=f"{name}: n = {found['n']}, width = {found['width']}")
    table.title_justify = "left"
    table.add_column(_pruning(found["r"], found["s"]), no_wrap=True)
    for convention in found["counts"]:
        table.add_column(convention, justify="right", overflow="fold")
    for row in ("states", "transitions", "schedules", "distinct_stages"):
        table.add_row(
            row.replace("_", " "),
            *(_adjacency_count(counts, row) for counts in found["counts"].values()),
        )
    return table


def _adjacency_count(counts: dict[str, Any], row: str) -> str:
    if row in counts:
        return exactly(counts[row])
    if row == "transitions":
        return f"more than {counts['more_than']:,}: {counts['reason']}"
    return "–"


def _pruning(r: int | None, s: int | None) -> str:
    if r is None and s is None:
        return "without pruning"
    return f"with r = {r or 'any'}, s = {s or 'any'}"


def totals_table(found: dict[str, Any]) -> Table:
    totals, path, longest = (
        found["totals"],
        found["totals"]["critical_path"],
        found["totals"]["longest_path"],
    )
    table = Table(title=f"{found['name']} at batch {found['batch_size']}", show_header=False)
    table.title_justify = "left"
    table.add_column()
    table.add_column(overflow="fold")
    share = f" ({path['flops'] / totals['flops']:.0%})" if totals["flops"] else ""
    for name, value in (
        ("graph hash", found["graph_hash"]),
        (
            "units",
            f"{totals['units']:,} ({found['granularity']}) of {totals['operators']:,} operators",
        ),
        ("edges", f"{totals['edges']:,}"),
        ("blocks", _blocks(found["blocks"])),
        ("width", f"{totals['width']} units side by side"),
        ("FLOPs", scaled(totals["flops"])),
        ("bytes moved", scaled(totals["bytes_moved"], "B")),
        ("parameters", f"{totals['parameters']:,} ({scaled(totals['weight_bytes'], 'B')})"),
        ("critical path", f"{scaled(path['flops'])} FLOPs{share} in {path['length']} units"),
        ("longest path", f"{longest['length']} units"),
    ):
        table.add_row(name, value)
    return table


def _blocks(blocks: list[dict[str, Any]]) -> str:
    distinct = sum(block["equal_to"] is None for block in blocks)
    return f"{len(blocks)}, {distinct} of them different"


def units_table(found: dict[str, Any], most: int | None) -> Table:
    """The first ``most`` Units, in topological order."""
    units = found["units"]
    table = _table("Units", len(units), most)
    for name in ("#", "unit", "kind", "FLOPs", "bytes", "parameters", "FLOP/B", "block"):
        table.add_column(name, justify="left" if name in ("unit", "kind") else "right")
    for position, unit in enumerate(units[:most]):
        table.add_row(
            str(position),
            unit["name"],
            unit["kind"],
            scaled(unit["flops"]),
            scaled(unit["bytes_moved"], "B"),
            scaled(unit["parameters"]),
            f"{unit['intensity']:.1f}",
            str(unit["block"]),
        )
    return table


def blocks_table(found: dict[str, Any], most: int | None) -> Table:
    """The first ``most`` Blocks with their counts under both conventions."""
    blocks = found["blocks"]
    pruning = _pruning(found["pruning"]["r"], found["pruning"]["s"])
    table = _table(f"Blocks, counted {pruning}", len(blocks), most)
    for name in ("#", "units", "n", "d"):
        table.add_column(name, justify="right")
    for name in (
        "transitions",
        "schedules",
        "published:\ntransitions",
        "\nschedules",
        "same as",
    ):
        table.add_column(name, justify="right", overflow="fold")
    for index, block in enumerate(blocks[:most]):
        last = block["first"] + block["n"] - 1
        table.add_row(
            f"{index}*" if block["divided"] else str(index),
            str(last) if block["n"] == 1 else f"{block['first']}–{last}",
            str(block["n"]),
            str(block["width"]),
            *_block_counts(block["counts"]["paper"]),
            *_block_counts(block["counts"]["published"]),
            "" if block["equal_to"] is None else str(block["equal_to"]),
        )
    if any(block["divided"] for block in blocks[:most]):
        table.caption = "* a piece of a part without cut points, divided where its branches join"
        table.caption_justify = "left"
    return table


def _block_counts(counts: dict[str, Any]) -> tuple[str, str]:
    if "more_than" in counts:
        return f"> {counts['more_than']:,}", "–"
    if "too_wide" in counts:
        return "not counted", "–"
    schedules = int(counts["schedules"])
    return (
        f"{counts['transitions']:,}",
        f"{schedules:,}" if schedules < 10_000 else scientific(schedules),
    )


def _table(title: str, rows: int, most: int | None) -> Table:
    if most is not None and rows > most:
        title = f"{title}: the first {most} of {rows} (all with --all)"
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
