"""Tensor programs for tests: small ones of every family, what TVM and torch compute of them, and
the tables of docs/tensor_programs.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import reject
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from workers.tuning.program import ProgramError, Sizes, TensorProgram
from workers.tuning.programs import catalog
from workers.tuning.programs.workloads import SOURCES, TABLE_2

Array = np.ndarray[Any, Any]

_EXTENTS = st.integers(3, 6)
_FEW = st.integers(1, 3)
_FLAG = st.integers(0, 1)
_RANGES: Mapping[str, st.SearchStrategy[int]] = {
    "batch": st.integers(1, 2), "bias": _FLAG, "relu": _FLAG,
    "depth": _EXTENTS, "height": _EXTENTS, "width": _EXTENTS,
    "kernel_depth": _FEW, "kernel_height": _FEW, "kernel_width": _FEW,
    "dilation_depth": st.integers(1, 2), "dilation_height": st.integers(1, 2),
    "dilation_width": st.integers(1, 2),
    "padding": st.integers(0, 3), "max_displacement": st.integers(0, 3),
    "kernel": st.sampled_from((1, 3)),
    **{
        f"{what}_{axis}": st.integers(0, 2)
        for what in ("padding", "output_padding")
        for axis in ("depth", "height", "width")
    },
}  # fmt: skip


@st.composite
def small_programs(draw: st.DrawFn, family: str) -> TensorProgram:
    """Programs of a few hundred elements; channels are multiples of the groups."""
    names = next(iter(catalog.FAMILIES[family].workloads.values()))
    sizes = {name: draw(_RANGES.get(name, _FEW), label=name) for name in names}
    for channels in ("in_channels", "out_channels"):
        if channels in sizes:
            sizes[channels] *= sizes.get("groups", 1)
    try:
        return catalog.program(family, sizes)
    except ProgramError:
        reject()


def computed_by_tvm(program: TensorProgram, inputs: Sequence[Array]) -> list[Array]:
    """What the program's TIR computes that nobody has scheduled, compiled for a CPU core."""
    return _run(_module(program), program, inputs)


def computed_by_candidates(
    program: TensorProgram, inputs: Sequence[Array], count: int
) -> Iterator[list[Array]]:
    """What so many random candidates of the program's design space compute."""
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    generator, traces = _space(program)
    for number in range(count):
        schedule = Schedule(_module(program), seed=number + 1)
        without_decisions = Trace(traces[number % len(traces)].insts, {})
        without_decisions.apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        assert all(postprocessor.apply(schedule) for postprocessor in generator.postprocs)
        yield _run(schedule.mod, program, inputs)


def sketches(program: TensorProgram) -> list[Any]:
    """The traces of MetaSchedule's design space for a CPU core."""
    return _space(program)[1]


def _target() -> Any:
    from tvm.target import Target

    return Target({"kind": "llvm", "num-cores": 1})


def _module(program: TensorProgram) -> Any:
    from tvm import IRModule

    function = catalog.family_of(program).prim_func(dict(program.sizes))
    return IRModule({"main": function.with_attr("global_symbol", "main")})


def _run(module: Any, program: TensorProgram, inputs: Sequence[Array]) -> list[Array]:
    import tvm

    kernel = tvm.compile(module, target=_target())["main"]
    outputs = [tvm.runtime.empty(spec.shape, spec.dtype) for spec in catalog.outputs(program)]
    kernel(*(tvm.runtime.tensor(given) for given in inputs), *outputs)
    return [output.numpy() for output in outputs]


def _space(program: TensorProgram) -> tuple[Any, list[Any]]:
    """The generator of the design space, and the space's traces. TuneContext's own constructor
    would first load the tensor intrinsics of every target for half a minute, which these rules do
    not use."""
    from tvm.s_tir.meta_schedule import TuneContext, _ffi_api, space_generator

    rules = dict.fromkeys(("sch_rules", "postprocs", "mutator_probs"), "llvm")
    generator = space_generator.PostOrderApply(**rules)
    context = TuneContext.__new__(TuneContext)
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext,
        _module(program),
        _target(),
        generator,
        None,
        "main",
        1,
        1,
        lambda *_: None,
    )
    _ffi_api.TuneContextInitialize(context)
    return generator, [schedule.trace for schedule in context.generate_design_space()]


def computed_by_torch(program: TensorProgram, inputs: Sequence[Array]) -> list[Array]:
    """The same by torch's own operators, in float64."""
    sizes = dict(program.sizes)
    tensors = [torch.from_numpy(given).double() for given in inputs]
    found = _TORCH[program.family](sizes, *tensors)
    results = found if isinstance(found, tuple) else (found,)
    return [
        result.numpy().astype(spec.dtype)
        for result, spec in zip(results, catalog.outputs(program), strict=True)
    ]


_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_AXES = ("depth", "height", "width")


def _along(sizes: Sizes, what: str) -> list[int]:
    return [sizes[f"{what}_{axis}"] for axis in _AXES if f"{what}_{axis}" in sizes]


