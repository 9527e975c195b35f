"""The table of ONNX operators in ``docs/onnx.md``: ``python -m support.onnx_table`` writes it.

Run from ``tests/``. A test holds that the table says what the importer does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from onnx import defs
from support.onnx_nodes import NodeTest, outcome, refusals

from workers.graph.importers.onnx.model_file import OLDEST_OPSET
from workers.graph.importers.onnx.operators import describe, refused

DOCUMENT = Path(__file__).parents[2] / "docs" / "onnx.md"
_BEGIN, _END = "<!-- begin: written by tests/support/onnx_table.py -->", "<!-- end -->"


def written(outcomes: Mapping[str, tuple[NodeTest, str | None]]) -> str:
    """The document with its generated part brought up to date."""
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{_generated(outcomes)}\n{_END}{after}"


def _generated(outcomes: Mapping[str, tuple[NodeTest, str | None]]) -> str:
    passed = sum(problem is None for _, problem in outcomes.values())
    static = sum(1 for name in outcomes if refusals().get(name) not in NOT_STATIC)
    lines = [
        (
            f"Of ONNX's {len(outcomes)} node tests of the default domain on these types, {passed} "
            f"pass. {static} of them are of static, deterministic graphs: {passed / static:.1%} of "
            "those pass, compared to the tolerance of each test or to four units in the last place "
            "of its largest result."
        ),
        "",
        "| operator | versions | how | its own node tests |",
        "|---|---|---|---|",
        *_rows(outcomes),
        "",
        "### Node tests that do not pass",
        "",
        *_refused(),
    ]
    return "\n".join(lines) + "\n"


NOT_STATIC = frozenset(
    {
        "draws random numbers",
        "the shape of the result depends on the data",
        "older than the oldest version that Plait reads",
    }
)


def _rows(outcomes: Mapping[str, tuple[NodeTest, str | None]]) -> Iterable[str]:
    tests: dict[str, list[bool]] = defaultdict(list)
    for test, problem in outcomes.values():
        if len(test.model.graph.node) == 1:
            tests[test.operators[0]].append(problem is None)
    for name, versions in sorted(_versions().items()):
        ways: dict[str, list[int]] = defaultdict(list)
        for version in versions:
            ways[_way(name, version)].append(version)
        for way, those in ways.items():
            listed = ", ".join(map(str, those))
            own = tests.get(name, []) if those[-1] == versions[-1] else []
            count = f"{sum(own)} of {len(own)}" if own else ""
            yield f"| {name} | {listed} | {way} | {count} |"


def _versions() -> dict[str, list[int]]:
    """The versions of each operator that a model of a supported version can use."""
    found: dict[str, list[int]] = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found[schema.name].append(schema.since_version)
    return {
        name: [v for v in sorted(versions) if v >= _in_force(versions)]
        for name, versions in found.items()
    }


def _in_force(versions: Iterable[int]) -> int:
    """The version that the oldest supported operator set has."""
    return max((v for v in versions if v <= OLDEST_OPSET), default=0)


def _way(name: str, version: int) -> str:
    if (reason := refused("", name)) is not None:
        return f"refused: {reason}"
    if describe("", name, version) is not None:
        return "supported"
    schema = defs.get_schema(name, version, "")
    if schema.has_function or schema.has_context_dependent_function:
        return "supported, by ONNX's own definition"
    return "refused: not supported"


def _refused() -> Iterable[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in refusals().items():
        by_reason[reason].append(name)
    for reason, names in by_reason.items():
        listed = ", ".join(f"`{name}`" for name in names)
        yield f"- **{reason}** ({len(names)}): {listed}"


if __name__ == "__main__":
    from support.onnx_nodes import node_tests

    DOCUMENT.write_text(written({t.name: (t, outcome(t)) for t in node_tests()}))
