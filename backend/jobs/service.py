"""What can be done with jobs. Every change of state passes ``backend.jobs.gate``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job, JobEvent, Upload
from backend.db.transaction import Transaction
from backend.devices.repository import DeviceRepository
from backend.events.announcer import Announcer
from backend.jobs import gate
from backend.jobs.doorbell import Doorbell
from backend.jobs.repository import JobRepository
from backend.jobs.schemas import (
    EventType,
    JobCreate,
    JobProgress,
    JobSpec,
    Purpose,
    StateEvent,
)
from backend.jobs.states import JobAction, JobState, TransitionError
from backend.jobs.validation import check
from backend.problems import ConflictError, InvalidFieldsError, NotFoundError
from backend.uploads.repository import UploadRepository


class JobService:
    """Works in one transaction; what it announces waits for the commit."""

    def __init__(self, transaction: Transaction, announcer: Announcer, doorbell: Doorbell) -> None:
        self._transaction = transaction
        self._jobs = JobRepository(transaction.session)
        self._announcer, self._doorbell = announcer, doorbell

    @property
    def _session(self) -> AsyncSession:
        return self._transaction.session

    async def create(
        self, wanted: JobCreate, owner: str, idempotency_key: str | None
    ) -> tuple[Job, bool]:
        """The new job and True; or, if ``owner`` used this key before, that job and False."""
        spec = JobSpec.model_validate(wanted.model_dump(exclude={"name"}))
        job_id = uuid4() if idempotency_key is None else _identify(owner, idempotency_key)
        if idempotency_key is not None:
            await self._jobs.serialise(job_id)
            earlier = await self._jobs.get(job_id)
            if earlier is not None:
                return _same_request(earlier, spec), False
        upload = await self._check(spec)
        job = Job(
            id=job_id,
            name=wanted.name or _model_name(spec, upload),
            model_name=_model_name(spec, upload),
            upload_id=upload.id if upload else None,
            spec=spec.model_dump(mode="json"),
            device=spec.device,
            purpose=spec.purpose.value,
            state=JobState.QUEUED.value,
            progress=JobProgress().model_dump(),
            attempt=0,
            fence=0,
            event_seq=0,
            created_at=datetime.now(UTC),
        )
        self._jobs.add(job)
        await self._session.flush()
        first = StateEvent(state=JobState.QUEUED, previous=JobState.QUEUED, attempt=0)
        self._record(gate.append(job, EventType.STATE, first.model_dump(mode="json")))
        self._ring(job)
        return job, True

    async def get(self, job_id: UUID) -> Job:
        """Raises NotFoundError."""
        job = await self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(f"there is no job {job_id}")
        return job

    async def cancel(self, job_id: UUID) -> Job:
        """Ask for the job's end: at once if nobody works on it. Raises ConflictError."""
        return await self._change(job_id, JobAction.CANCEL)

    async def retry(self, job_id: UUID) -> Job:
        """Queue a failed or cancelled job again. Raises ConflictError."""
        job = await self._change(job_id, JobAction.RETRY)
        self._ring(job)
        return job

    async def resume(self, job_id: UUID) -> Job:
        """Queue a stopped or failed job for kernels again, to go on where it was. Raises
        ConflictError."""
        job = await self.get(job_id)
        if job.purpose != Purpose.KERNELS:
            raise ConflictError(
                f"only a job for kernels goes on where it was, and {job_id} is for"
                f" {job.purpose}; retry it instead",
                state=job.state,
            )
        job = await self._change(job_id, JobAction.RESUME)
        self._ring(job)
        return job

    async def _change(self, job_id: UUID, action: JobAction) -> Job:
        job = await self._jobs.get_locked(job_id)
        if job is None:
            raise NotFoundError(f"there is no job {job_id}")
        try:
            self._record(gate.change(job, action))
        except TransitionError as error:
            raise ConflictError(f"{error}; it is job {job_id}", state=error.state) from error
        await self._session.flush()
        return job

    async def _check(self, spec: JobSpec) -> Upload | None:
        """The upload that the job names, if any. Raises InvalidFieldsError."""
        kind, _, name = (spec.model or "").partition(":")
        upload = None
        if kind == "upload":
            upload = await UploadRepository(self._session).get_shared(_parse_upload_id(name))
        check(spec, await DeviceRepository(self._session).all(), upload)
        return upload

    def _record(self, event: JobEvent) -> None:
        self._session.add(event)
        self._transaction.after_commit(partial(self._announcer.announce, event))

    def _ring(self, job: Job) -> None:
        self._transaction.after_commit(partial(self._doorbell.ring, job.device))


def _identify(owner: str, idempotency_key: str) -> UUID:
    """The job's id follows from who asks and the key, so that asking twice finds the first."""
    return uuid5(NAMESPACE_URL, f"plait:job:{owner}:{idempotency_key}")


def _same_request(earlier: Job, spec: JobSpec) -> Job:
    if JobSpec.model_validate(earlier.spec) != spec:
        raise InvalidFieldsError(
            ("Idempotency-Key", f"was used for a different job, {earlier.id}; take a new key")
        )
    return earlier


def _model_name(spec: JobSpec, upload: Upload | None) -> str:
    """What people call that which is tuned: a model, or the first of so many tensor programs."""
    if upload is not None:
        return upload.filename
    if spec.model is not None:
        return spec.model.partition(":")[2]
    programs = spec.kernels.programs if spec.kernels else []
    name = ", ".join(one.workload or one.family or "" for one in programs[:1])
    return f"{name} and {len(programs) - 1} more" if len(programs) > 1 else name


def _parse_upload_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidFieldsError(("model", f"{text!r} is not an upload's id")) from None
