"""The environment stamp, from this machine and from files of others."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from workers.devices import open_device
from workers.devices.cpu_facts import read_cpu
from workers.measure import machine
from workers.measure.environment import environment, library_versions, load_now
from workers.measure.noise import SILENCE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A laptop of four hardware threads in a container with two cores' worth of time."""
    files = {
        "proc/cpuinfo": "".join(
            f"processor\t: {n}\nmodel name\t: Quick 9\ncpu MHz\t\t: {1000 + n}.5\n"
            "flags\t\t: fpu hypervisor avx2\n\n"
            for n in range(4)
        ),
        "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"
        "SwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n",
        "proc/loadavg": "1.50 0.70 0.10 3/412 99\n",
        "proc/self/cgroup": "0::/jobs/one\n",
        "sys/fs/cgroup/cpu.max": "max 100000",
        "sys/fs/cgroup/jobs/cpu.max": "200000 100000",
        "sys/fs/cgroup/jobs/one/cpu.max": "max 100000",
        "sys/fs/cgroup/jobs/one/memory.max": str(4 << 30),
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "0",
        "sys/class/dmi/id/sys_vendor": "QEMU",
        ".dockerenv": "",
    }
    for core, clock in enumerate((1800000, 3500000, 800000, 800000)):
        files |= {
            f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor": "powersave",
            f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq": str(clock),
            f"sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq": "4200000",
        }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_machine_is_read_in_full(root: Path) -> None:
    assert machine.cpu_facts([0, 1, 3], root) == {
        "cores": 3,
        "core_numbers": "0-1,3",
        "smt": "on",
        "model": "Quick 9",
        "governor": "powersave",
        "max_clock_mhz": 4200.0,
        "boost": "on",
        "clock_mhz_low": 800,
        "clock_mhz_high": 3500,
    }
    assert machine.memory_facts(root) == {
        "total_gib": 16.0,
        "available_gib": 8.0,
        "swap_used_gib": 1.0,
    }
    assert machine.cgroup_limits(root) == {"cpu_quota_cores": 2.0, "memory_limit_gib": 4.0}
    assert machine.virtualisation(root) == "container (Docker) in virtual machine (QEMU)"
    assert machine.load_facts(root) == {"load_1_min": 1.5, "running": 3, "threads": 412}


def test_control_groups_of_version_1(root: Path) -> None:
    (root / "proc/self/cgroup").write_text("4:memory:/\n3:cpu,cpuacct:/box\n1:name=systemd:/\n")
    for name, text in {
        "cpu/box/cpu.cfs_quota_us": "150000",
        "cpu/box/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "-1",
        "memory/memory.limit_in_bytes": str((1 << 63) - 4096),
    }.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert machine.cgroup_limits(root) == {"cpu_quota_cores": 1.5}


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert machine.cpu_facts([0], tmp_path) == {"cores": 1, "core_numbers": "0"}
    assert machine.memory_facts(tmp_path) == {}
    assert machine.cgroup_limits(tmp_path) == {}
    assert machine.virtualisation(tmp_path) is None
    assert machine.load_facts(tmp_path) == {}


def test_a_gpu_is_read_from_the_drivers_program() -> None:
    line = (
        "NVIDIA H200, 570.86.15, P0, 1980, 3201, 1980, [N/A], 119.52, 700.00, 31, 0, 4,"
        " 143771, Enabled, Default\n"
    )
    found = machine.parse_gpu(line)
    assert found["name"] == "NVIDIA H200"
    assert found["driver_version"] == "570.86.15"
    assert (found["pstate"], found["clocks_sm"], found["power_draw"]) == ("P0", 1980.0, 119.52)
    assert "clocks_applications_graphics" not in found
    assert (found["memory_total"], found["compute_mode"]) == (143771.0, "Default")


def test_a_program_that_is_missing_or_fails_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpu_facts("0") == {}
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    assert machine.gpu_facts("0") == {}
    program.write_text('#!/bin/sh\necho "Some GPU, 1.2, P8, $3"\n')
    assert machine.gpu_facts("3")["clocks_sm"] == "--id=3"


def test_a_driver_that_knows_fewer_fields_is_asked_for_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$1" in *applications*) exit 2;; esac\n'
        'echo "Some GPU, 1.2, P8, 900, 800"\n'
    )
    program.chmod(0o755)
    assert machine.gpu_facts("0") == {
        "name": "Some GPU", "driver_version": "1.2", "pstate": "P8",
        "clocks_sm": 900.0, "clocks_mem": 800.0,
    }  # fmt: skip


def test_settings_that_matter_are_kept_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("TORCH_HUB_TOKEN", "hush")
    monkeypatch.setenv("HOME_GROWN", "1")
    found = machine.settings()
    assert found["OMP_WAIT_POLICY"] == "active"
    assert not {"TORCH_HUB_TOKEN", "HOME_GROWN", "PATH"} & found.keys()


def test_the_stamp_of_this_machine_is_complete() -> None:
    before = load_now()
    facts = read_cpu()
    stamp = environment(facts, before, SILENCE)
    data = stamp.to_json()
    assert json.loads(json.dumps(data))["cpu"] == data["cpu"]
    assert data["fingerprint"] == facts.fingerprint
    assert data["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert data["versions"]["torch"] == torch.__version__
    assert data["before"]["taken_at"] <= data["after"]["taken_at"]
    assert data["after"]["running"] >= 1
    assert data["noise"]["complaint"] is None
    assert data["memory"]["total_gib"] > 0.1
    assert "gpu" not in data, "the CPU was measured"


def test_the_libraries_are_those_that_pytorch_tells_of() -> None:
    found = library_versions()
    assert found["onednn"] in torch.__config__.show()
    assert found["python"]
    assert ("cuda" in found) == (torch.version.cuda is not None)


def test_a_simulated_figure_is_stamped_so() -> None:
    facts = replace(read_cpu(), name="sim:v100", kind="sim", simulated=True)
    assert environment(facts).to_json()["simulated"] is True


@pytest.mark.parametrize(
    ("visible", "number"), [(None, "1"), ("3,2", "2"), ("GPU-5f,GPU-6e", "GPU-6e")]
)
def test_the_gpu_is_asked_for_by_its_number_on_the_machine(
    visible: str | None, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(
        "workers.measure.environment.gpu_facts", lambda identifier: asked.append(identifier) or {}
    )
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    environment(replace(read_cpu(), name="cuda:1", kind="cuda"))
    assert asked == [number]


def test_the_cpu_device_is_stamped() -> None:
    device = open_device("cpu")
    try:
        assert environment(device.facts).device == device.facts.description
    finally:
        device.close()
