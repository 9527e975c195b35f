"""What only moves elements, as ONNX nodes: shapes, parts, joins, look-ups."""

from __future__ import annotations

from workers.graph.exporters.onnx.call import Call, Description


def _reshape(*arguments: str) -> Description:
    """The arguments are those that say the shape, which the graph knows."""

    def describe(call: Call) -> str:
        for name in arguments:
            call.argument(name)
        return call.reshaped(call.value("self"), call.result.shape)

    return describe


def _unsqueeze(call: Call) -> str:
    axis = call.axis("dim", len(call.result.shape))
    return call.node("Unsqueeze", call.value("self"), call.whole_numbers([axis]))


def _permute(call: Call) -> str:
    x = call.value("self")
    order = call.axes("dims", x.rank)
    return call.node("Transpose", x, perm=order) if x.rank else x.name


def _transpose(call: Call) -> str:
    x = call.value("self")
    first, second = call.axis("dim0", x.rank), call.axis("dim1", x.rank)
    if x.rank < 2:
        return x.name
    order = list(range(x.rank))
    order[first], order[second] = second, first
    return call.node("Transpose", x, perm=order)


def _matrix_transpose(call: Call) -> str:
    x = call.value("self")
    return call.node("Transpose", x, perm=(1, 0)) if x.rank == 2 else x.name


def _expand(call: Call) -> str:
    call.argument("size")
    return call.node("Expand", call.value("self"), call.whole_numbers(call.result.shape))


def _slice(call: Call) -> str:
    x = call.value("self")
    axis, step = call.axis("dim", x.rank), call.whole("step")
    start, end = (_position(call, name) for name in ("start", "end"))
    first, last, _ = slice(start, end, step).indices(x.shape[axis])
    if call.result.shape == x.shape:
        return x.name
    return call.node(
        "Slice", x, *(call.whole_numbers([number]) for number in (first, last, axis, step))
    )


def _position(call: Call, name: str) -> int | None:
    return None if call.argument(name) is None else call.whole(name)


def _narrow(call: Call) -> str:
    x = call.value("self")
    axis = call.axis("dim", x.rank)
    first = call.whole("start") % max(x.shape[axis], 1)
    last = first + call.whole("length")
    numbers = (call.whole_numbers([number]) for number in (first, last, axis))
    return call.node("Slice", x, *numbers)


def _select(call: Call) -> str:
    x = call.value("self")
    axis = call.axis("dim", x.rank)
    index = call.index(call.whole("index") % x.shape[axis])
    return call.node("Gather", x, index, axis=axis)


def _split(*arguments: str) -> Description:
    """The arguments are those that say the sizes, which the graph knows."""

    def describe(call: Call) -> list[str]:
        for name in arguments:
            call.argument(name)
        x = call.value("self")
        axis = call.axis("dim", x.rank)
        return _parts(call, axis, [result.shape[axis] for result in call.results])

    return describe


def _unbind(call: Call) -> list[str]:
    axis = call.axis("dim", call.value("self").rank)
    parts = _parts(call, axis, [1] * len(call.results))
    return [call.node("Squeeze", part, call.whole_numbers([axis])) for part in parts]


def _parts(call: Call, axis: int, sizes: list[int]) -> list[str]:
    x = call.value("self")
    if len(sizes) == 1:
        return [x.name]
    return call.split(len(sizes), "Split", x, call.whole_numbers(sizes), axis=axis)


def _concat(call: Call) -> str:
    # torch skips vectors without elements, of whatever rank the others are.
    parts = [part for part in call.values("tensors") if part.shape != (0,)]
    axis = call.axis("dim", len(call.result.shape))
    names = [call.cast(part, call.result.dtype) for part in parts]
    if not names:
        raise call.error("it joins nothing")
    return call.node("Concat", *names, axis=axis) if len(names) > 1 else names[0]


def _stack(call: Call) -> str:
    axis = call.axis("dim", len(call.result.shape))
    at = call.whole_numbers([axis])
    parts = [
        call.node("Unsqueeze", call.cast(part, call.result.dtype), at)
        for part in call.values("tensors")
    ]
    return call.node("Concat", *parts, axis=axis)


def _embedding(call: Call) -> str:
    weight = call.value("weight")
    return call.node("Gather", weight, call.indices("indices", weight.shape[0]), axis=0)


def _index_select(call: Call) -> str:
    x = call.value("self")
    axis = call.axis("dim", x.rank)
    return call.node("Gather", x, call.indices("index", x.shape[axis]), axis=axis)


def _repeat(call: Call) -> str:
    x, result = call.value("self"), call.result.shape
    times = call.sizes("repeats", len(result))
    widened = call.reshaped(x, (*(1 for _ in result[x.rank :]), *x.shape))
    return call.node("Tile", widened, call.whole_numbers(times))


def _pad(call: Call) -> str:
    x, given = call.value("self"), call.argument("pad")
    if not isinstance(given, tuple):
        raise call.error("its argument pad is no list")
    widths = [width for width in given if isinstance(width, int)]
    untouched = [0] * (x.rank - len(widths) // 2)  # torch begins at the last dimension
    starts, ends = untouched + widths[-2::-2], untouched + widths[::-2]
    filling = call.scalar(call.number("value"), x.dtype)
    return call.node("Pad", x, call.whole_numbers(starts + ends), filling)


def _pixel_shuffle(call: Call) -> str:
    x = call.value("self")
    if x.rank != 4:
        raise call.error("its input is no batch of images")
    return call.node("DepthToSpace", x, blocksize=call.whole("upscale_factor"), mode="CRD")


def _same(call: Call) -> str:
    return call.value("self").name


def _dropout(call: Call) -> str:
    if call.flag("train"):
        raise call.error("it drops elements at random")
    call.argument("p")
    return call.value("input").name


ARRANGEMENT: dict[str, Description] = {
    "aten.view.default": _reshape("size"),
    "aten.reshape.default": _reshape("shape"),
    "aten._unsafe_view.default": _reshape("size"),
    "aten.flatten.using_ints": _reshape("start_dim", "end_dim"),
    "aten.unflatten.int": _reshape("dim", "sizes"),
    "aten.squeeze.default": _reshape(),
    "aten.squeeze.dim": _reshape("dim"),
    "aten.squeeze.dims": _reshape("dim"),
    "aten.unsqueeze.default": _unsqueeze,
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _matrix_transpose,
    "aten.expand.default": _expand,
    "aten.broadcast_to.default": _expand,
    "aten.slice.Tensor": _slice,
    "aten.narrow.default": _narrow,
    "aten.select.int": _select,
    "aten.split.Tensor": _split("split_size"),
    "aten.split_with_sizes.default": _split("split_sizes"),
    "aten.chunk.default": _split("chunks"),
    "aten.unbind.int": _unbind,
    "aten.cat.default": _concat,
    "aten.stack.default": _stack,
    "aten.embedding.default": _embedding,
    "aten.index_select.default": _index_select,
    "aten.repeat.default": _repeat,
    "aten.constant_pad_nd.default": _pad,
    "aten.pixel_shuffle.default": _pixel_shuffle,
    "aten.clone.default": _same,
    "aten.contiguous.default": _same,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.lift_fresh_copy.default": _same,
    "aten.dropout.default": _dropout,
}
