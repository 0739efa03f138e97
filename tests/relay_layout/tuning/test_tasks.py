"""The tasks of models."""

from dataclasses import replace

import pytest
import tvm
from tvm import relax

from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.tuning.tasks import as_tasks, describe, model_tasks
from tests.relax_modules import main_of
from topi_ext.workloads.convolution import ConvolutionWorkload, SpatialAxis, volume_workload


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target("x86-64-v4", threads=2, shipped_records=False)


def convolutions(count: int, size: object = 14) -> tvm.IRModule:
    """A chain of equal 3x3 convolutions of 16 channels with activations, and a dense layer at its end."""
    data = relax.Var("data", relax.TensorType([1, 16, size, size], "float32"))
    with main_of(data) as builder:
        value = data
        for place in range(count):
            weight = relax.const(tvm.runtime.tensor(_ones(16, 16, 3, 3, place)), "float32")
            value = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(value, weight, padding=1)))
        pooled = builder.emit(relax.op.mean(value, [2, 3]))
        matrix = relax.const(tvm.runtime.tensor(_ones(16, 10, 0)), "float32")
        builder.result = relax.op.matmul(pooled, matrix)
    return builder.finalize()


def _ones(*shape: int) -> object:
    import numpy as np

    *extents, offset = shape
    return np.ones(extents, "float32") + offset


def test_equal_kernels_are_one_task_with_its_uses(target: BuildTarget) -> None:
    found = model_tasks([convolutions(3)], target)
    assert [(task.name, task.weight) for task in found.tasks] == [
        ("conv2d 16x14x14 -> 16 3x3 NCHW16c", 3),
        ("dense 16 -> 10", 1),
    ]
    assert found.notes == []


def test_models_are_tuned_together(target: BuildTarget) -> None:
    options = {"desired_layout": "NHWC"}
    single = model_tasks([convolutions(1)], target, options)
    double = model_tasks([convolutions(1), convolutions(2)], target, options)
    assert [task.workload for task in double.tasks] == [task.workload for task in single.tasks]
    assert [
        (single.weight, both.weight) for single, both in zip(single.tasks, double.tasks, strict=True)
    ] == [
        (1, 3),
        (1, 2),
    ]
    assert single.tasks[0].name == "conv2d 16x14x14 -> 16 3x3 NHWC"


def test_layouts_are_those_of_the_request(target: BuildTarget) -> None:
    found = model_tasks([convolutions(1)], target, {"desired_layout": "NCHW8c"})
    assert found.tasks[0].workload.out_layout == "NCHW8c"


def test_symbolic_kernels_are_noted(target: BuildTarget) -> None:
    size = tvm.tirx.Var("size", "int64")
    found = model_tasks([convolutions(1, size)], target)
    assert [task.name for task in found.tasks] == ["dense 16 -> 10"]
    (note,) = found.notes
    assert note.endswith("has symbolic extents and is not tuned")


@pytest.fixture
def plain() -> ConvolutionWorkload:
    return ConvolutionWorkload(
        batch=1,
        in_channels=32,
        out_channels=64,
        in_height=28,
        in_width=14,
        kernel=(3, 1),
        strides=(1, 1),
        padding=(1, 0, 1, 0),
        dilation=(1, 1),
        groups=1,
        data_layout="NCHW16c",
        kernel_layout="OIHW16i16o",
        out_layout="NCHW16c",
        dtype="float32",
        out_dtype="float32",
    )


def test_names_tell_what_differs(plain: ConvolutionWorkload) -> None:
    assert describe(plain) == "conv2d 32x28x14 -> 64 3x1 NCHW16c"
    other = replace(plain, strides=(2, 2), dilation=(2, 1), groups=2, batch=4, out_layout="NHWC")
    assert describe(other) == (
        "conv2d 32x28x14 -> 64 3x1 stride 2 dilation 2x1 2 groups batch 4 NCHW16c -> NHWC"
    )
    assert describe(replace(plain, groups=32, out_channels=32)) == (
        "conv2d 32x28x14 -> 32 3x1 depthwise NCHW16c"
    )
    dense = replace(plain, kernel=(1, 1), data_layout="WC", in_height=1, in_width=5)
    assert describe(dense) == "dense 5x32 -> 64"


def test_other_axes_have_names_as_well(plain: ConvolutionWorkload) -> None:
    volume = volume_workload(plain, SpatialAxis(8, 3, 2, 1, 1, 1))
    assert describe(volume) == "conv3d 32x8x28x14 -> 64 3x3x1 stride 2x1x1 NCHW16c"
    line = replace(plain, in_height=1, kernel=(1, 1), data_layout="NCW16c", out_layout="NCW16c")
    assert describe(replace(line, padding=(0,) * 4)) == "conv1d 32x14 -> 64 1 NCW16c"
    assert describe(replace(line, kernel=(1, 3), strides=(1, 2))) == "conv1d 32x14 -> 64 3 stride 2 NCW16c"


@pytest.mark.parametrize("size", [(7, 9, 11), ("n", 9, 11)], ids=str)
def test_volumes_are_tasks(size: tuple[object, ...], target: BuildTarget) -> None:
    extents = [tvm.tirx.Var(each, "int64") if isinstance(each, str) else each for each in size]
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType([1, 16, *extents], "float32"))
    with builder.function("main", [data]):
        weight = relax.const(tvm.runtime.tensor(_ones(16, 16, 3, 3, 3, 0)), "float32")
        value = builder.emit(relax.op.nn.conv3d(data, weight, padding=1))
        value = builder.emit(relax.op.nn.relu(value))
        matrix = relax.const(tvm.runtime.tensor(_ones(16, 8, 0)), "float32")
        builder.emit_func_output(builder.emit(relax.op.matmul(relax.op.mean(value, [2, 3, 4]), matrix)))
    found = model_tasks([builder.finalize()], target, {"desired_layout": "NDHWC"})
    names = [task.name for task in found.tasks]
    if "n" in size:
        assert names == ["dense 16 -> 8"]
        assert [note.endswith("has symbolic extents and is not tuned") for note in found.notes] == [True]
    else:
        assert names == ["conv3d 16x7x9x11 -> 16 3x3x3 NDHWC", "dense 16 -> 8"]
        assert found.notes == []


def test_most_work_comes_first(plain: ConvolutionWorkload) -> None:
    larger = replace(plain, in_width=28)
    assert [task.workload for task in as_tasks({plain: 1, larger: 1})] == [larger, plain]
    assert [task.workload for task in as_tasks({plain: 3, larger: 1})] == [plain, larger]


def test_transforms_of_what_loops_run_are_measured() -> None:
    parser = pytest.importorskip("onnx.parser")
    text = """<ir_version: 9, opset_import: ["" : 18]> loop
    (float[1,4,5,6] x, int64 n, float[4,4,3,3] k) => (float[A,B,C,D] y) {
        y = Loop <body = body (int64 i, bool c, float[1,4,5,6] a) => (bool d, float[1,4,5,6] e) {
            d = Identity(c)  e = Conv <pads: ints = [1,1,1,1]> (a, k) }> (n, , x) }"""
    found = model_tasks([parser.parse_model(text)], resolve_target("x86-64-v3"))
    assert (1, 4, 5, 6) in {transform.shape for transform in found.transforms}
