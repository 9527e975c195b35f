"""Whether a job can be done at all: pure, and naming every field that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from backend.db.tables import Device, Upload
from backend.devices.schemas import Capabilities
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


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none (has a worker been started?)"
