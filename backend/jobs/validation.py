"""Whether a job can be done at all: pure, and naming every field that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from backend.db.tables import Device, Upload
from backend.devices.schemas import Capabilities, KernelOffer
from backend.jobs.kernel_options import KernelProgram
from backend.jobs.schemas import JobSpec
from backend.problems import InvalidFieldsError


def check(spec: JobSpec, devices: Sequence[Device], upload: Upload | None) -> None:
    """Raises InvalidFieldsError for what no worker could do."""
    offers = {d.name: Capabilities.model_validate(d.capabilities) for d in devices}
    errors = [
        *_model_errors(spec, offers, upload),
        *_device_errors(spec, offers),
        *_provider_errors(spec, offers.get(spec.device)),
        *(_scheduler_errors(spec, offers.get(spec.device)) if spec.purpose == "tune" else ()),
        *_kernel_errors(spec, offers.get(spec.device)),
    ]
    if errors:
        raise InvalidFieldsError(*errors)


def _model_errors(
    spec: JobSpec, offers: Mapping[str, Capabilities], upload: Upload | None
) -> Iterable[tuple[str, str]]:
    if spec.model is None:
        return
    kind, _, name = spec.model.partition(":")
    offer = offers.get(spec.device)
    if kind == "upload":
        if upload is None:
            yield "model", f"there is no upload {name}"
        elif offer is not None and upload.format not in offer.formats:
            known = _listing(offer.formats)
            yield "model", f"device {spec.device} reads {known}, not {upload.format}"
    elif offer is not None and not offer.has_model(name):
        yield "model", f"unknown zoo model {name!r}; device {spec.device} has {_listing(offer.zoo)}"


def _device_errors(spec: JobSpec, offers: Mapping[str, Capabilities]) -> Iterable[tuple[str, str]]:
    if spec.device not in offers:
        yield "device", f"unknown device {spec.device!r}; known: {_listing(offers)}"


def _provider_errors(spec: JobSpec, offer: Capabilities | None) -> Iterable[tuple[str, str]]:
    if offer is not None and spec.provider not in offer.providers:
        known = _listing(offer.providers)
        yield "provider", f"device {spec.device} has kernels of {known}, not of {spec.provider}"


def _scheduler_errors(spec: JobSpec, offer: Capabilities | None) -> Iterable[tuple[str, str]]:
    for position, name in enumerate(spec.schedulers):
        if offer is not None and name not in offer.schedulers:
            known = _listing(offer.schedulers)
            yield f"schedulers.{position}", f"unknown scheduler {name!r}; known: {known}"


def _kernel_errors(spec: JobSpec, offer: Capabilities | None) -> Iterable[tuple[str, str]]:
    """Whether sizes fit each other, only the worker can tell."""
    if spec.kernels is None:
        return
    if spec.device.startswith("sim:"):
        yield "device", "a simulated GPU runs no kernels, so none are tuned on it; take another"
    elif offer is not None and offer.kernels is None:
        message = (
            f"device {spec.device} tunes no kernels: its worker has no TVM; there,"
            " pip install 'plait[tvm]' and start it again"
        )
        yield "device", message
    elif offer is not None and offer.kernels is not None:
        tuners = [tuner.name for tuner in offer.kernels.tuners]
        if spec.kernels.tuner not in tuners:
            yield "kernels.tuner", f"unknown tuner {_meant(spec.kernels.tuner, tuners)}"
        for position, program in enumerate(spec.kernels.programs):
            yield from _program_errors(f"kernels.programs.{position}", program, offer.kernels)
        wanted, programs = spec.kernels.trials, len(spec.kernels.programs)
        if wanted < programs:
            yield "kernels.trials", f"{wanted} for {programs} programs: each needs at least one"


def _program_errors(
    field: str, program: KernelProgram, offer: KernelOffer
) -> Iterable[tuple[str, str]]:
    workloads = [workload.name for workload in offer.workloads]
    if program.workload is not None and program.workload not in workloads:
        yield f"{field}.workload", f"unknown workload {_meant(program.workload, workloads)}"
    if program.family is None:
        return
    if program.family not in offer.families:
        yield f"{field}.family", f"unknown family {_meant(program.family, offer.families)}"
        return
    known = offer.families[program.family].sizes
    for name in program.sizes:
        if name not in known:
            yield f"{field}.sizes", f"{program.family} has no size {_meant(name, known)}"


def _meant(name: str, known: Iterable[str]) -> str:
    """The name, and what is perhaps meant by it."""
    close = get_close_matches(name, list(known))
    if close:
        return f"{name!r}; perhaps {' or '.join(close)} is meant"
    return f"{name!r}; known: {_listing(known)}"


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none (has a worker been started?)"
