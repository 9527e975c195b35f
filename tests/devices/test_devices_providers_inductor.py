"""What only the provider of TorchInductor's kernels promises: each is compiled once."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.unit_graphs import unit_graph
from torch import Tensor

from workers.devices.base import DeviceError
from workers.devices.providers import inductor
from workers.devices.providers.inductor import InductorProvider
from workers.devices.providers.kernel_cache import KernelCache, default_root
from workers.graph.graph import Graph
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs


def check(provider: InductorProvider, graph: Graph, weights: dict[str, Tensor]) -> None:
    (unit,) = graph.units
    inputs = random_inputs(graph, 7)
    compiled = provider.compile(graph, unit, weights, threads=1)
    with torch.inference_mode():
        results = compiled.function(*(inputs[name] for name in compiled.inputs))
    for name, tensor in run_graph(graph, weights, inputs).items():
        found = results[compiled.outputs.index(name)]
        torch.testing.assert_close(found, tensor, rtol=1e-4, atol=1e-5)


def entries(root: Path) -> dict[str, int]:
    """The cache's files and when they were written."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file() and "build" not in path.relative_to(root).parts
    }


def test_a_unit_is_compiled_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inductor, "_LOADED", {})
    graph, weights = unit_graph("elementwise")
    provider = InductorProvider("cpu", KernelCache(tmp_path))
    check(provider, graph, weights)
    check(provider, graph, weights)
    check(provider, _renamed(graph), weights)
    assert provider.compiled == 1
    written = entries(tmp_path)
    assert any(name.endswith(".so") for name in written)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]

    # As another process would: nothing is loaded.
    monkeypatch.setattr(inductor, "_LOADED", {})
    later = InductorProvider("cpu", KernelCache(tmp_path))
    check(later, graph, weights)
    assert later.compiled == 0
    assert entries(tmp_path) == written

    # An entry that is not what was written is compiled again.
    (library,) = (Path(name) for name in written if name.endswith(".so"))
    damaged = library.read_bytes()[:1000]
    library.unlink()  # this process has mapped it
    library.write_bytes(damaged)
    monkeypatch.setattr(inductor, "_LOADED", {})
    check(later, graph, weights)
    assert later.compiled == 1
    assert entries(tmp_path).keys() == written.keys()
    monkeypatch.setattr(inductor, "_LOADED", {})
    check(later, graph, weights)
    assert later.compiled == 1


def _renamed(graph: Graph) -> Graph:
    """The same Unit under another name."""
    return replace(graph, units=(replace(graph.units[0], name="other"),))


def test_what_cannot_be_compiled_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "_LOADED", {})
    monkeypatch.setattr(inductor, "compile_program", _refuse)
    graph, weights = unit_graph("elementwise")
    provider = InductorProvider("cpu", KernelCache(tmp_path))
    with pytest.raises(DeviceError, match=r"unit 's' cannot be compiled by inductor: no way$"):
        check(provider, graph, weights)
    assert entries(tmp_path) == {}


def _refuse(*_: object) -> None:
    raise RuntimeError("no way\nout of it")


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_KERNEL_CACHE", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("PLAIT_KERNEL_CACHE")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_root() == Path("/home/me/.cache/plait/kernels")


def test_entries_are_whole_or_not_there(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "deep" / "kernels")
    assert cache.find("a") is None

    def fill(folder: Path) -> None:
        (folder / "code").write_text("code")

    def fail(folder: Path) -> None:
        fill(folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.store("a", {}, fail)
    assert cache.find("a") is None
    folder = cache.store("a", {"of": "a"}, fill)
    assert cache.find("a") == (folder, {"of": "a"})
    assert oct(folder.parent.stat().st_mode)[-3:] == "700"
    (folder / "more").write_text("")
    assert cache.find("a") is None
    cache.store("a", {"of": "a again"}, fill)
    assert cache.find("a") == (folder, {"of": "a again"})
    cache.drop("a")
    cache.drop("a")
    assert cache.find("a") is None
    assert list(folder.parent.iterdir()) == []


def test_facts_need_no_torch() -> None:
    code = (
        "import sys; from workers.devices import discover; from workers.devices import providers;"
        "assert 'inductor' in discover()[0].providers and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ})
