"""Results' timelines as files, where there is no service to download them from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from backend.results.filenames import result_filename
from backend.results.trace import TraceSubject, chrome_trace, device_words

if TYPE_CHECKING:
    from workers.runner.outcome import ScheduleOutcome


@dataclass
class TraceFiles:
    """Writes Chrome traces to ``path``, a file or a directory; nothing without one."""

    path: Path | None
    model: str
    device: str
    written: list[str] = field(default_factory=list)

    def write(self, outcome: ScheduleOutcome) -> None:
        if self.path is None:
            return
        target = self.path
        if target.is_dir():
            scheduler = outcome.scheduler
            target /= result_filename(self.model, outcome.batch_size, scheduler, "trace.json")
        spans = [asdict(span) for span in outcome.timeline.spans]
        document = chrome_trace(self._subject(outcome), spans, outcome.timeline.resident_warps)
        target.write_bytes(orjson.dumps(document))
        self.written.append(str(target))

    def _subject(self, outcome: ScheduleOutcome) -> TraceSubject:
        return TraceSubject(
            model=self.model,
            batch_size=outcome.batch_size,
            scheduler=outcome.scheduler,
            device=device_words(self.device, outcome.environment),
            provider=outcome.provider,
            simulated=outcome.measurement.simulated,
            latency_ms=outcome.measurement.latency_ms,
        )
