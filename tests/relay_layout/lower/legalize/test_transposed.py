"""Transposed convolutions as convolutions of phases, beside torch's: numbers, kernels and costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.graph import build_graph
from relay_layout.layout.transform import apply
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.ops import ConvolutionLayouts
from relay_layout.relax_pipeline import pipeline
from relay_layout.targets import resolve_target
from relay_layout.targets.convolutions import convolution_of
from relay_layout.targets.phases import phases_of
from tests.legalizing import legalized
from topi_ext.codegen.build import PIPELINE

torch = pytest.importorskip("torch")

op = relax.op
TARGET = resolve_target("native", threads=2)
ESTIMATES = resolve_target("x86-64-v4", threads=2, shipped_records=False)
"""Costs by estimate alone, whose peak is that of the target's facts."""


@dataclass(frozen=True)
class Case:
    """A transposed convolution; ``layout`` is that of data and result, "{}" in it stands for the axes."""

    channels: tuple[int, int] = (5, 7)
    image: tuple[int, ...] = (4, 5)
    kernel: tuple[int, ...] = (2, 2)
    strides: tuple[int, ...] = (2, 2)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    output_padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    batch: int = 2
    layout: str = "NCHW"
    kernel_layout: str = "IOHW"

    @property
    def spatial(self) -> str:
        return "DHW"[-len(self.image) :]

    @property
    def plain(self) -> str:
        return f"NC{self.spatial}"


