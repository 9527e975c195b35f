"""The devices' conformance suite on a CUDA device without a GPU.

On a machine that has one, ``test_devices_conformance`` holds for the real device, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import test_devices_conformance as suite
import torch
from support.cuda_emulation import EmulatedDriver
from support.gpus import DRIVER, H200, TORCH
from test_devices_conformance import *  # noqa: F403  # its tests, with the device below

from workers.devices.base import DeviceFacts
from workers.devices.cuda.builds import FLAG_DEFAULTS
from workers.devices.cuda.device import CudaDevice
from workers.devices.cuda.facts import device_facts

_SEEDS = itertools.count()


def discover() -> tuple[DeviceFacts, ...]:
    versions = {**TORCH, "torch": torch.__version__}
    # TorchInductor writes code for the GPU itself.
    return (replace(device_facts(H200, DRIVER, versions, {}, FLAG_DEFAULTS), providers=("aten",)),)


def open_device(name: str) -> CudaDevice:
    (facts,) = discover()
    assert name == facts.name
    return CudaDevice(facts, EmulatedDriver(next(_SEEDS)))


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    patch = pytest.MonkeyPatch()
    patch.setattr(suite, "open_device", open_device)
    patch.setattr(suite, "discover", discover)
    opened = open_device("cuda:0")
    yield opened
    opened.close()
    patch.undo()
