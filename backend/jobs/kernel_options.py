"""What a job that tunes tensor programs into kernels is asked for. Pydantic only, as the workers
import it too; programs and tuners are names here, and only a worker knows which there are."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]

MeasurerName = Literal["doppler", "naive", "serial"]
"""Several at once with what parallelism does to latencies taken out, several at once without that,
or one after another."""

MeasuringHosts = Literal["own", "all"]
"""The machine that the job runs on, or all that measure for a device like it."""

MAX_TRIALS = 100_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class KernelProgram(_Strict):
    """A tensor program: a workload by its name, or a family with sizes, of which those that are
    left out are the family's own. ``weight`` is how often it occurs in what is tuned."""

    workload: Annotated[Name | None, Field(examples=["matmul.1"])] = None
    family: Annotated[Name | None, Field(examples=["conv2d_nchw"])] = None
    sizes: Annotated[dict[str, int], Field(max_length=64)] = {}
    weight: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.workload is None) == (self.family is None):
            raise ValueError("name either a workload or a family, which may have sizes")
        if self.workload is not None and self.sizes:
            raise ValueError("a workload has its sizes; name its family to choose others")
        return self


class KernelMeasurer(_Strict):
    """How candidates are measured; ``form`` is whose REACT decides how many are in flight at once,
    ``calibrator`` whose Calibrator corrects their latencies, and only ``doppler`` has them."""

    kind: MeasurerName = "doppler"
    degree: Annotated[
        int,
        Field(
            ge=0,
            le=1024,
            description="candidates in flight at once: always for naive, at most for doppler; 0 "
            "stands for the worker's cores, or 64 on a GPU",
        ),
    ] = 0
    form: Annotated[
        Literal["paper", "published"],
        Field(description="the paper's equations, or what its published code does"),
    ] = "paper"
    calibrator: Annotated[
        Literal["pooled", "paper", "published"],
        Field(
            description="what several rounds told corrects latencies, or each round by itself: by "
            "the paper's equations, or as its published code does"
        ),
    ] = "pooled"


class KernelOptions(_Strict):
    """Which tensor programs are tuned, by which tuner, and how their candidates are measured.
    Without ``programs`` they are those of the job's model."""

    programs: Annotated[list[KernelProgram], Field(max_length=200)] = []
    tuner: Name = "evolutionary"
    measurer: KernelMeasurer = KernelMeasurer()
    trials: Annotated[
        int,
        Field(
            le=MAX_TRIALS,
            description="candidates to build and measure, of all programs together",
            json_schema_extra={"minimum": 1},
        ),
    ] = 64
    batch_size: Annotated[
        int, Field(ge=1, le=4096, description="how many candidates are proposed at once")
    ] = 64
    cold: Annotated[bool, Field(description="flush the caches before every run")] = False
    hosts: Annotated[
        MeasuringHosts,
        Field(
            description="candidates are measured on the job's own machine, or also by the "
            "measuring workers of all others whose device has the same fingerprint"
        ),
    ] = "own"

    @field_validator("trials")
    @classmethod
    def _some(cls, trials: int) -> int:
        if trials < 1:
            raise ValueError(
                f"with {trials} trials nothing would be built or measured; a program needs at"
                " least one, and 64 are a small search"
            )
        return trials
