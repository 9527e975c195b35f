"""What a job's process is set up with."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy, torch
from threadpoolctl import ThreadpoolController
from workers.runner.workplace import calm_numpy

numpy.linalg.inv(numpy.eye(3))
before = torch.get_num_threads()
calm_numpy()
pools = ThreadpoolController().select(prefix="libscipy_openblas").info()
print(len(pools), {pool["num_threads"] for pool in pools}, torch.get_num_threads() == before)
"""


def test_numpy_keeps_to_one_thread_and_torch_to_its_own() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.split("\n")[0] == "1 {1} True"
