"""What the zoo holds: one table, read without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Input:
    """One argument of a model: the shape of a single sample, without the batch dimension."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Entry:
    """A model: ``factory`` is ``MODULE:CALLABLE`` below ``workers.zoo``, called with ``arguments``;
    ``source`` says in one line where the architecture was published."""

    name: str
    factory: str
    source: str
    inputs: tuple[Input, ...]
    arguments: tuple[int, ...] = ()


def _image(side: int) -> tuple[Input, ...]:
    return (Input("image", (3, side, side)),)


_ENTRIES = (
    Entry(
        "inception_v3",
        "inception_v3:InceptionV3",
        "Szegedy et al. 2016, Table 1, without the auxiliary classifier",
        _image(299),
    ),
    Entry(
        "squeezenet",
        "squeezenet:SqueezeNet",
        "Iandola et al. 2016, Table 1 (version 1.0) with the complex bypass of Figure 2",
        _image(224),
    ),
)

_BY_NAME = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """The models of the table, in alphabetical order."""
    return tuple(sorted(_BY_NAME))


def find(name: str) -> Entry:
    """The model of that name. Raises KeyError, naming those that there are, if there is none."""
    entry = _BY_NAME.get(name)
    if entry is None:
        raise KeyError(f"no model {name!r} in the zoo; known: {', '.join(names())}")
    return entry


def known(name: str) -> bool:
    """Whether ``find`` would find it."""
    try:
        find(name)
    except KeyError:
        return False
    return True