def _convolution(sizes: Sizes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    groups = sizes["in_channels"] if "multiplier" in sizes else sizes.get("groups", 1)
    layer = _CONVOLUTIONS[x.dim() - 2]
    stride, padding, dilation = (_along(sizes, what) for what in ("stride", "padding", "dilation"))
    y = layer(x, w, b, stride, padding, dilation, groups)
    return y.relu() if sizes.get("relu") else y


def _in_layout(data: str, filters: str) -> Callable[..., Tensor]:
    """A convolution of tensors in other layouts than torch's, given as permutations to those."""
    to_torch = [int(at) for at in data]
    back = np.argsort(to_torch).tolist()

    def layer(sizes: Sizes, x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        there = _convolution(sizes, x.permute(to_torch), w.permute([int(at) for at in filters]), *b)
        return there.permute(back)

    return layer


def _transposed(sizes: Sizes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    stride, padding = _along(sizes, "stride"), _along(sizes, "padding")
    layer = _TRANSPOSED[x.dim() - 2]
    y = layer(x, w, b, stride, padding, _along(sizes, "output_padding"), sizes["groups"])
    return y.relu() if sizes["relu"] else y


def _dense(sizes: Sizes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    y = functional.linear(x, w, b)
    return y.relu() if sizes.get("relu") else y


def _matmul(sizes: Sizes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    y = torch.mm(x, w) if b is None else torch.addmm(b, x, w)
    return y.relu() if sizes["relu"] else y


def _lstm(sizes: Sizes, x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    cell = torch.nn.LSTMCell(sizes["inputs"], sizes["hidden"], dtype=torch.float64)
    w_x, w_h, b = weights
    state = {"weight_ih": w_x, "weight_hh": w_h, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    cell.load_state_dict(state)
    with torch.no_grad():
        return tuple(cell(x, (h, c)))


def _correlation(sizes: Sizes, first: Tensor, second: Tensor) -> Tensor:
    """By pooling the products of each displacement, cut where a patch would leave the images."""
    farthest, step = sizes["max_displacement"], sizes["displacement_stride"]
    first, second = (functional.pad(image, [sizes["padding"]] * 4) for image in (first, second))
    reach = range(-(farthest // step) * step, farthest + 1, step)
    inner = slice(farthest, -farthest or None)
    maps = []
    for down in reach:
        for right in reach:
            moved = second.roll((-down, -right), (2, 3))
            means = (first * moved).mean(1, keepdim=True)[:, :, inner, inner]
            maps.append(functional.avg_pool2d(means, sizes["kernel"], sizes["stride"]))
    return torch.cat(maps, 1)


def _attention(_sizes: Sizes, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


_TORCH: Mapping[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "conv1d_ncw": _convolution,
    "conv1d_nwc": _in_layout("021", "210"),
    "conv2d_hwcn": _in_layout("3201", "3201"),
    "conv2d_int8": _convolution,
    "conv2d_nchw": _convolution,
    "conv2d_nhwc": _in_layout("0312", "3201"),
    "conv3d_ncdhw": _convolution,
    "conv3d_ndhwc": _in_layout("04123", "43012"),
    "correlation_nchw": _correlation,
    "depthwise_conv2d": _convolution,
    "dense": _dense,
    "dense_int8": _dense,
    "grouped_conv2d": _convolution,
    "matmul": _matmul,
    "batch_matmul": lambda _sizes, x, w: torch.bmm(x, w),
    "tconv1d_ncw": _transposed,
    "tconv2d_nchw": _transposed,
    "tconv3d_ncdhw": _transposed,
    "lstm_cell": _lstm,
    "self_attention": _attention,
}

_USUAL = {
    "batch": 1, "groups": 1, "bias": 0, "relu": 0, "stride": 1, "dilation": 1, "padding": 0,
    "output_padding": 0,
}  # fmt: skip


def _by_axis(sizes: Sizes) -> dict[str, dict[str, int]]:
    """Sizes by what is left of their names without a dimension of space, then by that dimension;
    the extents themselves are called ``*``."""
    found: dict[str, dict[str, int]] = {}
    for name, size in sizes.items():
        what, _, axis = name.rpartition("_")
        if axis not in _AXES:
            what, axis = name, ""
        found.setdefault(what or "*", {})[axis] = size
    return found


def families_table() -> str:
    """Every family with the names of its sizes."""
    rows = ["| family | what it computes | sizes |", "|---|---|---|"]
    for name, family in catalog.FAMILIES.items():
        listed = []
        for what, each in _by_axis(next(iter(family.workloads.values()))).items():
            of_space = [f"`{axis}`" for axis in each if axis]
            listed += of_space if what == "*" else [f"`{what}_*`" if of_space else f"`{what}`"]
        rows.append(f"| `{name}` | {family.title} | {' '.join(listed)} |")
    return "\n".join(rows)


def workloads_table() -> str:
    """Every workload with its source, its sizes where they are not the usual ones, the memory of
    its inputs and its FLOPs."""
    rows = ["| workload | layer | sizes | inputs, MB | MFLOPs |", "|---|---|---|---|---|"]
    beyond = [name for name in catalog.FAMILIES if name not in TABLE_2]
    for family in (*TABLE_2, *beyond):
        for name, sizes in catalog.FAMILIES[family].workloads.items():
            program = catalog.program(family, sizes)
            taken = sum(spec.bytes for spec in catalog.inputs(program)) / 1e6
            rows.append(
                f"| `{family}.{name}` | {SOURCES[f'{family}.{name}']} | {_told(sizes)} "
                f"| {taken:.2f} | {catalog.flops(program) / 1e6:.2f} |"
            )
    return "\n".join(rows)


def _told(sizes: Sizes) -> str:
    told = []
    for what, each in _by_axis(sizes).items():
        if any(size != _USUAL.get(what) for size in each.values()):
            product = "×".join(map(str, each.values()))
            told.append(product if what == "*" else f"{what} {product}")
    return ", ".join(told)
