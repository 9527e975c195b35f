"""``plait up`` itself: the sample job, and a clean stop."""

from __future__ import annotations

from pathlib import Path

import psutil

from end_to_end.conftest import plait, start, stop, wait_for_line


def test_first_start_runs_the_sample_then_serves_and_stops_cleanly(tmp_path: Path) -> None:
    process, environment = start(tmp_path)
    try:
        wait_for_line(tmp_path, "login?code=", 180)
        said = (tmp_path / "up.log").read_text()
        assert "Leaderboard" in said
        assert "batch 1:" in said
        again = plait("up", environment=environment)
        assert again.returncode == 0
        assert "already" in again.stdout
        assert plait("status", environment=environment).returncode == 0
        below = psutil.Process(process.pid).children(recursive=True)
        assert stop(process) == 0
    finally:
        process.kill()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive
    assert plait("status", environment=environment).returncode == 3
