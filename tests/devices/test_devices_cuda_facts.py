"""What the driver says, and what is made of it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.gpus import DRIVER, H200, TORCH, h200_facts

from workers.devices.cuda import builds, facts
from workers.devices.cuda.builds import FLAG_DEFAULTS, torch_flags, torch_versions
from workers.devices.cuda.facts import device_facts, gpu_facts
from workers.devices.cuda.precision import full_precision
from workers.devices.cuda.probe import ATTRIBUTES, NOTHING, Probe, probe


class Libcuda:
    """libcuda's functions for one H200. ``wrong`` are the functions that fail."""

    def __init__(self, *wrong: str, missing: tuple[str, ...] = ()) -> None:
        self._wrong, self._missing = wrong, missing

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self._missing:
            raise AttributeError(name)
        if name in self._wrong:
            return lambda *arguments: 100  # CUDA_ERROR_NO_DEVICE
        return getattr(Libcuda, f"_{name}")

    @staticmethod
    def _cuInit(flags: int) -> int:  # noqa: N802  # the driver's name
        return 0

    @staticmethod
    def _cuDeviceGetCount(count: Any) -> int:  # noqa: N802  # the driver's name
        count._obj.value = 1
        return 0

    @staticmethod
    def _cuDriverGetVersion(version: Any) -> int:  # noqa: N802  # the driver's name
        version._obj.value = 13000
        return 0

    @staticmethod
    def _cuDeviceGet(device: Any, index: int) -> int:  # noqa: N802  # the driver's name
        device._obj.value = index
        return 0

    @staticmethod
    def _cuDeviceGetName(name: Any, size: int, device: Any) -> int:  # noqa: N802  # the same
        assert size == len(name)
        name.value = b"NVIDIA H200"
        return 0

    @staticmethod
    def _cuDeviceTotalMem_v2(size: Any, device: Any) -> int:  # noqa: N802  # the driver's name
        assert ctypes.sizeof(size._obj) == 8
        size._obj.value = 143771 << 20
        return 0

    @staticmethod
    def _cuDeviceGetAttribute(value: Any, number: int, device: Any) -> int:  # noqa: N802  # the same
        names = {attribute: name for name, attribute in ATTRIBUTES.items()}
        value._obj.value = H200.attributes[names[number]]
        return 0

    @staticmethod
    def _cuDeviceGetUuid_v2(uuid: Any, device: Any) -> int:  # noqa: N802  # the driver's name
        uuid._obj[:] = [0] * 16
        return 0


class Nvml:
    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if name == "nvmlSystemGetDriverVersion":
                arguments[0].value = b"580.159.04"
            return 0

        return call


def loader(cuda: object, nvml: object = None) -> Callable[[str], object]:
    def load(name: str) -> object:
        found = {"libcuda.so.1": cuda, "libnvidia-ml.so.1": nvml}[name]
        if found is None:
            raise OSError(f"{name}: cannot open shared object file")
        return found

    return load


def test_what_the_driver_says_is_read() -> None:
    assert probe(loader(Libcuda(), Nvml())) == DRIVER
    without = probe(loader(Libcuda()))
    assert without == replace(DRIVER, driver="unknown")
    (unnamed,) = probe(loader(Libcuda(missing=("cuDeviceGetUuid_v2",)), Nvml())).gpus
    assert unnamed == replace(DRIVER.gpus[0], uuid="unknown")


@pytest.mark.parametrize(
    "cuda",
    [
        None,
        Libcuda("cuInit"),
        Libcuda("cuDeviceGetCount"),
        Libcuda(missing=("cuInit",)),
        Libcuda(missing=("cuDeviceTotalMem_v2",)),
    ],
    ids=["no library", "no driver", "no count", "not CUDA", "too old"],
)
def test_no_driver_is_no_gpus(cuda: object) -> None:
    assert probe(loader(cuda, Nvml())) == NOTHING


@pytest.mark.parametrize("wrong", ["cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2"])
def test_a_gpu_that_cannot_be_asked_is_left_out(wrong: str) -> None:
    assert probe(loader(Libcuda(wrong), Nvml())) == replace(DRIVER, gpus=())


def test_the_attributes_numbers_are_cudas(tmp_path: Any) -> None:
    """By the compiler that this machine has, else not told."""
    names = {
        "warp_size": "WARP_SIZE",
        "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
        "clock_khz": "CLOCK_RATE",
        "sm_count": "MULTIPROCESSOR_COUNT",
        "memory_clock_khz": "MEMORY_CLOCK_RATE",
        "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
        "l2_bytes": "L2_CACHE_SIZE",
        "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
        "capability_major": "COMPUTE_CAPABILITY_MAJOR",
        "capability_minor": "COMPUTE_CAPABILITY_MINOR",
        "shared_memory_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
        "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
        "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        "blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    }
    assert names.keys() == ATTRIBUTES.keys()
    source = tmp_path / "numbers.cu"
    source.write_text(
        "#include <cuda.h>\n"
        + "".join(
            f"static_assert(CU_DEVICE_ATTRIBUTE_{name} == {ATTRIBUTES[key]});\n"
            for key, name in names.items()
        )
        + "static_assert(CU_STREAM_NON_BLOCKING == 1);\n"
    )
    try:
        subprocess.run(
            ["nvcc", "-std=c++17", "-c", source, "-o", tmp_path / "numbers.o"],
            check=True,
            timeout=120,
        )
    except FileNotFoundError:
        pytest.skip("no CUDA compiler here")


