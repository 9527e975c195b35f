"""Models by their source: what is known of their graphs, and having it found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Device, Job, Upload
from backend.devices.repository import DeviceRepository
from backend.devices.schemas import Capabilities
from backend.devices.service import describe
from backend.jobs.repository import JobRepository
from backend.jobs.schemas import JobCreate, Purpose
from backend.jobs.service import JobService
from backend.jobs.states import FINISHED, JobState
from backend.models.repository import GraphRepository
from backend.models.schemas import GraphEntry, GraphSettings, InspectionCreate, ModelRead
from backend.problems import NotFoundError
from backend.settings import Settings
from backend.uploads.repository import UploadRepository

DEFAULT_DEVICE = "cpu"


class ModelService:
    """Works in one transaction; jobs are created through ``JobService``."""

    def __init__(self, session: AsyncSession, jobs: JobService, settings: Settings) -> None:
        self._jobs, self._settings = jobs, settings
        self._locks = JobRepository(session)
        self._graphs = GraphRepository(session)
        self._uploads = UploadRepository(session)
        self._devices = DeviceRepository(session)

    async def get(self, source: str) -> ModelRead:
        """The model and its stored graphs. Raises NotFoundError if there is no such model."""
        upload = await self._upload(source)
        entries = await self._graphs.entries(source)
        offering = [device.name for device in await self._offering(source, upload)]
        kind, _, name = source.partition(":")
        if upload is None and not offering and not entries:
            raise NotFoundError(f"no worker builds a zoo model {name!r}; GET /models/zoo lists all")
        return ModelRead(
            source=source,
            name=upload.filename if upload else name,
            kind="upload" if kind == "upload" else "zoo",
            devices=offering,
            graphs=[GraphEntry.model_validate(row, from_attributes=True) for row in entries],
        )

    async def facts(self, source: str, settings: GraphSettings) -> dict[str, Any]:
        """The facts of one graph. Raises NotFoundError, which says how to have them made."""
        facts = await self._graphs.facts(source, settings)
        if facts is None:
            await self.get(source)
            length = settings.sequence_length
            raise NotFoundError(
                f"{source} has not been inspected at batch {settings.batch_size}"
                f"{'' if length is None else f', sequence length {length}'} and granularity "
                f"{settings.granularity!r}; POST /api/v1/models/{source}/inspections starts that"
            )
        return facts

    async def inspections(self, source: str, settings: GraphSettings) -> Sequence[Job]:
        """The latest inspections of one graph, newest first. Raises NotFoundError."""
        await self.get(source)
        return await self._graphs.inspections(source, settings)

    async def inspect(self, source: str, wanted: InspectionCreate, owner: str) -> tuple[Job, bool]:
        """A new inspection and True; or, if one is on its way already, that one and False.

        Raises NotFoundError, or InvalidFieldsError if no device can import the model.
        """
        await self.get(source)
        await self._locks.serialise(_identify(source, wanted.settings))
        for job in await self._graphs.inspections(source, wanted.settings):
            if JobState(job.state) not in {*FINISHED, JobState.CANCELLING}:
                return job, False
        return await self._jobs.create(
            JobCreate(
                model=source,
                device=wanted.device or await self._idlest(source),
                batch_sizes=[wanted.batch_size],
                sequence_length=wanted.sequence_length,
                granularity=wanted.granularity,
                purpose=Purpose.INSPECT,
            ),
            owner,
            None,
        )

    async def _idlest(self, source: str) -> str:
        """Of the devices that can import the model, an online one with the fewest jobs."""
        offering = await self._offering(source, await self._upload(source))
        waiting = await self._graphs.waiting()

        def burden(device: Device) -> tuple[bool, int, str]:
            online = describe(device, self._settings).online
            return not online, waiting.get(device.name, 0), device.name

        return min(offering, key=burden).name if offering else DEFAULT_DEVICE

    async def _offering(self, source: str, upload: Upload | None) -> list[Device]:
        _, _, name = source.partition(":")
        found = []
        for device in await self._devices.all():
            offer = Capabilities.model_validate(device.capabilities)
            if upload.format in offer.formats if upload else offer.has_model(name):
                found.append(device)
        return found

    async def _upload(self, source: str) -> Upload | None:
        """The upload that ``source`` names; None for a zoo model. Raises NotFoundError."""
        kind, _, name = source.partition(":")
        if kind != "upload":
            return None
        try:
            upload = await self._uploads.get(UUID(name))
        except ValueError:
            upload = None
        if upload is None:
            raise NotFoundError(f"there is no upload {name}")
        return upload


def _identify(source: str, settings: GraphSettings) -> UUID:
    """What must not be decided twice at once, for the lock."""
    return uuid5(NAMESPACE_URL, f"plait:inspection:{source}:{settings.model_dump_json()}")
