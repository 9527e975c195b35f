"""The files that a sandboxed process needs, and with them all that it can see."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import workers

# Shared libraries and how they are found, and what libraries ask about the processor.
_SYSTEM = (
    "/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime",
    "/sys/devices/system/cpu", "/sys/devices/system/node",
    "/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero",
)  # fmt: skip
_PACKAGES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class View:
    """``readable`` files and folders, and the one folder, ``scratch``, that can be written to.

    ``root`` is an empty folder on which the tree is put together where there are mounts.
    ``devices`` are those of a GPU, which its driver's libraries open, write to and control.
    """

    readable: tuple[Path, ...]
    scratch: Path
    root: Path
    devices: tuple[Path, ...] = ()


def gpu_devices() -> tuple[Path, ...]:
    """The devices that CUDA opens: one for each GPU, and those of the driver."""
    return tuple(path for path in sorted(Path("/dev").glob("nvidia*")) if not path.is_dir())


def needed_paths(hidden: Iterable[Path]) -> tuple[Path, ...]:
    """What importing a model reads besides the model: libraries, Python, torch, this code.

    Of ``hidden`` folders nothing is in it, save Python and this code if they are installed there.
    """
    code = Path(workers.__file__).parent
    wanted = [*map(Path, _SYSTEM), Path(sys.prefix), Path(sys.base_prefix), code]
    wanted += [Path(entry) for entry in sys.path if Path(entry).name in _PACKAGES]
    covered = frozenset(path.resolve() for path in hidden)
    existing = (path.absolute() for path in wanted if path.exists())
    return tuple(dict.fromkeys(part for path in existing for part in _without(path, covered)))


def _without(path: Path, hidden: Collection[Path]) -> Iterator[Path]:
    """``path``, or what is in it but the ``hidden`` folders if it holds some of them."""
    real = path.resolve()
    if not any(real in folder.parents for folder in hidden):
        yield path
        return
    for child in real.iterdir():
        if child.resolve() not in hidden:
            yield from _without(child, hidden)