def test_an_h200_is_what_its_datasheet_says() -> None:
    found, notes = gpu_facts(H200)
    assert found is not None
    assert notes == ()
    assert found.fp32_tflops == pytest.approx(67, rel=0.01)
    assert found.bandwidth_gb_s == pytest.approx(4800, rel=0.03)
    assert found.compute_capability == (9, 0)
    whole = h200_facts()
    assert (whole.name, whole.kind, whole.parallelism) == ("cuda:0", "cuda", 1)
    assert whole.description == "NVIDIA H200, 132 SMs, 140 GiB"
    assert whole.gpu == found
    assert whole.versions["torch"] == "2.11.0+cu130"
    assert not whole.simulated


@pytest.mark.parametrize(
    ("left_out", "words"),
    [("memory_clock_khz", "memory bandwidth unknown"), ("clock_khz", "peak FP32 rate unknown")],
)
def test_what_is_not_known_is_said(left_out: str, words: str) -> None:
    attributes = {name: value for name, value in H200.attributes.items() if name != left_out}
    gpu = replace(H200, attributes=attributes)
    assert words in device_facts(gpu, DRIVER, TORCH, {}, FLAG_DEFAULTS).description


def test_an_unknown_architecture_has_no_peak_and_no_limits_no_gpu_facts() -> None:
    newer = replace(H200, attributes={**H200.attributes, "capability_major": 42})
    found, notes = gpu_facts(newer)
    assert found is not None
    assert found.fp32_tflops == 0
    assert "compute capability 42.0" in notes[0]
    bare = device_facts(replace(H200, attributes={}), DRIVER, TORCH, {}, FLAG_DEFAULTS)
    assert bare.gpu is None
    assert "does not tell capability_major" in bare.description


def test_the_fingerprint_follows_what_changes_speed() -> None:
    here = h200_facts().fingerprint
    changed = [
        device_facts(replace(H200, name="NVIDIA H100"), DRIVER, TORCH, {}, FLAG_DEFAULTS),
        device_facts(
            replace(H200, attributes={**H200.attributes, "sm_count": 66}),
            DRIVER,
            TORCH,
            {},
            FLAG_DEFAULTS,
        ),
        device_facts(H200, replace(DRIVER, driver="590.1"), TORCH, {}, FLAG_DEFAULTS),
        device_facts(H200, replace(DRIVER, cuda="13.1"), TORCH, {}, FLAG_DEFAULTS),
        device_facts(H200, DRIVER, {**TORCH, "torch": "2.13.0"}, {}, FLAG_DEFAULTS),
        device_facts(H200, DRIVER, TORCH, {"NVIDIA_TF32_OVERRIDE": "0"}, FLAG_DEFAULTS),
        device_facts(H200, DRIVER, TORCH, {}, {**FLAG_DEFAULTS, "cudnn.allow_tf32": False}),
        device_facts(H200, DRIVER, TORCH, {}, {**FLAG_DEFAULTS, "cudnn.benchmark": True}),
    ]
    fingerprints = {here, *(facts.fingerprint for facts in changed)}
    assert len(fingerprints) == len(changed) + 1
    other_place = device_facts(replace(H200, index=3), DRIVER, TORCH, {}, FLAG_DEFAULTS)
    assert (other_place.name, other_place.fingerprint) == ("cuda:3", here)


def test_discovery_asks_the_driver_and_the_installed_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "probe", lambda: DRIVER)
    monkeypatch.setattr(facts, "torch_versions", lambda: TORCH)
    (found,) = facts.discover()
    assert found.name == "cuda:0"
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert facts.discover()[0].fingerprint != found.fingerprint
    monkeypatch.setattr(facts, "torch_versions", lambda: {"torch": "2.13.0+cpu"})
    assert facts.discover() == ()
    monkeypatch.setattr(facts, "probe", lambda: Probe((), "580", "13.0"))
    assert facts.discover() == ()


def test_versions_are_those_that_torch_says_of_itself() -> None:
    versions = torch_versions()
    assert versions["torch"] == torch.__version__
    assert versions.get("torch_cuda") == torch.version.cuda


def test_flags_before_an_import_are_those_after_it() -> None:
    """In a fresh process: nobody changed them there."""
    code = (
        "import sys; from workers.devices.cuda.builds import torch_flags as f; before = f();"
        "assert 'torch' not in sys.modules; import torch; assert f() == before, (f(), before);"
        "torch.backends.cudnn.allow_tf32 = False; torch.set_float32_matmul_precision('high');"
        "assert not f()['cudnn.allow_tf32'] and f()['matmul.allow_tf32']"
    )
    for override in ("0", "1"):
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            timeout=120,
            env={"PATH": "/usr/bin:/bin", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": override},
        )


def test_a_flag_that_torch_refuses_to_read_is_said_to_be_set_otherwise() -> None:
    def refuses() -> bool:
        raise RuntimeError("mix of the legacy and new APIs")

    assert builds._read(refuses) == "set by fp32_precision"
    assert all(isinstance(value, bool) for value in torch_flags().values())


def test_full_precision_is_for_a_while() -> None:
    before = torch_flags()
    assert before["cudnn.allow_tf32"]
    torch.set_float32_matmul_precision("high")
    try:
        with full_precision():
            assert not torch_flags()["cudnn.allow_tf32"]
            assert not torch_flags()["matmul.allow_tf32"]
        assert torch_flags()["cudnn.allow_tf32"]
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch_flags() == before
