"""What a tuning session tells and is resumed from: plain values with a JSON form.

A session's records are one ``RoundRecord`` for every round of measuring, each with the trials that
it decided, and at the end a ``KernelRecord`` for each program. What is not known is None, and null
in JSON; the version is raised when an older reader would misread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Protocol, Self, get_args, get_origin, get_type_hints

from workers.measure.measurement import Failure

VERSION = 1


class RecordError(ValueError):
    """JSON that is no record of this version; the message says where."""


class SpanKind(StrEnum):
    """What a process did for a candidate."""

    BUILD = "build"
    PARALLEL = "parallel"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A stretch of a process's time (the process timeline of DOPpler's Figure 7), in seconds since
    the session began. ``process`` counts those of its pool, building and measuring apart; a
    building one has no ``device``."""

    kind: SpanKind
    process: int
    device: str
    trial: int
    started_s: float
    ended_s: float
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One candidate of ``program`` (a program's key), the ``trial``-th of the session, from 1.

    ``latency_ms`` is what the tuner was told, None of a failure; ``device_ms`` and ``wall_ms`` are
    the medians by the two clocks beside others, ``alone_ms`` the one of the device when it was
    measured in isolation, if it was. ``cycles`` and ``instructions`` are medians of a call where
    the processor's counters can be read. ``build_s`` is how long a process worked on building it.
    """

    program: str
    trial: int
    candidate: str
    trace: str
    latency_ms: float | None
    device_ms: float | None
    wall_ms: float | None
    alone_ms: float | None
    cycles: float | None
    instructions: float | None
    failure: Failure | None
    reason: str
    build_s: float


@dataclass(frozen=True, slots=True)
class ReactRecord:
    """REACT's step after a round (``react.Transition``): d_p and A before and after it, γ, and
    between which bounds d_p will be after the next full round."""

    branch: str
    cause: str
    d_p_before: int
    adaptive_max_before: int
    d_p: int
    adaptive_max: int
    gamma: float
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A round of measuring, and so a point to resume from.

    ``batch`` counts what was proposed together, and ``asked`` is how many were asked for; a batch
    has one round or several, all of one ``program``. ``degree_of_parallelism`` is 0, and
    ``timeout_s`` too, where no candidate could be built. ``failures`` counts them by kind, those of
    building among them; ``outliers`` and ``remeasured`` are candidates, ``due_to_parallelism``
    failures that isolation cured, ``delta_mean`` is Eq. 4. ``started_s`` and ``ended_s`` are
    seconds since the session began, in which time between a stop and its resumption does not count.
    ``cpu_share`` is how much of the cores was used meanwhile, by anybody.
    """

    number: int
    batch: int
    asked: int
    program: str
    degree_of_parallelism: int
    timeout_s: float
    successes: int
    failures: Mapping[str, int]
    outliers: int
    remeasured: int
    due_to_parallelism: int
    delta_mean: float | None
    started_s: float
    ended_s: float
    cpu_share: float | None
    react: ReactRecord | None
    trials: tuple[TrialRecord, ...]
    spans: tuple[SpanRecord, ...]

    @property
    def timeouts(self) -> int:
        """How many candidates took too long."""
        return self.failures.get(Failure.TIMEOUT, 0)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON has it."""
        return _encode_record(self)

    @classmethod
    def from_json(cls, given: object) -> Self:
        """The inverse. Raises RecordError."""
        found: Self = _decode_record(cls, given)
        return found


@dataclass(frozen=True, slots=True)
class RankedRecord:
    """A candidate that was among the best when tuning was over, built again and measured in
    isolation: by both clocks, or a ``failure``. ``low_ms`` and ``high_ms`` are the 95 % interval of
    ``device_ms``, the median of so many ``samples``."""

    trial: int
    candidate: str
    told_ms: float
    device_ms: float | None
    wall_ms: float | None
    low_ms: float | None
    high_ms: float | None
    samples: int
    failure: Failure | None
    reason: str


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A program's best kernel: the fastest of ``ranked`` in isolation, by the device's clock.

    ``tir`` is its schedule in TVM's script and ``source`` what was generated from it: CUDA C++, or
    LLVM's assembly; ``library`` is the file that has it.
    """

    program: str
    weight: float
    trials: int
    trial: int
    candidate: str
    trace: str
    latency_ms: float
    wall_ms: float
    tir: str
    source: str
    library: str
    ranked: tuple[RankedRecord, ...]

    def to_json(self) -> dict[str, Any]:
        """The record as JSON has it."""
        return _encode_record(self)

    @classmethod
    def from_json(cls, given: object) -> Self:
        """The inverse. Raises RecordError."""
        found: Self = _decode_record(cls, given)
        return found


class Told(Protocol):
    """Hears of a session while it runs."""

    def round(self, record: RoundRecord) -> None:
        """A round is over; once this returns it is never measured again."""
        ...

    def kernel(self, record: KernelRecord) -> None:
        """A program is tuned."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should know."""
        ...


def dump_lines(records: tuple[RoundRecord, ...] | list[RoundRecord]) -> str:
    """A line of JSON for each."""
    return "".join(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in records)


def load_lines(text: str) -> list[RoundRecord]:
    """The inverse of ``dump_lines``. A last line that has no end was being written when its writer
    was killed, and is left out. Raises RecordError."""
    whole, _, _ = text.rpartition("\n")
    found = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            found.append(RoundRecord.from_json(json.loads(line)))
        except ValueError as error:
            raise RecordError(f"line {number}: {error}") from error
    return found


def _encode_record(record: RoundRecord | KernelRecord) -> dict[str, Any]:
    return {"version": VERSION, **_encode(record)}


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _encode(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    return str(value) if isinstance(value, StrEnum) else value


def _decode_record(kind: type[Any], given: object) -> Any:
    if not isinstance(given, Mapping) or given.get("version") != VERSION:
        raise RecordError(f"no {kind.__name__} of version {VERSION}")
    return _decode(kind, {key: one for key, one in given.items() if key != "version"}, "")


def _decode(kind: Any, given: Any, place: str) -> Any:
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        if given is None:
            return None
    if is_dataclass(kind):
        return _decode_fields(kind, given, place)
    if get_origin(kind) is tuple:
        items = enumerate(_expect(list, given, place))
        return tuple(_decode(get_args(kind)[0], one, f"{place}[{at}]") for at, one in items)
    if get_origin(kind) is Mapping:
        items = _expect(dict, given, place).items()
        return {key: _decode(get_args(kind)[1], one, f"{place}.{key}") for key, one in items}
    return _decode_plain(kind, given, place)


def _decode_plain(kind: Any, given: Any, place: str) -> Any:
    if issubclass(kind, StrEnum):
        try:
            return kind(given)
        except ValueError as error:
            raise RecordError(f"{place}: {error}") from error
    if kind is float and type(given) is int:
        return float(given)
    return _expect(kind, given, place)


def _decode_fields(kind: Any, given: Any, place: str) -> Any:
    found = _expect(dict, given, place)
    hints = _hints(kind)
    if found.keys() != hints.keys():
        odd = sorted(map(str, found.keys() ^ hints.keys()))
        raise RecordError(f"{place or kind.__name__}: {', '.join(odd)} missing or unknown")
    return kind(
        **{name: _decode(hint, found[name], f"{place}.{name}") for name, hint in hints.items()}
    )


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _expect(kind: type[Any], given: Any, place: str) -> Any:
    if type(given) is not kind:
        raise RecordError(f"{place}: {kind.__name__} expected, {given!r} given")
    return given
