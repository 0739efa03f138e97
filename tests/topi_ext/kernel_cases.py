"""Random convolutions and poolings, each made from one seed and printed as one line that makes it again."""

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from kernel_harness import Array, check_kernel, convolution_rule, host_cpus, integers, prim_func, target_for
from kernel_reference import convolve, pack, pool
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.target import Target

from topi_ext.compute import Pooling, avg_pool2d, conv2d, max_pool2d
from topi_ext.compute.transcendental import sigmoid
from topi_ext.indexing import block_of, physical_axes
from topi_ext.knobs import ConvolutionKnobs, Order, check_knobs
from topi_ext.machine.processor import processor_of
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.schedule.cpu.direct import schedule_convolution
from topi_ext.schedule.cpu.pooling import WindowPooling
from topi_ext.spaces.convolution import cheapest
from topi_ext.weights import fill_vectors
from topi_ext.workloads.convolution import ConvolutionWorkload, padded_lanes
from topi_ext.workloads.facts import fuses_rows, lanes_are_pixels, pads_by_chunk, tiled_channels, vector_steps
from topi_ext.workloads.reading import convolution_from_json

EPILOGUES = ("none", "bias_relu", "bias_add_clip", "bias_gate")
"""What follows a convolution; the last one reads a tensor twice whose expression binds variables."""


@dataclass(frozen=True)
class ConvolutionCase:
    """``run_convolution(ConvolutionCase(...))`` repeats a failure."""

    batch: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = "NCHW"
    epilogue: str = "none"
    symbolic_batch: bool = False
    index_dtype: str | None = None
    cpu: str | None = None
    cores: int = 2
    knobs: ConvolutionKnobs | None = None

    @property
    def out_extents(self) -> tuple[int, int]:
        top, left, bottom, right = self.padding
        sides = (self.height + top + bottom, self.width + left + right)
        height, width = (
            (side - step * (taps - 1) - 1) // stride + 1
            for side, step, taps, stride in zip(sides, self.dilation, self.kernel, self.strides, strict=True)
        )
        return height, width

    @property
    def padded_lanes(self) -> int:
        return padded_lanes(self.kernel_layout, self.out_layout, self.groups, self.out_channels)

    @property
    def macs(self) -> int:
        height, width = self.out_extents
        taps = self.kernel[0] * self.kernel[1] * self.in_channels // self.groups
        return self.batch * self.out_channels * height * width * taps


def convolution_case(seed: int) -> ConvolutionCase:
    """The convolution of that seed: odd and tiny extents, every kind of group and mix of layouts."""
    rng = random.Random(seed)
    while True:
        case = _draw_convolution(rng)
        if min(case.out_extents) >= 1 and case.macs <= 3_000_000:
            return case


