"""How launches get from the program to the GPU, and what that costs.

Three ways: ``streams``, where one CPU thread calls the driver for every kernel, event and wait in
the Plan's order; ``eager``, the same with what PyTorch's own Python and dispatcher do for each
operator; and ``graph``, a CUDA Graph that is launched with one call and whose nodes the GPU's front
end starts. All numbers are for a desktop or server CPU of the GPU's time, the same for
every GPU.

Source: A. Gray, "Getting Started with CUDA Graphs", NVIDIA technical blog, 5 September 2019
(https://developer.nvidia.com/blog/cuda-graphs/). On a V100 with CUDA 10.1 it times kernels of
2.9 µs back to back: 9.6 µs each with a synchronisation after each, 3.8 µs each when issued
without, 3.4 µs each in a CUDA Graph. Hence about 1 µs (0.9) between kernels of a stream and
0.5 in a graph, and less than 3.8 µs of CPU for a launch. What is marked *estimate* is ours.

``eager``'s 8 µs of CPU: additions of 512 × 512 elements, submitted back to back with PyTorch's own
kernels on an A100's host (https://github.com/flagos-ai/Torch-FL/pull/27, 2026); 7.1 µs according to
https://github.com/flagos-ai/FlagGems/issues/4558. That convolutions, products and normalisations
take no longer is an *estimate*, and too low: they prepare more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Issue = Literal["graph", "streams", "eager"]


@dataclass(frozen=True, slots=True)
class LaunchPath:
    """Times in seconds. ``first`` passes before anything arrives at the GPU; then each kernel,
    recorded event and awaited event takes the issuer its time, in the Plan's order.

    ``follow`` passes between the end of a kernel and the start of the next on its stream,
    ``signal`` between the end of a kernel and the start of one that waits for its event.
    """

    first: float
    kernel: float
    record: float
    wait: float
    follow: float
    signal: float


_US = 1e-6

PATHS: dict[Issue, LaunchPath] = {
    "streams": LaunchPath(
        first=5 * _US,  # estimate: the first launch's way to an idle GPU
        kernel=3.5 * _US,  # below the blog's 3.8 µs; the libraries' own code not counted
        record=1.0 * _US,  # estimate
        wait=1.0 * _US,  # estimate
        follow=0.9 * _US,  # the blog's 3.8 - 2.9
        signal=2.0 * _US,  # estimate: the event's memory is polled by the other queue
    ),
    "eager": LaunchPath(
        first=5 * _US,  # as above
        kernel=8 * _US,  # the additions'; an estimate for everything else
        record=1.0 * _US,  # as above
        wait=1.0 * _US,
        follow=0.9 * _US,
        signal=2.0 * _US,
    ),
    "graph": LaunchPath(
        first=6 * _US,  # estimate: one cudaGraphLaunch
        kernel=0.3 * _US,  # estimate: the front end, for nodes that wait for nothing
        record=0.0,  # events become edges of the graph
        wait=0.0,
        follow=0.5 * _US,  # the blog's 3.4 - 2.9
        signal=1.2 * _US,  # estimate
    ),
}
