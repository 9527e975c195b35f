"""TorchScript archives that attack whoever loads them: their code runs while ``torch.jit.load``
reads them, and may open files by operators of torch's own."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn


class _Scripted(nn.Module):
    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target

    def forward(self, x: Tensor) -> Tensor:
        return x + 1

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:  # type: ignore[override]
        return self.target, self.training


class Reader(_Scripted):
    """Reads a file of eight bytes and adds them to its output."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.found = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.found

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        self.found = torch.from_file(self.target, False, 8, dtype=torch.uint8).float()


class Writer(_Scripted):
    """Writes a file."""

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        torch.save(torch.zeros(8), self.target)


class Mapper(_Scripted):
    """Changes a file through shared memory."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.found = torch.zeros(8)

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        # Kept, for what nobody reads is not computed.
        self.found = torch.from_file(self.target, True, 8, dtype=torch.uint8).zero_()


class Sleeper(_Scripted):
    """Never ends."""

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        count = 0
        while len(self.target) >= 0:
            count += 1


class Hog(_Scripted):
    """Takes memory until there is no more."""

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        kept = [torch.ones(1)]
        while len(kept) > 0:
            kept.append(torch.ones(1 << 26))


class Liar(_Scripted):
    """Says on its standard output what only the sandbox may say there."""

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        print('["everything"]')


def write_script(module: type[_Scripted], target: Path, path: Path, declared: str) -> Path:
    """Save an attack on ``target``; ``declared`` is the entry that says what it is called with."""
    script = torch.jit.script(module(str(target)))
    script.save(path, _extra_files={"plait_inputs.json": declared})
    return path
