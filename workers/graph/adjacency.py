"""Graphs given as adjacency lists: read from JSON, checked, and put in topological order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

Successors = tuple[tuple[int, ...], ...]


class AdjacencyError(ValueError):
    """What was given is no directed acyclic graph; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """``successors[i]`` are the Units that read what Unit ``i`` computes, in any order of Units.

    ``operators`` names what each Unit is and ``model`` where the graph is from, where known.
    """

    successors: Successors
    operators: tuple[str, ...] | None = None
    model: str | None = None


def parse_adjacency(text: str | bytes) -> Adjacency:
    """The graph of a JSON object with ``successors``, a list of lists of indices, and maybe
    ``ops``, a list of strings, and ``model``, a string; other members are left alone.

    Raises AdjacencyError if it is anything else or refers to a Unit that is not there. Whether
    there are cycles is for ``topological_order`` to say.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise AdjacencyError(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except UnicodeDecodeError as error:
        raise AdjacencyError(
            f"not JSON: byte {error.start} is no text in {error.encoding}"
        ) from error
    except RecursionError as error:
        raise AdjacencyError("not a graph: the JSON is nested too deeply") from error
    if not isinstance(content, dict):
        raise AdjacencyError('the JSON must be an object: {"successors": [[1, 2], [2], []]}')
    if "successors" not in content:
        raise AdjacencyError(
            'no "successors": for each Unit, the list of the indices of those that follow it,'
            " for example [[1, 2], [2], []]"
        )
    successors = _successors(content["successors"])
    return Adjacency(
        successors, _operators(content.get("ops"), len(successors)), _model(content.get("model"))
    )


def _successors(value: object) -> Successors:
    if not isinstance(value, list):
        raise AdjacencyError(f'"successors" must be a list of lists of indices, not {_type(value)}')
    for unit, after in enumerate(value):
        where = f"successors[{unit}]"
        if not isinstance(after, list):
            raise AdjacencyError(f"{where} must be a list of indices, not {_type(after)}")
        for successor in after:
            if isinstance(successor, bool) or not isinstance(successor, int):
                raise AdjacencyError(f"{where} holds {json.dumps(successor)}, which is no index")
            if not 0 <= successor < len(value):
                raise AdjacencyError(
                    f"{where} holds {successor}, but the Units are 0 to {len(value) - 1}"
                )
            if successor == unit:
                raise AdjacencyError(f"{where} holds {unit}: a Unit cannot follow itself")
    return tuple(tuple(dict.fromkeys(after)) for after in value)


def _operators(value: object, count: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise AdjacencyError('"ops" must be a list of strings')
    if len(value) != count:
        raise AdjacencyError(f'"ops" names {len(value)} Units, "successors" has {count}')
    return tuple(value)


def _model(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise AdjacencyError(f'"model" must be a string, not {_type(value)}')


def _type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def topological_order(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The Units in an order in which every one comes before its successors; the order given, if
    it is one already.

    Raises AdjacencyError that names the Units of a cycle.
    """
    if all(after > unit for unit, afters in enumerate(successors) for after in afters):
        return tuple(range(len(successors)))
    waiting_for = [0] * len(successors)
    for after in successors:
        for successor in after:
            waiting_for[successor] += 1
    order = [unit for unit, count in enumerate(waiting_for) if not count]
    for unit in order:  # grows as it goes
        for successor in successors[unit]:
            waiting_for[successor] -= 1
            if not waiting_for[successor]:
                order.append(successor)
    if len(order) < len(successors):
        cycle = " → ".join(map(str, _cycle(successors, waiting_for)))
        raise AdjacencyError(f"the graph has a cycle: {cycle}; Units in it wait for each other")
    return tuple(order)


def _cycle(successors: Sequence[Sequence[int]], waiting_for: Sequence[int]) -> list[int]:
    """A cycle, its first Unit repeated at the end: every Unit that still waits follows another
    that does, so walking back from one comes around."""
    before = {
        successor: unit
        for unit, after in enumerate(successors)
        if waiting_for[unit]
        for successor in after
    }
    walk = [next(unit for unit, count in enumerate(waiting_for) if count)]
    while (unit := before[walk[-1]]) not in walk:
        walk.append(unit)
    return [unit, *reversed(walk[walk.index(unit) :])]


def in_topological_order(successors: Sequence[Sequence[int]]) -> Successors:
    """The same graph with its Units renumbered so that every one comes before its successors.

    Raises AdjacencyError as ``topological_order`` does.
    """
    order = topological_order(successors)
    number = {unit: position for position, unit in enumerate(order)}
    return tuple(tuple(sorted(number[after] for after in successors[unit])) for unit in order)
