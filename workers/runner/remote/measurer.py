"""A measuring host: claims the orders that are placed for its device, and measures them."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from backend.storage import Storage
from workers.devices.base import DeviceFacts
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.subject import Outcome
from workers.runner.remote.claims import ClaimedBatch, ClaimedOrder, HostClaims
from workers.runner.remote.files import OrderFiles, WrongFileError
from workers.runner.remote.forms import AnswerForm, EffortForm, KernelForm
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.program import ProgramError

logger = logging.getLogger(__name__)


class RemoteMeasurer:
    """Measures on the device of ``facts`` in one thread, and says in another one that it is there.

    ``look_s`` is how often it looks for orders though nobody rang. Its measuring processes end
    with its thread, and so with the process that it is in.
    """

    def __init__(
        self,
        claims: HostClaims,
        storage: Storage,
        facts: DeviceFacts,
        heartbeat_s: float,
        look_s: float,
        ended: Callable[[], None],
    ) -> None:
        """``ended`` is called if it cannot go on, as another one has its name, say."""
        self._claims, self._storage, self._facts = claims, storage, facts
        self._heartbeat_s, self._look_s, self._ended = heartbeat_s, look_s, ended
        self._bell, self._stopping = threading.Event(), threading.Event()
        self._held: frozenset[int] = frozenset()
        self._unwanted: frozenset[int] = frozenset()

    def start(self) -> None:
        """Register, and measure from now on."""
        for work in (self._live, self._measure):
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def ring(self) -> None:
        """There may be orders."""
        self._bell.set()

    def stop(self) -> None:
        """Begin nothing more, and let others have what is not answered."""
        self._stopping.set()
        self._bell.set()
        try:
            self._claims.leave()
        except SQLAlchemyError as error:
            logger.warning("could not hand back what is not answered, its lease will: %s", error)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # a thread's end that nobody notices
            logger.exception("measuring cannot go on")
        if not self._stopping.is_set():
            self._stopping.set()
            self._ended()

    def _live(self) -> None:
        registered = False
        while not self._stopping.is_set():
            try:
                if not registered:
                    self._claims.register(self._facts)
                    registered = True
                elif not self._renew():
                    logger.error("another measuring worker has this one's name; give each its own")
                    return
            except SQLAlchemyError as error:
                logger.warning("no heartbeat: %s", error)
            self._stopping.wait(self._heartbeat_s)

    def _renew(self) -> bool:
        """Whether the name is ours, or does not matter any more."""
        held = self._held
        renewed = self._claims.renew(held)
        if not renewed.wanted:
            self._unwanted = held
        return renewed.ours or self._stopping.is_set()

    def _measure(self) -> None:
        load = "load_cpu" if self._facts.gpu is None else "load_cuda"
        with (
            tempfile.TemporaryDirectory(prefix="plait-measuring-") as folder,
            closing(
                WorkerPool([self._facts.name], f"workers.tuning.kernels.runtime:{load}")
            ) as pool,
        ):
            files = OrderFiles(self._storage, Path(folder))
            while not self._stopping.is_set():
                self._bell.clear()
                try:
                    batch = self._claims.claim()
                    if batch is not None:
                        self._answer(batch, pool, files)
                        continue
                except SQLAlchemyError as error:
                    logger.warning("the database is unreachable: %s", error)
                self._bell.wait(self._look_s)

    def _answer(self, batch: ClaimedBatch, pool: WorkerPool, files: OrderFiles) -> None:
        """Measure a batch, and tell of each as soon as it is done. What happens to the batch as a
        whole is no fault of its candidates: others may measure them."""
        self._held = frozenset(order.ticket for order in batch.orders)
        try:
            files.clear()
            self._measure_batch(batch, pool, files)
        except SQLAlchemyError:
            raise
        except Exception as error:  # whatever it is, the next batch may be fine
            logger.exception("a batch of orders could not be measured")
            for order in batch.orders:
                self._claims.refuse(order.ticket, f"{type(error).__name__}: {error}")
        finally:
            self._held = frozenset()

    def _measure_batch(self, batch: ClaimedBatch, pool: WorkerPool, files: OrderFiles) -> None:
        effort = EffortForm.model_validate(batch.effort).effort()
        ready: list[tuple[int, KernelSubject]] = []
        for order in batch.orders:
            try:
                ready.append((order.ticket, _unpacked(order, batch, files)))
            except (ValidationError, ProgramError, WrongFileError, FileNotFoundError) as error:
                logger.warning("order %s is refused: %s", order.ticket, error)
                self._claims.refuse(order.ticket, str(error))

        def tell(outcome: Outcome) -> None:
            form = AnswerForm.of(outcome, batch.claimed_s - pool.made_s)
            ticket = ready[outcome.position][0]
            if not self._claims.answer(ticket, form.model_dump(mode="json")):
                logger.info("nobody waits for order %s any more", ticket)

        pool.measure(
            [subject for _, subject in ready],
            batch.degree,
            batch.timeout_s,
            effort,
            told=tell,
            expired=lambda: self._stopping.is_set() or self._unwanted == self._held,
        )


def _unpacked(order: ClaimedOrder, batch: ClaimedBatch, files: OrderFiles) -> KernelSubject:
    form = KernelForm.model_validate(order.form)
    library = files.library(form.library, order.library)
    return form.subject(library, files.reference(batch.job_id, form.reference))