def _draw_convolution(rng: random.Random) -> ConvolutionCase:
    data_layout, out_layout = _layouts(rng)
    if data_layout == "WC":
        return _draw_product(rng)
    in_block, out_block = block_of(data_layout, "C"), block_of(out_layout, "C")
    groups, in_channels, out_channels = _channels(rng, in_block, out_block)
    window = rng.choice([(1, 1), (1, 1), (3, 3), (3, 3), (2, 2), (5, 5), (1, 3), (3, 1), (4, 3), (2, 5)])
    plain = rng.random() < 0.4
    wide = rng.random() < 0.1
    return ConvolutionCase(
        batch=rng.choice([1, 1, 2, 3]),
        in_channels=in_channels,
        out_channels=out_channels,
        height=rng.randint(1, 3 if wide else 17),
        width=rng.randint(60, 100) if wide else rng.randint(1, 17),
        kernel=window,
        strides=(1, 1) if plain else (rng.randint(1, 3), rng.randint(1, 3)),
        padding=(0, 0, 0, 0) if rng.random() < 0.3 else tuple(rng.randint(0, 2) for _ in range(4)),  # type: ignore[arg-type]
        dilation=(1, 1) if plain or rng.random() < 0.5 else (rng.randint(1, 2), rng.randint(1, 3)),
        groups=groups,
        data_layout=data_layout,
        kernel_layout=_kernel_layout(rng, in_channels // groups, out_channels, in_block, out_block),
        out_layout=out_layout,
        epilogue=rng.choice(EPILOGUES),
        symbolic_batch=rng.random() < 0.15,
        index_dtype=rng.choice([None, "int64"]),
        cpu=rng.choice(host_cpus()),
        cores=rng.randint(1, 4),
    )


def _draw_product(rng: random.Random) -> ConvolutionCase:
    """Rows by a matrix: a convolution whose layouts leave out the axes of extent one."""
    out_channels = rng.choice([1, 5, 16, 24, 31, 48, 96])
    kernel_layouts = ["OI", "IO"] + [f"OI{size}o" for size in (4, 8, 16) if out_channels % size == 0]
    return ConvolutionCase(
        batch=1,
        in_channels=rng.choice([1, 3, 16, 65, 128]),
        out_channels=out_channels,
        height=1,
        width=rng.choice([1, 2, 7, 16, 33]),
        kernel=(1, 1),
        data_layout="WC",
        kernel_layout=rng.choice(kernel_layouts),
        out_layout="WC",
        epilogue=rng.choice(EPILOGUES),
        index_dtype=rng.choice([None, "int64"]),
        cpu=rng.choice(host_cpus()),
        cores=rng.randint(1, 4),
    )


def _layouts(rng: random.Random) -> tuple[str, str]:
    kind = rng.random()
    if kind < 0.05:
        return "WC", "WC"
    if kind < 0.2:
        return "NCHW", "NCHW"
    if kind < 0.45:
        return "NHWC", "NHWC"
    blocked = [f"NCHW{block}c" for block in (4, 8, 16)]
    if kind < 0.75:
        return rng.choice(blocked), rng.choice(blocked)
    if kind < 0.85:
        return "NCHW", rng.choice(blocked)
    return rng.choice(["NCHW", "NHWC", *blocked]), rng.choice(["NCHW", "NHWC", *blocked])


def _channels(rng: random.Random, in_block: int, out_block: int) -> tuple[int, int, int]:
    """Groups, input channels, output channels; any number of them where the layout is not blocked."""
    kind = rng.choice(["dense", "dense", "dense", "grouped", "depthwise", "multiplier"])
    sizes = [1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 48, 58]

    def channels(block: int) -> int:
        return rng.choice(sizes) if block == 1 else block * rng.randint(1, 3)

    if kind == "dense":
        return 1, channels(in_block), channels(out_block)
    step = max(in_block, out_block)
    if kind == "grouped":
        groups = rng.choice([2, 3, 4])
        widest = rng.choice([1, 2, 3, 5, 8])
        if step == 1:
            return groups, groups * widest, groups * rng.choice([1, 2, 3, 5, 8])
        groups = rng.choice([2, 4])
        return groups, step * rng.choice([1, groups]), step * rng.choice([1, groups])
    channel_count = rng.choice(sizes[1:]) if step == 1 else step * rng.randint(1, 3)
    return channel_count, channel_count, channel_count * (rng.choice([2, 3]) if kind == "multiplier" else 1)


def _kernel_layout(rng: random.Random, reduced: int, out_channels: int, in_block: int, out_block: int) -> str:
    choices = ["OIHW", "HWIO", "HWOI"]
    packs = [pack for pack in (4, 8, 16) if out_channels % pack == 0]
    for packed in packs:
        choices += [f"OHWI{packed}o", f"OIHW{packed}o"]
    if out_block > 1:
        choices = [f"OIHW{out_block}o"]
        if reduced % in_block == 0 and in_block > 1:
            choices = [f"OIHW{in_block}i{out_block}o"] * 3 + choices
            if in_block % 4 == 0:
                choices.append(f"OIHW{in_block // 4}i{out_block}o4i")
        choices.append(rng.choice(["OIHW", "HWIO"]))
    return rng.choice(choices)


def convolution_function(case: ConvolutionCase) -> tuple[tirx.PrimFunc, list[Array], Array]:
    """The unscheduled function, its inputs, and what it must compute."""
    rng = np.random.default_rng(0)
    data = integers(rng, (case.batch, case.in_channels, case.height, case.width))
    weight = integers(rng, (case.out_channels, case.in_channels // case.groups, *case.kernel))
    expected = convolve(data, weight, case.strides, case.padding, case.dilation, case.groups)
    batch = tirx.Var("n", case.index_dtype or "int32") if case.symbolic_batch else case.batch
    order, lanes = "OIHW", case.padded_lanes
    if lanes:
        weight = fill_vectors(weight, case.groups, lanes)
        order = "GOIHW" if case.groups > 1 else "OIHW"
    inputs = [pack(data, "NCHW", case.data_layout), pack(weight, order, case.kernel_layout)]
    tensors = [
        te.placeholder(_shape(inputs[0], case.data_layout, {"N": batch}), name="data"),
        te.placeholder(inputs[1].shape, name="weight"),
    ]
    result = conv2d(
        *tensors,
        strides=case.strides,
        padding=case.padding,
        dilation=case.dilation,
        groups=case.groups,
        data_layout=case.data_layout,
        kernel_layout=case.kernel_layout,
        out_layout=case.out_layout,
        out_channels=case.out_channels,
    )
    if case.epilogue != "none":
        bias = integers(rng, (1, case.out_channels, 1, 1))
        inputs.append(pack(bias, "NCHW", case.out_layout))
        tensors.append(te.placeholder(inputs[-1].shape, name="bias"))
        result, expected = topi.add(result, tensors[-1]), expected + bias
    if case.epilogue == "bias_relu":
        result, expected = topi.nn.relu(result), np.maximum(expected, 0)
    if case.epilogue in ("bias_add_clip", "bias_gate"):
        residual = integers(rng, expected.shape)
        inputs.append(pack(residual, "NCHW", case.out_layout))
        tensors.append(te.placeholder(_shape(inputs[-1], case.out_layout, {"N": batch}), name="residual"))
        if case.epilogue == "bias_add_clip":
            result = topi.clip(topi.add(result, tensors[-1]), -20, 50)
            expected = (expected + residual).clip(-20, 50)
        else:
            gate, share = sigmoid(result), 1 / (1 + np.exp(-expected.astype("float64")))
            result = topi.add(topi.multiply(gate, tensors[-1]), topi.subtract(1.0, gate))
            expected = share * residual + (1 - share)
    packed = pack(expected.astype("float32"), "NCHW", case.out_layout)
    return prim_func([*tensors, result], case.index_dtype), inputs, packed


def _shape(array: Array, layout: str, extents: dict[str, Any]) -> list[Any]:
    """The shape of ``array``, but for the axes that ``extents`` names."""
    axes = physical_axes(layout)
    return [extents.get(name, size) for (name, _), size in zip(axes, array.shape, strict=True)]


def workload_of(func: tirx.PrimFunc) -> ConvolutionWorkload:
    found = annotated_block(open_schedule(func))
    assert found is not None
    return convolution_from_json(found[1])


def run_convolution(case: ConvolutionCase) -> None:
    """Compute the case with the convolution rule, or with the case's own knobs, and compare."""
    func, inputs, expected = convolution_function(case)

    def schedule(func: tirx.PrimFunc, target: Target) -> Schedule:
        workload = workload_of(func)
        knobs = case.knobs or cheapest(workload, processor_of(target), winograd=False)[1]
        if case.knobs is None:
            arranged = convolution_rule(target).apply(func, target, False)
            if arranged is not None:
                return arranged
        # The rule answers None instead of raising; this raises where it would have.
        arranged = schedule_convolution(func, workload, knobs)
        assert case.knobs is not None, "Convolution does not take the function"
        return arranged

    check_kernel(
        func,
        target_for(case.cpu, case.cores),
        inputs,
        expected,
        tolerance=1e-6 if case.epilogue == "bias_gate" else 0.0,
        case=case,
        schedule=schedule,
    )


def random_knobs(workload: ConvolutionWorkload, seed: int) -> ConvolutionKnobs:
    """Knobs that fit, drawn from all of the space: odd lanes, tiles that do not divide, long chunks."""
    rng = random.Random(seed)
    height, width = int(workload.out_height), int(workload.out_width)
    run = height * width if fuses_rows(workload) else width
    block = max(block_of(workload.out_layout, "C"), workload.padded_lanes)
    limit = run if lanes_are_pixels(workload) else tiled_channels(workload)
    free = [size for size in (1, 2, 3, 4, 8, 10, 16, 32) if size <= limit]
    lanes = block if block > 1 else rng.choice(free)
    pixels, channels = run, tiled_channels(workload) // lanes
    if lanes_are_pixels(workload):
        pixels, channels = run // lanes, workload.out_channels
    tile_channels = rng.randint(1, min(channels, 7))
    tile_pixels = rng.randint(1, min(pixels, max(1, 28 // tile_channels)))
    rows = height
    if fuses_rows(workload):
        rows = -(-run // (tile_pixels * (lanes if lanes_are_pixels(workload) else 1)))
    tile = tile_channels * (1 if lanes_are_pixels(workload) else lanes)
    order: Order = rng.choice(["channels", "pixels"]) if "H" in workload.out_layout else "channels"
    return ConvolutionKnobs(
        lanes=lanes,
        tile_pixels=tile_pixels,
        tile_channels=tile_channels,
        order=order,
        rows=rng.choice([count for count in range(1, rows + 1) if rows % count == 0]),
        pad_at=rng.choice(["stage", "chunk"])
        if order == "pixels" or pads_by_chunk(workload, tile)
        else "stage",
        steps=rng.choice([1, vector_steps(workload, tile_pixels)]),
    )


def convolution_case_with_knobs(seed: int) -> ConvolutionCase:
    case = convolution_case(seed)
    func, _, _ = convolution_function(case)
    workload = workload_of(func)
    knobs = random_knobs(workload, seed)
    check_knobs(workload, knobs)
    return replace(case, knobs=knobs)


@dataclass(frozen=True)
class PoolingCase:
    """``run_pooling(PoolingCase(...))`` repeats a failure."""

    operator: str
    batch: int
    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCHW"
    epilogue: bool = False
    symbolic_batch: bool = False
    symbolic_image: bool = False
    """Are height and width symbols, as Relax has them: of int64? Not with ``ceil_mode``."""
    index_dtype: str | None = None
    cpu: str | None = None
    cores: int = 2

    @property
    def out_extents(self) -> tuple[int, int]:
        return self._extent(0), self._extent(1)

    def _extent(self, axis: int) -> int:
        size, before, after = (self.height, self.width)[axis], self.padding[axis], self.padding[axis + 2]
        span = size + before + after - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        if span < 0:
            return 0
        if not self.ceil_mode:
            return span // self.strides[axis] + 1
        extent = -(-span // self.strides[axis]) + 1
        # As in every framework: a window that starts beyond the image and its left padding is dropped.
        return extent - 1 if (extent - 1) * self.strides[axis] >= size + before else extent

    @property
    def every_window_meets_the_image(self) -> bool:
        return all(
            any(
                0 <= start * self.strides[axis] - self.padding[axis] + tap * self.dilation[axis] < size
                for tap in range(self.kernel[axis])
            )
            for axis, size in enumerate((self.height, self.width))
            for start in range(self.out_extents[axis])
        )


def pooling_case(seed: int) -> PoolingCase:
    """The pooling of that seed."""
    rng = random.Random(seed)
    while True:
        case = _draw_pooling(rng)
        if min(case.out_extents) >= 1 and case.every_window_meets_the_image:
            return case


def _draw_pooling(rng: random.Random) -> PoolingCase:
    layout = rng.choice(["NCHW", "NHWC", "NHWC", "NCHW4c", "NCHW8c", "NCHW16c"])
    block = block_of(layout, "C")
    kernel = rng.choice([(1, 1), (2, 2), (3, 3), (3, 3), (5, 5), (1, 3), (3, 2), (7, 7)])
    dilated = rng.random() < 0.25
    return PoolingCase(
        operator=rng.choice(["max_pool2d", "avg_pool2d"]),
        batch=rng.choice([1, 1, 2, 3]),
        channels=rng.choice([1, 2, 3, 8, 16, 17, 24, 40, 64]) if block == 1 else block * rng.randint(1, 3),
        height=rng.randint(1, 17),
        width=rng.randint(1, 17),
        kernel=kernel,
        strides=(rng.randint(1, 3), rng.randint(1, 3)),
        padding=tuple(rng.randint(0, side // 2) for side in (*kernel, *kernel)),  # type: ignore[arg-type]
        dilation=(rng.randint(1, 2), rng.randint(1, 3)) if dilated else (1, 1),
        ceil_mode=(ceil_mode := rng.random() < 0.4),
        count_include_pad=rng.random() < 0.5,
        layout=layout,
        epilogue=rng.random() < 0.4,
        symbolic_batch=rng.random() < 0.15,
        symbolic_image=(symbolic := not ceil_mode and rng.random() < 0.4),
        index_dtype="int64" if symbolic else rng.choice([None, "int64"]),
        cpu=rng.choice(host_cpus()),
        cores=rng.randint(1, 4),
    )


def pooling_function(case: PoolingCase) -> tuple[tirx.PrimFunc, list[Array], Array]:
    """The unscheduled function, its inputs, and what it must compute."""
    rng = np.random.default_rng(0)
    data = integers(rng, (case.batch, case.channels, case.height, case.width))
    geometry = (case.kernel, case.strides, case.padding, case.dilation)
    pooled = pool(data, case.operator, *geometry, case.out_extents, case.count_include_pad)
    expected = pooled.astype("float32")
    symbols = {axis: tirx.Var(axis.lower(), case.index_dtype or "int32") for axis in "NHW"}
    extents: dict[str, Any] = {"N": symbols["N"] if case.symbolic_batch else case.batch}
    out_extents = dict(extents)
    for place, axis in enumerate("HW" if case.symbolic_image else ""):
        extents[axis] = symbols[axis]
        span = case.padding[place] + case.padding[place + 2] - case.dilation[place] * (case.kernel[place] - 1)
        out_extents[axis] = tirx.floordiv(symbols[axis] + (span - 1), case.strides[place]) + 1
    inputs = [pack(data, "NCHW", case.layout)]
    tensors = [te.placeholder(_shape(inputs[0], case.layout, extents), name="data")]
    out_shape = _shape(pack(expected, "NCHW", case.layout), case.layout, out_extents)
    pooling = Pooling(*geometry, case.layout)
    if case.operator == "max_pool2d":
        result = max_pool2d(tensors[0], pooling, out_shape)
    else:
        result = avg_pool2d(tensors[0], pooling, out_shape, count_include_pad=case.count_include_pad)
    if case.epilogue:
        residual = integers(rng, expected.shape)
        inputs.append(pack(residual, "NCHW", case.layout))
        tensors.append(te.placeholder(out_shape, name="residual"))
        result, expected = topi.nn.relu(topi.add(result, tensors[-1])), np.maximum(expected + residual, 0)
    return prim_func([*tensors, result], case.index_dtype), inputs, pack(expected, "NCHW", case.layout)


def run_pooling(case: PoolingCase) -> None:
    """Compute the case with the rules, demanding the pooling rule but for windows of one column in NCHW."""
    func, inputs, expected = pooling_function(case)
    target = target_for(case.cpu, case.cores)
    if case.layout != "NCHW" or case.kernel[1] > max(1, case.padding[1]):
        assert WindowPooling().apply(func, target, False) is not None, f"{case!r}: WindowPooling declines"
    tolerance = 1e-6 if case.operator == "avg_pool2d" else 0.0
    check_kernel(func, target, inputs, expected, tolerance=tolerance, case=case)
