"""The tuners by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workers.tuning.tuner import Tuner

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace


class UnknownTunerError(ValueError):
    """A tuner that does not exist; the message says which there are."""


@dataclass(frozen=True, slots=True)
class TunerEntry:
    """A tuner's ``title`` and one line on it; ``open`` begins a search with a seed."""

    title: str
    description: str
    open: Callable[[DesignSpace, int], Tuner]


def _opening(module: str, tuner: str, **options: Any) -> Callable[[DesignSpace, int], Tuner]:
    """Most of them load TVM, XGBoost or SciPy, which are optional and slow to import."""

    def opened(space: DesignSpace, seed: int) -> Tuner:
        found = getattr(import_module(f"workers.tuning.tuners.{module}"), tuner)
        begun: Tuner = found(space, seed, **options)
        return begun

    return opened


TUNERS: Mapping[str, TunerEntry] = {
    "evolutionary": TunerEntry(
        "Evolutionary search",
        "TVM MetaSchedule's: mutates the fastest candidates, ranked by an XGBoost model",
        _opening("strategies", "EvolutionaryTuner"),
    ),
    "annealing": TunerEntry(
        "Simulated annealing",
        "AutoTVM's: Markov chains against gradient-boosted trees that rank",
        _opening("annealing", "AnnealingTuner"),
    ),
    "chameleon": TunerEntry(
        "Adaptive exploration and sampling",
        "Chameleon's: a learning agent explores, and clusters say what is measured",
        _opening("chameleon", "ChameleonTuner"),
    ),
    "random": TunerEntry(
        "Random",
        "TVM's replay-trace: every decision drawn anew, nothing learnt",
        _opening("strategies", "RandomTuner"),
    ),
    "grid": TunerEntry(
        "Grid",
        "The same candidates whatever the seed and latencies, spread over the space",
        _opening("grid", "GridTuner"),
    ),
    "grid-index": TunerEntry(
        "Grid in index order",
        "The same candidates whatever the seed and latencies, the last decision varying fastest",
        _opening("grid", "GridTuner", order="index"),
    ),
}


def open_tuner(name: str, space: DesignSpace, seed: int = 0) -> Tuner:
    """Begin a search of ``space``. Raises UnknownTunerError."""
    entry = TUNERS.get(name)
    if entry is None:
        raise UnknownTunerError(f"no tuner {name!r}; there are: {', '.join(sorted(TUNERS))}")
    return entry.open(space, seed)
