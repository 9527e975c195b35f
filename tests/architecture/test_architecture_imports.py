"""The computing packages run unchanged on a bare GPU machine: torch, NumPy and NetworkX only."""

from __future__ import annotations

import subprocess
import sys

BARE_MACHINE = """
import importlib, pkgutil, sys

ABSENT = {
    "alembic", "backend", "celery", "fastapi", "fsspec", "httpx", "kombu", "orjson", "plotly",
    "numba", "onnx", "onnxruntime", "onnxscript", "psutil", "psycopg", "pydantic",
    "redis", "rich", "safetensors", "sqlalchemy", "typer",
}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"{name} is not on a bare machine")

sys.meta_path.insert(0, Refuse())
import workers
SERVICE = (
    *("workers.runner", "workers.app", "workers.tasks", "workers.measuring_host"),
    "workers.__main__",
)
EXTRAS = (
    "workers.graph.importers.onnx",  # opened only for files of that format
    "workers.devices.sim.compiled",  # opened only where numba is installed
)
for module in pkgutil.walk_packages(workers.__path__, "workers."):
    if not module.name.startswith(SERVICE + EXTRAS):
        importlib.import_module(module.name)
        print(module.name)
"""


def test_everything_but_the_runner_imports_without_the_service() -> None:
    run = subprocess.run(
        [sys.executable, "-c", BARE_MACHINE], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    imported = set(run.stdout.split())
    assert {"workers.devices.cpu", "workers.schedulers.ios", "workers.measure.oracle"} <= imported
