"""What today's packages are asked."""

import pytest

from relay_layout.port.names import Names, reason, shown
from relay_layout.port.surface import has_name


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("relay.nn.conv2d", True),
        ("relay.transform.ConvertLayout", True),
        ("relay.nn.nothing", False),
        ("relay.quantize.realize", False),
        ("tvm", True),
        ("tvm.runtime.tensor", True),
        ("tvm.nd", False),
        ("tvm.support.ndk", True),
        ("tvm.support.ndk.create_shared", True),
        ("tvm.contrib.download.download_testdata", True),
        ("tvm.te.create_schedule", False),
        ("tvm.target.Target.current", True),
        ("tvm.target.Target.nothing", False),
    ],
)
def test_a_name(name: str, there: bool) -> None:
    assert has_name(name) is there


@pytest.mark.parametrize(
    "old",
    [
        "tvm.relay.analysis.free_vars",
        "tvm.relay.build",
        "tvm.relay.frontend.from_onnx",
        "tvm.relay.Function",
        "tvm.relay.nn.conv2d",
        "tvm.relay.op.nn.conv2d",
        "tvm.relay.op.register_alter_op_layout",
        "tvm.relay.op.register_convert_op_layout",
        "tvm.relay.qnn.op.conv2d",
        "tvm.relay.transform.AlterOpLayout",
        "tvm.relay.transform.ConvertLayout",
        "tvm.relay.transform.InferType",
        "tvm.relay.transform.LayoutConfig",
        "tvm.relay.var",
        "tvm.relay.transform.DynamicToStatic",
        "tvm.relay.transform.FakeQuantizationToInteger",
        "tvm.relay.transform.SimplifyExpr",
        "tvm.relay.build_module.bind_params_by_name",
        "tvm.auto_scheduler.TaskScheduler",
        "tvm.auto_scheduler.utils.request_remote",
        "tvm.autotvm.apply_history_best",
        "tvm.autotvm.graph_tuner.DPTuner",
        "tvm.autotvm.measure.measure_methods.request_remote",
        "tvm.autotvm.task.extract_from_program",
        "tvm.autotvm.tuner.XGBTuner",
        "tvm.contrib.graph_executor.GraphModule",
        "tvm.parser.fromtext",
        "tvm.parser.parse",
        "tvm.relay.expr.Call",
        "tvm.relay.function.Function",
        "tvm.relay.ty.TensorType",
        "tvm.nd.array",
        "tvm.nd.empty",
        "tvm.tir.Var",
        "tvm.gpu",
    ],
)
def test_what_scripts_use_most_is_there_today(old: str) -> None:
    assert Names(has_name).today(old) is not None


@pytest.mark.parametrize(
    ("old", "advice"),
    [
        ("tvm.autotvm.task.create", "autotvm.task.extract_from_program"),
        ("tvm.auto_scheduler.SketchPolicy", "auto_scheduler.extract_tasks"),
        ("tvm.relay.frontend.from_keras", "relay.frontend.from_tflite"),
        ("tvm.relay.frontend.from_paddle", "relay.frontend.from_onnx"),
        ("tvm.relay.nn.sparse_transpose", "the dense matrix"),
        ("tvm.relay.quantize.quantize", "does all of it"),
        ("tvm.te.create_schedule", "tvm.s_tir.Schedule"),
        ("tvm.relay.transform.Nothing", "no such pass"),
        ("tvm.relay.TypeVar", "type parameters are not there"),
        ("tvm.relay.expr.RefRead", "references are not there"),
        ("tvm.relay.adt.Match", "algebraic data types are not there"),
        ("tvm.relay.op.vision.proposal", "relay.vision.non_max_suppression"),
        ("tvm.relay.nothing", "relay-layout has no such name"),
        ("tvm.nothing", "TVM 0.27 has no such name"),
    ],
)
def test_a_reason_says_what_to_do(old: str, advice: str) -> None:
    assert advice in reason(old)


def test_names_are_shown_as_people_say_them() -> None:
    assert [shown("tvm.relay.build"), shown("tvm.autotvm")] == ["relay.build", "tvm.autotvm"]
