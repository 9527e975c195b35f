"""Finding devices costs no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workers.devices import open_device
from workers.devices.base import DeviceError


def test_discovery_imports_no_torch() -> None:
    code = (
        "import sys; from workers.devices import discover; from workers import schedulers;"
        "assert discover() and schedulers.create('ios'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(DeviceError, match="no device 'cuda:9' here; known: cpu"):
        open_device("cuda:9")
