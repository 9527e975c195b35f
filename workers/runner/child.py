"""A job's own process: ``python -m workers.runner.child``, the claim as JSON on standard input.

It settles the job itself when it can (succeeded, or failed with a reason). Exit code 0 means that
the job is settled or belongs to somebody else; anything else leaves it to the supervisor.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import tempfile
import traceback
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from uuid import UUID

import orjson
from redis import Redis
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from backend.db.session import create_sync_sessions
from backend.db.tables import Upload
from backend.jobs.schemas import JobProblem, JobSpec, Purpose
from backend.settings import Settings, get_settings
from backend.storage import Storage
from workers.devices import open_device
from workers.devices.base import DeviceFacts
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile, ModelSource, ZooModel
from workers.runner.importing import run_inspection
from workers.runner.lanes import is_simulated
from workers.runner.problems import job_problem
from workers.runner.profile_store import DatabaseIndex
from workers.runner.quiet import NoisePolicy
from workers.runner.remote.bell import HostBell
from workers.runner.remote.orders import DatabaseOrders
from workers.runner.store import Claim, JobStore, LeaseLostError, redis_announcer
from workers.runner.tuning import TuningPlace, run_tuning
from workers.runner.workplace import Workplace, calm_numpy, collect_rarely, keep_kernels

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h: the service was unreachable, the job may be fine
SIMULATIONS_YIELD = 10  # simulated time does not pass; whoever measures must not be disturbed
_PR_SET_PDEATHSIG = 1


class _Interrupted(BaseException):
    """SIGTERM: the supervisor wants this attempt to end."""


def main() -> int:
    """Run the claimed job; the exit code says whether it is settled."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphan keeps measuring
    signal.signal(signal.SIGTERM, _interrupt)
    settings = get_settings()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (settings.job_memory_bytes, settings.job_memory_bytes))
    keep_kernels(settings)
    calm_numpy()
    collect_rarely()
    claim = _read_claim()
    if is_simulated(claim.spec["device"]):
        os.nice(SIMULATIONS_YIELD)
    sessions = create_sync_sessions(settings)
    announce = redis_announcer(
        Redis.from_url(settings.redis_url.get_secret_value(), socket_timeout=5)
    )
    storage = Storage(settings.storage_url)
    store = JobStore(sessions, announce, claim, storage)
    try:
        problem = _attempt(claim, sessions, storage, store, settings)
        if problem is not None:
            store.fail(problem)
    except (LeaseLostError, _Interrupted) as end:
        sys.stderr.write(f"stopping: {end or 'interrupted'}\n")
    except OperationalError as error:
        sys.stderr.write(f"the database is unreachable: {error.orig}\n")
        return TRY_AGAIN
    return 0


def _attempt(
    claim: Claim,
    sessions: sessionmaker[Session],
    storage: Storage,
    store: JobStore,
    settings: Settings,
) -> JobProblem | None:
    """Run the job; what went wrong, if it failed for a reason that another attempt would repeat."""
    spec = JobSpec.model_validate(claim.spec)
    limits = SandboxLimits(
        memory_bytes=settings.import_memory_bytes,
        seconds=settings.import_seconds,
        hidden=(settings.home,),
    )
    try:
        with tempfile.TemporaryDirectory(prefix="plait-job-") as workdir:
            directory = Path(workdir)
            source = _source(claim, spec, sessions, storage, directory)
            index = DatabaseIndex(sessions, claim.job_id)
            noise = NoisePolicy(spec.allow_noise or settings.allow_noise, settings.quiet_seconds)
            if spec.purpose is Purpose.KERNELS:
                with closing(HostBell(settings.broker_url, settings.sweep_seconds)) as bell:
                    orders = partial(_orders, store, sessions, storage, settings, bell)
                    place = TuningPlace(store, index, directory, limits, noise, orders=orders)
                    run_tuning(spec, source, place)
                return None
            if source is None:
                raise ValueError(f"a job for {spec.purpose} names no model")
            if spec.purpose is Purpose.INSPECT:
                run_inspection(spec, source, store, directory, limits)
                return None
            from workers.runner.pipeline import run_job  # noqa: PLC0415  # it loads torch

            with closing(open_device(spec.device)) as device:
                workplace = Workplace(device, index, store, directory, limits, noise)
                run_job(spec, claim.model_name, source, workplace)
    except (LeaseLostError, OperationalError):
        raise
    except Exception as error:
        problem = job_problem(error)
        if problem is None:
            traceback.print_exc()
            problem = JobProblem(kind="internal", detail=f"{type(error).__name__}: {error}")
        return problem
    return None


def _orders(
    store: JobStore,
    sessions: sessionmaker[Session],
    storage: Storage,
    settings: Settings,
    bell: HostBell,
    facts: DeviceFacts,
) -> DatabaseOrders:
    return DatabaseOrders(
        store, sessions, storage, facts.fingerprint, settings.lease_seconds, bell.ring
    )


def _source(
    claim: Claim,
    spec: JobSpec,
    sessions: sessionmaker[Session],
    storage: Storage,
    workdir: Path,
) -> ModelSource | None:
    """The job's model; None where it names tensor programs in place of one."""
    if spec.model is None:
        return None
    kind, _, name = spec.model.partition(":")
    if kind == "zoo":
        return ZooModel(name)
    with sessions() as session:
        upload = session.get_one(Upload, claim.upload_id)
    path = workdir / f"model.{upload.format}"
    storage.fetch(upload.storage_key, path)
    return ModelFile(path, upload.format)


def _read_claim() -> Claim:
    data = orjson.loads(sys.stdin.buffer.read())
    if os.getppid() != data["supervisor"]:
        sys.exit("the supervisor died before the job began")
    return Claim(
        job_id=UUID(data["job_id"]),
        fence=data["fence"],
        attempt=data["attempt"],
        spec=data["spec"],
        upload_id=UUID(data["upload_id"]) if data["upload_id"] else None,
        model_name=data["model_name"],
    )


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise _Interrupted


if __name__ == "__main__":
    sys.exit(main())
