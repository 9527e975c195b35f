"""Wire forms of a model and of what is known of its graph."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from backend.jobs.schemas import Granularity, Strict

BatchSize = Annotated[int, Field(ge=1, le=4096)]
SequenceLength = Annotated[int, Field(ge=1, le=1 << 20)]


class ZooModelRead(BaseModel):
    """A model that workers can build by name; ``source`` is what a job's ``model`` names."""

    name: str
    source: str
    devices: list[str]


class GraphSettings(BaseModel):
    """What a model's graph depends on beside the model."""

    batch_size: BatchSize = 1
    sequence_length: SequenceLength | None = None
    granularity: Granularity = "fused"


class GraphEntry(GraphSettings):
    """A graph whose facts are stored."""

    graph_hash: str
    created_at: datetime


class ModelRead(BaseModel):
    """A model and which of its graphs were inspected, newest first."""

    source: str
    name: str
    kind: Literal["zoo", "upload"]
    devices: Annotated[list[str], Field(description="devices whose workers can import it")]
    graphs: list[GraphEntry]


class InspectionCreate(Strict):
    """Which graph to make; without ``device``, an online device with the fewest jobs makes it."""

    batch_size: BatchSize = 1
    sequence_length: SequenceLength | None = None
    granularity: Granularity = "fused"
    device: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None

    @property
    def settings(self) -> GraphSettings:
        return GraphSettings(**self.model_dump(exclude={"device"}))


class TensorFacts(BaseModel):
    name: str
    shape: list[int]
    dtype: str


class GraphPath(BaseModel):
    """Units of which each reads what the one before it computes, by position."""

    length: int
    flops: int
    units: list[int]


class GraphTotals(BaseModel):
    """``width`` is the size of the largest set of Units of which none waits for another;
    ``critical_path`` has the most FLOPs of all paths, ``longest_path`` the most Units."""

    units: int
    operators: int
    edges: int
    flops: int
    bytes_moved: int
    parameters: int
    weight_bytes: int
    width: int
    critical_path: GraphPath
    longest_path: GraphPath


class UnitFacts(BaseModel):
    """``intensity`` is FLOPs per byte moved, ``block`` and ``successors`` are positions."""

    name: str
    kind: str
    operators: list[str]
    flops: int
    bytes_moved: int
    parameters: int
    intensity: float
    block: int
    successors: list[int]
    outputs: list[TensorFacts]


class BlockCounted(BaseModel):
    """What IOS's dynamic programming would visit: states S, transitions (S, S′), all schedules
    (a decimal string: it outgrows any number) and distinct stages."""

    states: int
    transitions: int
    schedules: str
    stages: int


class BlockMoreThan(BaseModel):
    """Counting was given up: there are more transitions than this."""

    more_than: int


class BlockTooWide(BaseModel):
    """Counting was not tried, and why."""

    too_wide: str


BlockCount = BlockCounted | BlockMoreThan | BlockTooWide


class BlockCounts(BaseModel):
    """Under the definition of IOS's paper, and as its published code counts."""

    paper: BlockCount
    published: BlockCount


class PruningFacts(BaseModel):
    """IOS's P(r, s) under which Blocks were counted; null is without a bound."""

    r: int | None
    s: int | None


class BlockFacts(BaseModel):
    """Units ``first`` to ``first + n - 1``; ``equal_to`` is the first Block with its signature."""

    first: int
    n: int
    width: int
    equal_to: int | None
    signature: str
    counts: BlockCounts


class GraphFacts(BaseModel):
    """A model's graph: Units in topological order, Blocks in series."""

    version: int
    name: str
    graph_hash: str
    granularity: Granularity
    batch_size: int
    sequence_length: int | None
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
    pruning: PruningFacts
    totals: GraphTotals
    units: list[UnitFacts]
    blocks: list[BlockFacts]