def arrays(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, weight (inputs, outputs, window) and result, plain; torch adds in double precision."""
    rng = np.random.default_rng(3)
    inputs, outputs = case.channels
    data = rng.uniform(-1, 1, (case.batch, inputs, *case.image)).astype("float32")
    weight = rng.uniform(-1, 1, (inputs, outputs // case.groups, *case.kernel)).astype("float32")
    rank = len(case.image)
    function = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
    whole = function(
        torch.tensor(data).double(),
        torch.tensor(weight).double(),
        stride=case.strides,
        dilation=case.dilation,
        groups=case.groups,
    ).numpy()
    longer = np.pad(whole, [(0, 0), (0, 0), *((0, more) for more in case.output_padding)])
    image = tuple(
        slice(before, size - after)
        for size, before, after in zip(
            longer.shape[2:], case.padding[:rank], case.padding[rank:], strict=True
        )
    )
    inside = (slice(None), slice(None), *image)
    return data, weight, longer[inside]


def module_of(
    case: Case,
    weight: np.ndarray | None,
    *,
    image: Sequence[int | relax.Expr] | None = None,
    any_batch: bool = False,
    epilogue: bool = False,
) -> tvm.IRModule:
    """One transposed convolution; its weight is an input where None is given."""
    builder = relax.BlockBuilder()
    extents = apply(
        np.empty((case.batch, case.channels[0], *case.image), "int8"), case.plain, case.layout
    ).shape
    shape: list[int | relax.Expr] = [*extents]
    if image is not None:
        shape[2 : 2 + len(case.image)] = image
    if any_batch:
        shape[0] = tirx.Var("n", "int64")
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    taps = (case.channels[0], case.channels[1] // case.groups, *case.kernel)
    kernel: relax.Expr = relax.Var("weight", relax.TensorType(taps, "float32"))
    parameters = [data, kernel]
    if weight is not None:
        kernel, parameters = relax.const(apply(weight, f"IO{case.spatial}", case.kernel_layout)), [data]
    functions = op.nn.conv1d_transpose, op.nn.conv2d_transpose, op.nn.conv3d_transpose
    function = functions[len(case.image) - 1]
    with builder.function("main", parameters):
        with builder.dataflow():
            value = builder.emit(
                function(
                    data,
                    kernel,
                    strides=list(case.strides),
                    padding=list(case.padding),
                    output_padding=list(case.output_padding),
                    dilation=list(case.dilation),
                    groups=case.groups,
                    data_layout=case.layout,
                    kernel_layout=case.kernel_layout,
                )
            )
            if epilogue:
                bias = np.ones((1, case.channels[1], *[1] * len(case.image)), "float32")
                moved = apply(bias, case.plain, case.layout)
                value = builder.emit(op.nn.relu(builder.emit(op.add(value, relax.const(moved)))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.finalize()


def check(case: Case, *, any_batch: bool = False, epilogue: bool = False) -> None:
    data, weight, want = arrays(case)
    if epilogue:
        want = np.maximum(want + 1, 0)
    module = module_of(case, weight, any_batch=any_batch, epilogue=epilogue)
    assert not any("transpose" in name for name in kernels(module))
    built = tvm.compile(
        module,
        TARGET.tvm_target,
        relax_pipeline=pipeline(TARGET, desired_layout="none"),
        tir_pipeline=PIPELINE,
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    have = machine["main"](tvm.runtime.tensor(apply(data, case.plain, case.layout))).numpy()
    np.testing.assert_allclose(have, apply(want, case.plain, case.layout), 1e-4, 5e-5)


def kernels(module: tvm.IRModule) -> list[str]:
    """Names of the functions that a module becomes, in the order of the calls."""
    with TARGET.tvm_target:
        lowered = tvm.transform.Sequential([*legalize_passes(TARGET), *fuse_passes(TARGET)])(module)
    bindings = [binding for block in lowered["main"].body.blocks for binding in block.bindings]
    calls = [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]
    return [str(call.args[0].name_hint) for call in calls if isinstance(call.args[0], tvm.ir.GlobalVar)]


BLOCKED = {"channels": (8, 12), "layout": "NCHW4c", "kernel_layout": "IOHW4i4o"}
LAST = {"layout": "NHWC", "kernel_layout": "HWIO"}
WHOLE = {"layout": "NCHW16c", "kernel_layout": "IOHW16i16o"}
LAYOUTS = [{}, LAST, BLOCKED]

WINDOWS = [
    Case(),
    Case(kernel=(4, 4), padding=(1, 1, 1, 1)),
    Case(kernel=(3, 5), padding=(1, 2, 1, 2), output_padding=(1, 1)),
    Case(kernel=(4, 5), strides=(3, 3), padding=(2, 0, 1, 3), output_padding=(2, 1)),
    Case(kernel=(1, 2), strides=(3, 2), output_padding=(2, 0)),
    Case(kernel=(5, 3), strides=(1, 2), padding=(2, 1, 0, 0), dilation=(2, 1)),
]
"""In order: no window, phases that lie across the padding, taps that are missing and rows that have no data,
padding that differs by side, phases without a tap, one axis without phases."""


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("layouts", LAYOUTS, ids=["first", "last", "blocked"])
def test_numbers(case: Case, layouts: dict[str, object]) -> None:
    check(replace(case, **layouts))


@pytest.mark.parametrize(
    "case",
    [
        Case(kernel=(2, 3), strides=(1, 1), padding=(3, 0, 0, 4)),
        Case(kernel=(2, 2), strides=(2, 2), padding=(3, 2, 2, 4)),
    ],
)
def test_more_padding_than_the_window_reaches_crops_the_data(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("layout", "kernel_layout", "channels"),
    [("NCW", "IOW", (5, 7)), ("NWC", "WIO", (5, 7)), ("NCW4c", "IOW4i8o", (8, 8))],
)
def test_sequences(layout: str, kernel_layout: str, channels: tuple[int, int]) -> None:
    numbers = {"strides": (2,), "padding": (1, 1), "output_padding": (1,), "dilation": (1,)}
    check(Case(channels, (6,), (3,), layout=layout, kernel_layout=kernel_layout, **numbers))


@pytest.mark.parametrize(
    ("layout", "kernel_layout", "channels"),
    [("NCDHW", "IODHW", (5, 7)), ("NDHWC", "DHWIO", (5, 7)), ("NCDHW4c", "IODHW4i8o", (8, 8))],
)
@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "behind"),
    [
        ((2, 2, 2), (2, 2, 2), (0,) * 6, (0, 0, 0)),
        ((3, 4, 5), (2, 2, 3), (1, 1, 2, 0, 1, 1), (1, 0, 2)),
        ((1, 3, 3), (2, 1, 2), (0, 1, 1, 0, 1, 1), (1, 0, 1)),
    ],
)
def test_volumes(
    layout: str,
    kernel_layout: str,
    channels: tuple[int, int],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    behind: tuple[int, ...],
) -> None:
    numbers = {"strides": strides, "padding": padding, "output_padding": behind, "dilation": (1, 1, 1)}
    check(Case(channels, (3, 4, 5), kernel, layout=layout, kernel_layout=kernel_layout, **numbers))


@pytest.mark.parametrize("layouts", LAYOUTS, ids=["first", "last", "blocked"])
def test_any_batch(layouts: dict[str, object]) -> None:
    check(Case(kernel=(3, 3), padding=(1, 1, 1, 1), batch=3, **layouts), any_batch=True)


def test_phases_may_be_of_winograd() -> None:
    case = Case((64, 32), (14, 14), (6, 6), padding=(2, 2, 2, 2), batch=1, **LAST)
    assert kernels(module_of(case, arrays(case)[1])) == ["fused_conv2d_winograd_spread_phases"]
    check(case)


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)

    def numbers(low: int, high: int, count: int = 2) -> tuple[int, ...]:
        return tuple(int(number) for number in rng.integers(low, high + 1, count))

    layouts = LAYOUTS[seed % 3]
    kernel, strides = numbers(1, 5), numbers(1, 3)
    axes = list(zip(kernel, strides, strict=True))
    padding = tuple(int(rng.integers(0, size)) for _ in range(2) for size, _ in axes)
    behind = tuple(int(rng.integers(0, stride)) for _, stride in axes)
    dilation = tuple(int(rng.integers(1, 3)) if stride == 1 else 1 for _, stride in axes)
    channels = numbers(1, 40)
    if layouts is BLOCKED:
        channels = tuple(4 * count for count in numbers(1, 9))
    return replace(
        Case((channels[0], channels[1]), numbers(5, 9), kernel, strides, padding, behind, dilation),
        **{**layouts, "channels": channels},
        batch=int(rng.integers(1, 4)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_random_cases(seed: int) -> None:
    """``check(random_case(seed))`` of this file."""
    check(random_case(seed))


def assert_has_kernel(module: tvm.IRModule) -> None:
    """That convolutions are arranged by knobs: what rules refuse would become loops of the same results."""
    with TARGET.tvm_target:
        lowered = tvm.transform.Sequential([*legalize_passes(TARGET), *fuse_passes(TARGET)])(module)
        made = schedule_functions(lowered, TARGET)[1]
    assert [kernel.choice is not None for kernel in made if "conv" in kernel.name] == [True]


IN_PLACE = [
    Case((8, 16), (12, 11), (3, 3), padding=(1,) * 4, output_padding=(1, 1)),
    Case((8, 16), (12, 11), (4, 4), padding=(1,) * 4),
    Case((8, 16), (5, 4), (4, 4), padding=(1,) * 4),
    Case((8, 16), (12, 11), (4, 3), padding=(0, 2, 1, 0), output_padding=(1, 0)),
    Case((8, 16), (12, 11), (5, 4), strides=(3, 2), padding=(1, 0, 2, 1)),
    Case((16, 32), (12, 11), (2, 3), strides=(2, 1)),
    Case((16, 64), (20, 20), (5, 5), padding=(2,) * 4, output_padding=(1, 1)),
    Case((16, 48), (12, 11), (7, 5), strides=(3, 3), padding=(4, 3, 4, 3), output_padding=(1, 2)),
]
"""Cases whose phases the kernel stores in place: missing taps, crops, Winograd, tiles across two phases."""


@pytest.mark.parametrize("layouts", [LAST, WHOLE], ids=["last", "blocked"])
@pytest.mark.parametrize("case", IN_PLACE)
def test_kernels_store_phases_in_place(case: Case, layouts: dict[str, object]) -> None:
    case = replace(case, **layouts)
    (name,) = kernels(module_of(case, arrays(case)[1], epilogue=True))
    assert name.startswith("fused_conv2d")
    assert name.endswith("_spread_phases_add_relu")
    assert_has_kernel(module_of(case, arrays(case)[1], epilogue=True))
    check(case, epilogue=True)


@pytest.mark.parametrize("layouts", [LAST, WHOLE], ids=["last", "blocked"])
@pytest.mark.parametrize("case", IN_PLACE)
def test_kernels_store_phases_of_any_batch_in_place(case: Case, layouts: dict[str, object]) -> None:
    case = replace(case, batch=3, **layouts)
    module = module_of(case, arrays(case)[1], any_batch=True, epilogue=True)
    assert len(kernels(module)) == 1
    assert_has_kernel(module)
    check(case, any_batch=True, epilogue=True)


def random_case_in_place(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    channels = 16 * int(rng.integers(1, 5)), 16 * int(rng.integers(1, 5))
    return replace(random_case(seed), channels=channels, **(LAST, WHOLE)[seed % 2])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_random_cases_in_place(seed: int) -> None:
    """This check, alone, of this file."""
    check(random_case_in_place(seed), epilogue=bool(seed % 4 < 2), any_batch=bool(seed % 8 < 4))


@pytest.mark.parametrize("layouts", LAYOUTS[:2], ids=["first", "last"])
def test_bias_and_activation_join_the_copy(layouts: dict[str, object]) -> None:
    case = Case(kernel=(4, 4), **layouts)
    names = kernels(module_of(case, arrays(case)[1], epilogue=True))
    assert names == ["conv2d", "fused_spread_phases_add_relu"]


def test_one_phase_needs_no_copy() -> None:
    case = Case(kernel=(3, 3), strides=(1, 1), padding=(1, 1, 1, 1), **LAST)
    assert kernels(module_of(case, arrays(case)[1], epilogue=True)) == ["fused_conv2d_add_relu"]


@pytest.mark.parametrize(
    "case",
    [
        Case(channels=(4, 4), groups=2),
        Case(kernel=(3, 3), dilation=(1, 2)),
        Case(layout="HWNC", kernel_layout="HWIO"),
    ],
    ids=["groups", "dilation and stride", "layout"],
)
def test_others_keep_their_loops(case: Case) -> None:
    assert kernels(module_of(case, arrays(case)[1])) == ["conv2d_transpose"]


def test_a_symbolic_image_has_phases() -> None:
    rows = tirx.Var("rows", "int64")
    module = module_of(Case(), arrays(Case())[1], image=(rows, 5))
    found = kernels(module)
    # Convolutions of any size may be Winograd's, in several kernels.
    assert "conv2d" in found
    assert found[-1] == "spread_phases"
    assert "conv2d_transpose" not in found


def test_an_input_as_weight_keeps_its_loops() -> None:
    assert kernels(module_of(Case(), None)) == ["conv2d_transpose"]


def test_without_by_phases_loops_are_kept() -> None:
    module = module_of(Case(), arrays(Case())[1])
    lowered = legalized(module)
    assert [str(variable.name_hint) for variable in lowered.get_global_vars()] == ["conv2d_transpose", "main"]


@pytest.mark.parametrize(
    ("case", "kernel", "outputs", "padding", "image"),
    [
        (Case((1024, 512), (16, 16)), (1, 1), 2048, (0, 0, 0, 0), (16, 16)),
        (Case((128, 64), (32, 32), (4, 4), padding=(1,) * 4), (2, 2), 256, (1, 1, 1, 1), (33, 33)),
        (Case(kernel=(1, 5), strides=(3, 3)), (1, 2), 21, (0, 1, 0, 1), (4, 6)),
        (Case(kernel=(2, 2), padding=(2, 2, 2, 2)), (1, 1), 28, (0, 0, 0, 0), (4, 5)),
    ],
)
def test_what_the_phases_are_made_with(
    case: Case, kernel: tuple[int, int], outputs: int, padding: tuple[int, ...], image: tuple[int, int]
) -> None:
    (node,) = build_graph(module_of(case, np.zeros((*case.channels, *case.kernel), "float32"))["main"]).nodes
    convolution = convolution_of(node)
    assert convolution is not None
    phases = phases_of(convolution, node.attributes, "NHWC", "NHWC")
    assert phases is not None
    made = phases.convolution
    assert (made.kernel, made.out_channels, phases.padding, phases.image) == (kernel, outputs, padding, image)


@pytest.mark.parametrize(("channels", "layout"), [(16, "NCHW16c"), (4, "NCHW16c"), (3, "NCHW"), (6, "NCHW")])
def test_phases_of_images_that_have_channels_first_are_in_whole_blocks_or_in_none(
    channels: int, layout: str
) -> None:
    case = Case((8, channels), kernel=(2, 2), strides=(2, 2))
    (node,) = build_graph(module_of(case, np.zeros((*case.channels, *case.kernel), "float32"))["main"]).nodes
    convolution = convolution_of(node)
    assert convolution is not None
    phases = phases_of(convolution, node.attributes, "NCHW", "NCHW")
    assert phases is not None
    assert phases.layouts.out == layout


def cost(case: Case, weight: np.ndarray | None, layouts: ConvolutionLayouts) -> float:
    (node,) = build_graph(module_of(case, weight)["main"]).nodes
    convolution = convolution_of(node)
    assert convolution is not None
    return ESTIMATES.convolution_us(node, convolution, layouts)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW16c"])
def test_constant_weights_cost_a_convolution(layout: str) -> None:
    case = Case((1024, 512), (16, 16), batch=1)
    weight = np.zeros((1024, 512, 2, 2), "float32")
    layouts = ConvolutionLayouts(layout, "IOHW", layout)
    phased = cost(case, weight, layouts)
    processor = ESTIMATES.processor
    peak = processor.fma_per_cycle * processor.lanes(4) * processor.threads * ESTIMATES.facts.gigahertz * 1e3
    least = 1024 * 2048 * 256 / peak
    assert least < phased < 3 * least
    assert cost(case, None, layouts) > 3 * phased


@pytest.mark.parametrize("layout", ["NHWC", "NCHW16c"])
def test_taps_that_phases_lack_cost_nothing(layout: str) -> None:
    """In windows of 2x2, four phases of a kernel of 4x4 have all taps, those of 3x3 have 9 of 16."""
    all_taps, fewer = (
        cost(
            Case((64, 64), (32, 32), (size, size), batch=1),
            np.zeros((64, 64, size, size), "float32"),
            ConvolutionLayouts(layout, "IOHW", layout),
        )
        for size in (4, 3)
    )
    assert fewer < 0.7 * all_taps
