"""What is downloaded of a tuned program: a zip with its kernel, source, and a program to run it."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog
from workers.tuning.records import KernelRecord
from workers.tuning.targets import KernelTarget

README = """\
{name}, tuned by Plait

    pip install numpy apache-tvm=={tvm}
    python run.py --help
    python run.py --bench

kernel.so     the kernel as a shared library; its function is main
tir.py        its schedule in TVM's script
{source}     the code that was generated from it
trace.json    TVM's trace, from which it can be built again
program.json  what it computes, what it was compiled for, and how fast it was there
run.py        runs it; needs NumPy and TVM only

It was compiled for {target}, and may not run on another processor.
"""

_PROGRAM = Path(__file__).with_name("run_kernel.py")


def archive_name(name: str) -> str:
    """``NAME-kernel.zip``; of a program's name only what is safe in any file's."""
    stem = re.sub(r"[^\w-]+", "-", name).strip("-")
    return f"{stem[:80]}-kernel.zip"


def write_kernel_archive(
    path: Path, record: KernelRecord, program: TensorProgram, name: str, target: KernelTarget
) -> None:
    """Write the zip of a program's best kernel to ``path``."""
    source = "source.cu" if target.kind == "cuda" else "source.ll"
    document = {
        "name": name,
        "family": program.family,
        "sizes": dict(program.sizes),
        "inputs": [asdict(spec) for spec in catalog.inputs(program)],
        "outputs": [asdict(spec) for spec in catalog.outputs(program)],
        "flops": catalog.flops(program),
        "target": json.loads(target.text),
        "candidate": record.candidate,
        "latency_ms": record.latency_ms,
        "wall_ms": record.wall_ms,
        "trials": record.trials,
    }
    readme = README.format(name=name, tvm=version("apache-tvm"), source=source, target=target.text)
    texts = {
        "tir.py": record.tir,
        source: record.source,
        "trace.json": record.trace,
        "program.json": json.dumps(document, indent=1, allow_nan=False),
        "run.py": _PROGRAM.read_text(),
        "README.txt": readme,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(record.library, "kernel.so")
        for entry, text in texts.items():
            archive.writestr(entry, text)
