"""Where the names of ``relay`` are."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.callbacks import register_convert_op_layout
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.operators import TABLE


def test_every_name_that_is_listed_is_there():
    missing = [name for name in dir(relay) if not hasattr(relay, name)]
    assert not missing


@pytest.mark.parametrize(
    ("module", "operator"),
    [
        ("nn", "nn.conv2d"),
        ("image", "image.resize2d"),
        ("vision", "vision.roi_align"),
        ("qnn.op", "qnn.conv2d"),
        ("op", "add"),
        ("op.nn", "nn.conv2d"),
        ("op.image", "image.resize2d"),
        ("op.tensor", "add"),
        ("op.transform", "reshape"),
        ("op.reduce", "mean"),
        ("op.algorithm", "topk"),
    ],
)
def test_operators_are_in_their_modules(module, operator):
    found = import_module(f"relay_layout.relay.{module}")
    name = operator.rsplit(".", 1)[-1]
    assert getattr(found, name) is operator_function(operator)
    assert name in dir(found)
    parent = relay
    for part in module.split("."):
        parent = getattr(parent, part)
    assert parent is found


def test_operators_without_prefix_are_in_relay_itself():
    assert relay.add is operator_function("add")
    assert relay.op.strided_slice is relay.strided_slice


def test_an_annotation_under_relays_longer_name():
    name = "relay.op.annotation.simulated_quantize"
    assert relay.op.annotation.simulated_quantize is operator_function(name)


def test_names_can_be_imported_from_modules():
    from relay_layout.relay.nn import conv2d
    from relay_layout.relay.op.nn import conv2d as again
    from relay_layout.relay.testing import resnet

    assert conv2d is again
    assert callable(resnet.get_workload)


def test_registries_are_under_op():
    assert relay.op.register_convert_op_layout is register_convert_op_layout
    assert relay.op.op is relay.op


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (
            lambda: relay.nn.convolution2d,
            r"module 'relay_layout\.relay\.nn' has no attribute 'convolution2d'",
        ),
        (lambda: relay.nn.con2d, "no attribute 'con2d'; did you mean 'conv2d'"),
        (
            lambda: relay.reshap,
            r"module 'relay_layout\.relay' has no attribute 'reshap'; did you mean 'reshape'",
        ),
        (lambda: relay.qnn.nothing, r"module 'relay_layout\.relay\.qnn' has no attribute 'nothing'"),
        (lambda: relay.testing.nothing, "has no attribute 'nothing'"),
        (lambda: relay.image.resize, r"no attribute 'resize': it is relay\.image\.resize2d since TVM 0\.8$"),
        (lambda: relay.op.strategy.conv2d_strategy, "'conv2d_strategy': kernels come from relay-layout"),
        (lambda: relay.__nothing__, "has no attribute '__nothing__'"),
    ],
)
def test_unknown_names(get, message):
    with pytest.raises(AttributeError, match=message):
        get()


def test_operators_by_name():
    assert relay.op.get("nn.conv2d").name == "nn.conv2d"
    with pytest.raises(ModelError, match=r"there is no operator 'nn\.conv2'; did you mean nn\.conv2d\?"):
        relay.op.get("nn.conv2")


def test_importing_relay_is_quick():
    code = "import sys; from relay_layout import relay; sys.exit('tvm' in sys.modules)"
    root = Path(relay.__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_operators_on_quantized_tensors_are_also_without_op():
    assert relay.qnn.requantize is relay.qnn.op.requantize
    assert {"op", "transform", "add", "conv2d"} <= set(dir(relay.qnn))


def test_qnn_passes_replace_quantized_operators():
    import tvm

    x = relay.var("x", shape=(2,))
    net = relay.qnn.op.quantize(x, relay.const(0.1), relay.const(0))
    module = tvm.IRModule.from_expr(relay.Function([x], net))
    assert "relay.qnn" in str(module)
    for rewrite in (relay.qnn.transform.CanonicalizeOps(), relay.qnn.transform.Legalize()):
        assert "relay.qnn" not in str(rewrite(module))


def test_star_imports_bring_every_operator():
    scope: dict[str, object] = {}
    exec("from relay_layout.relay.nn import *", scope)
    names = {name.removeprefix("nn.") for name in TABLE if name.startswith("nn.") and name.count(".") == 1}
    assert names <= scope.keys()
