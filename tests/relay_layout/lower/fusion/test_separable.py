"""Depthwise convolutions joined with the pointwise ones of their results: when, and with which numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import relay_layout
from relay_layout.compiler import convert
from relay_layout.lower.fusion.separable import if_faster
from relay_layout.lower.memory.weights import lift_weights
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.stages import lower
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import describe, module_workloads
from topi_ext.chooser import KernelChooser
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import Processor
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload


def block(
    *, channels: int = 32, outputs: int = 32, kernel: int = 3, batch: int | str = 1, read_twice: bool = False
) -> onnx.ModelProto:
    """1x1, depthwise and 1x1 convolutions as in MobileNetV2, and a residual addition where channels allow."""
    rng = np.random.default_rng(0)
    half = kernel // 2
    weights = {
        "w0": rng.standard_normal((channels, 16, 1, 1)) / 4,
        "w1": rng.standard_normal((channels, 1, kernel, kernel)) / kernel,
        "w2": rng.standard_normal((outputs, channels, 1, 1)) / np.sqrt(channels),
        "b0": rng.standard_normal(channels),
        "b1": rng.standard_normal(channels),
        "b2": rng.standard_normal(outputs),
        "low": np.array(0.0),
        "high": np.array(6.0),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"]),
        helper.make_node("Clip", ["a", "low", "high"], ["b"]),
        helper.make_node("Conv", ["b", "w1", "b1"], ["c"], group=channels, pads=[half] * 4),
        helper.make_node("Clip", ["c", "low", "high"], ["d"]),
        helper.make_node("Conv", ["d", "w2", "b2"], ["e"]),
        helper.make_node("Add", ["e", "d" if read_twice else "b"], ["y"])
        if outputs == channels
        else helper.make_node("Relu", ["e"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16, 15, 18])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, outputs, 15, 18])],
        [numpy_helper.from_array(array.astype("float32"), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[onnx.ModelProto], str]:
    def save(model: onnx.ModelProto) -> str:
        path = tmp_path / "block.onnx"
        onnx.save(model, path)
        return str(path)

    return save


TARGET = resolve_target("x86-64-v3", threads=2, shipped_records=False)


def considered(path: str, target: BuildTarget = TARGET, layout: str = "NCHW16c") -> list[SeparableWorkload]:
    """What the lowering asks about; nothing is joined."""
    found: list[SeparableWorkload] = []

    def decide(workload: SeparableWorkload) -> bool:
        found.append(workload)
        return False

    module = convert(path, target=target, desired_layout=layout).module
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(module)
        module, _ = lift_weights(module)
        tvm.transform.Sequential(fuse_passes(target, decide))(module)
    return found


@pytest.mark.parametrize(
    ("options", "layout"), [({}, "NHWC"), ({"outputs": 48, "kernel": 5, "batch": 2}, "NCHW16c")]
)
def test_the_numbers_are_those_of_the_network(
    saved: Callable[[onnx.ModelProto], str],
    options: dict[str, int],
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("relay_layout.lower.cpu_lowering.if_faster", lambda kernels: lambda workload: True)
    model = block(**options)
    compiled = relay_layout.compile(
        saved(model), desired_layout=layout, target="x86-64-v3", threads=2, shipped_records=False
    )
    (build,) = compiled.manifest.builds
    kernels = [(call["operator"], call["source"]) for call in build.report["calls"]]
    assert kernels.count(("separable_conv2d", "default")) == 1
    assert sum(operator == "conv2d" for operator, _ in kernels) == 1
    compiled.save(tmp_path / "block.rla")
    session = relay_layout.load(tmp_path / "block.rla", threads=2)
    shape = (options.get("batch", 1), 16, 15, 18)
    data = np.random.default_rng(1).standard_normal(shape).astype("float32")
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = reference.run(None, {"x": data})
    (found,) = session.run({"x": data}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_operators_of_both_are_named(
    saved: Callable[[onnx.ModelProto], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_layout.lower.cpu_lowering.if_faster", lambda kernels: lambda workload: True)
    module = convert(saved(block()), target=TARGET, desired_layout="NCHW16c").module
    lowered = lower(module, TARGET, lambda line: None)
    (kernel,) = (kernel for kernel in lowered.kernels if kernel.operator == "separable_conv2d")
    (call,) = (call for call in lowered.calls if call.function == kernel.name)
    assert len(call.operators) >= 4


def test_a_pair_is_found(saved: Callable[[onnx.ModelProto], str]) -> None:
    (found,) = considered(saved(block()))
    assert found.depthwise.is_depthwise and found.depthwise.kernel == (3, 3)
    assert (found.in_channels, found.out_channels, found.in_height, found.in_width) == (32, 32, 15, 18)


@pytest.mark.parametrize(
    "options",
    [{"read_twice": True}, {"batch": "n"}, {"channels": 36, "outputs": 36}],
    ids=["another reader", "any batch", "no whole vectors"],
)
def test_what_stays_apart(saved: Callable[[onnx.ModelProto], str], options: dict[str, int]) -> None:
    assert considered(saved(block(**options)), layout="NHWC") == []


def test_arm_has_no_such_kernels(saved: Callable[[onnx.ModelProto], str]) -> None:
    arm = resolve_target("aarch64-cortex-a76", threads=2, shipped_records=False)
    assert considered(saved(block()), arm) == []


def test_both_ways_are_tuned(saved: Callable[[onnx.ModelProto], str]) -> None:
    module = convert(saved(block(outputs=48)), target=TARGET, desired_layout="NCHW16c").module
    found, notes = module_workloads(module, TARGET)
    first, second = (
        "conv2d 32x15x18 -> 32 3x3 depthwise NCHW16c",
        "conv2d 32x15x18 -> 48 1x1 NCHW16c",
    )
    names = sorted(describe(workload) for workload in found)
    assert names == sorted(["conv2d 16x15x18 -> 32 1x1 NCHW16c", first, second, f"{first}, then {second}"])
    assert notes == []


PAIR_US = 100.0


class Times:
    """Records: both parts take 50 microseconds each, one kernel of both what is given."""

    def __init__(self, both_us: float) -> None:
        self.both_us = both_us

    def choice(
        self, workload: ConvolutionWorkload, processor: Processor, gigahertz: float, winograd: bool
    ) -> KernelChoice:
        one = isinstance(workload, SeparableWorkload)
        return KernelChoice(ConvolutionKnobs(16, 1, 1), "tuned", self.both_us if one else PAIR_US / 2)

    def estimate_scale(self, processor: Processor, gigahertz: float) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("both_us", "threads", "joined"),
    [(99.9, 1, True), (100.1, 1, False), (100.1, 2, True), (101.0, 2, False)],
)
def test_the_faster_way_is_taken(
    saved: Callable[[onnx.ModelProto], str], both_us: float, threads: int, joined: bool
) -> None:
    """With two threads what one hands to the other counts as well: 35 kB are a third of a microsecond."""
    (workload,) = considered(saved(block()))
    chooser = KernelChooser(
        resolve_target("x86-64-v3", threads=threads, shipped_records=False).processor, records=Times(both_us)
    )
    assert if_faster(chooser)(workload) is joined
