"""The machine as Linux and NVIDIA's driver tell it, now: what the environment stamp is made of.

Each function gives what it can read; what a container or another system hides is left out and never
guessed. ``root`` is where the system's files lie, for tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

Fact = str | float
Facts = dict[str, Fact]

ROOT = Path("/")

SETTINGS = ("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH_", "PYTORCH_",
            "TORCHINDUCTOR_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32_", "MALLOC_",
            "LD_PRELOAD")  # fmt: skip
"""Environment variables that begin so change how fast the same operators run."""

_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")

_GPU_QUERY = (
    "name", "driver_version", "pstate", "clocks.sm", "clocks.mem", "clocks.max.sm",
    "clocks.applications.graphics", "power.draw", "power.limit", "temperature.gpu",
    "utilization.gpu", "memory.used", "memory.total", "persistence_mode", "compute_mode",
)  # fmt: skip
"""Fields of ``nvidia-smi --query-gpu``; see ``nvidia-smi --help-query-gpu``. Clocks are in MHz,
power in W, memory in MiB, temperature in °C, utilization in %."""

_GPU_ESSENTIALS = _GPU_QUERY[:5]
"""Fields that every driver knows: one that it does not know makes the program refuse them all."""


def cpu_facts(cores: Sequence[int], root: Path = ROOT) -> Facts:
    """Of the CPU: the model, which cores are used, whether each shares its core with another
    hardware thread (SMT), the frequency governor, and the clocks in MHz."""
    facts: Facts = {"cores": len(cores), "core_numbers": _ranges(cores)}
    system = root / "sys/devices/system/cpu"
    if smt := _read(system / "smt/active"):
        facts["smt"] = "on" if smt == "1" else "off"
    if model := _cpuinfo(root, "model name"):
        facts["model"] = model[0]
    frequency = [system / f"cpu{core}/cpufreq" for core in cores]
    if governors := {text for path in frequency if (text := _read(path / "scaling_governor"))}:
        facts["governor"] = ", ".join(sorted(governors))
    if top := [int(text) for path in frequency if (text := _read(path / "cpuinfo_max_freq"))]:
        facts["max_clock_mhz"] = max(top) / 1000
    boost = _read(system / "cpufreq/boost"), _read(system / "intel_pstate/no_turbo")
    if boost[0] or boost[1]:
        facts["boost"] = "on" if boost[0] == "1" or boost[1] == "0" else "off"
    clocks = [int(t) / 1000 for path in frequency if (t := _read(path / "scaling_cur_freq"))]
    if not clocks:
        reported = _cpuinfo(root, "cpu MHz")
        clocks = [float(reported[core]) for core in cores if core < len(reported)]
    if clocks:
        facts |= {"clock_mhz_low": round(min(clocks)), "clock_mhz_high": round(max(clocks))}
    return facts


def memory_facts(root: Path = ROOT) -> Facts:
    """In GiB: all, available now, and swap in use."""
    fields = {}
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0]) / 2**20
    facts: Facts = {}
    if "MemTotal" in fields:
        facts["total_gib"] = round(fields["MemTotal"], 1)
    if "MemAvailable" in fields:
        facts["available_gib"] = round(fields["MemAvailable"], 1)
    if "SwapTotal" in fields:
        facts["swap_used_gib"] = round(fields["SwapTotal"] - fields.get("SwapFree", 0.0), 2)
    return facts


def cgroup_limits(root: Path = ROOT) -> Facts:
    """How many cores' worth of time this process's control group may use, and how much memory in
    GiB; nothing where it is not limited. The strictest of the group and those above it counts."""
    facts: Facts = {}
    quotas, memories = [], []
    for directory in _cgroups(root, "cpu"):
        if limit := _read(directory / "cpu.max"):  # version 2
            quota, period = limit.split()
            if quota != "max":
                quotas.append(int(quota) / int(period))
        elif limit := _read(directory / "cpu.cfs_quota_us"):
            period = _read(directory / "cpu.cfs_period_us") or "100000"
            if int(limit) > 0:
                quotas.append(int(limit) / int(period))
    for directory in _cgroups(root, "memory"):
        limit = _read(directory / "memory.max") or _read(directory / "memory.limit_in_bytes")
        if limit and limit != "max" and int(limit) < 1 << 60:
            memories.append(int(limit) / 2**30)
    if quotas:
        facts["cpu_quota_cores"] = round(min(quotas), 2)
    if memories:
        facts["memory_limit_gib"] = round(min(memories), 2)
    return facts


def virtualisation(root: Path = ROOT) -> str | None:
    """The virtual machine or container that this is in, as far as it shows."""
    found = []
    if any("hypervisor" in flags.split() for flags in _cpuinfo(root, "flags")[:1]):
        product = _read(root / "sys/class/dmi/id/product_name")
        vendor = _read(root / "sys/class/dmi/id/sys_vendor")
        named = " ".join(text for text in (vendor, product) if text)
        found.append(f"virtual machine ({named})" if named else "virtual machine")
    if (root / ".dockerenv").exists():
        found.append("container (Docker)")
    elif container := _read(root / "run/systemd/container"):
        found.append(f"container ({container})")
    elif "kubepods" in (_read(root / "proc/self/cgroup") or ""):
        found.append("container (Kubernetes)")
    return " in ".join(reversed(found)) or None


def load_facts(root: Path = ROOT) -> Facts:
    """The load average of the last minute, how many threads can run right now, this one included,
    and how many processes and threads there are."""
    fields = (_read(root / "proc/loadavg") or "").split()
    if len(fields) < 4:
        return {}
    running, _, total = fields[3].partition("/")
    return {"load_1_min": float(fields[0]), "running": int(running), "threads": int(total)}


def gpu_facts(identifier: str) -> Facts:
    """Of an NVIDIA GPU, by its UUID or its number among all of the machine: name, driver, power
    state, clocks and the like, from ``nvidia-smi``; nothing where that is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    for fields in (_GPU_QUERY, _GPU_ESSENTIALS):
        query = f"--query-gpu={','.join(fields)}"
        command = [program, query, "--format=csv,noheader,nounits", f"--id={identifier}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        return parse_gpu(done.stdout)
    return {}


def parse_gpu(line: str) -> Facts:
    """A line of ``nvidia-smi``'s CSV. Fields that a GPU does not have are left out."""
    facts: Facts = {}
    for name, text in zip(_GPU_QUERY, line.strip().split(", "), strict=False):
        if text and not text.startswith(("[", "N/A")):
            facts[name.replace(".", "_")] = text
            if name != "driver_version":
                with suppress(ValueError):
                    facts[name.replace(".", "_")] = float(text)
    return facts


def settings() -> Facts:
    """The environment variables that matter, less what looks like a secret."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(SETTINGS) and not any(word in name for word in _SECRET)
    }


def _cgroups(root: Path, controller: str) -> list[Path]:
    """The directories of this process's control group and those above it, of version 2 and of the
    version 1 hierarchy of ``controller``. In a container the path may be that outside of it; what
    is not there is not read."""
    found = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            top = root / "sys/fs/cgroup" / controller
        else:
            continue
        below = top / path.lstrip("/")
        found += [below, *(parent for parent in below.parents if parent.is_relative_to(top))]
    return found


def _cpuinfo(root: Path, field: str) -> list[str]:
    """The field of each processor in ``/proc/cpuinfo``."""
    lines = (_read(root / "proc/cpuinfo") or "").splitlines()
    pairs = (line.partition(":") for line in lines)
    return [value.strip() for name, _, value in pairs if name.strip() == field]


def _ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2,5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
