"""Layouts within branches, which stay branches."""

import numpy as np
import pytest
import tvm

from relay_layout import relay

_RANDOM = np.random.default_rng(0)
_WEIGHT = relay.const(_RANDOM.standard_normal((4, 4, 3, 3)).astype("float32") * np.float32(0.2))
_CONDITION = relay.var("condition", shape=(), dtype="bool")
_TO_NHWC = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})


def _convolved(data: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d(data, _WEIGHT, kernel_size=(3, 3), padding=(1, 1))


def _module(*shape: int | None) -> tvm.IRModule:
    """Two convolutions, or none in one branch and one in the other of an inner choice."""
    x = relay.var("x", shape=shape)
    inner = relay.If(relay.logical_not(_CONDITION), _convolved(x), x)
    net = relay.nn.relu(relay.If(_CONDITION, _convolved(relay.nn.relu(_convolved(x))), inner))
    return tvm.IRModule.from_expr(relay.Function([_CONDITION, x], net))


@pytest.mark.parametrize("condition", [True, False])
def test_convolutions(condition: bool) -> None:
    """All are converted, with the transforms that each branch needs, and compute what they did."""
    before = _module(1, 4, 5, 6)
    after = _TO_NHWC(before)
    operators = relay.analysis.list_op_freqs(after)
    assert relay.astext(after).count('data_layout="NHWC"') == operators["nn.conv2d"] == 3
    assert relay.astext(after).count("if (") == 2
    assert [str(variable.name_hint) for variable in after.get_global_vars()] == ["main"]
    given = np.array(condition), _RANDOM.standard_normal((1, 4, 5, 6)).astype("float32")
    results = [
        relay.create_executor("graph", module).evaluate()(*given).numpy() for module in (before, after)
    ]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_again() -> None:
    """A module that has branches can be converted back."""
    to_nchw = relay.transform.ConvertLayout({"nn.conv2d": ["NCHW", "OIHW"]})
    text = relay.astext(to_nchw(_TO_NHWC(_module(1, 4, 5, 6))))
    assert 'data_layout="NHWC"' not in text


def test_open_extents() -> None:
    """Branches that read such stay as they are."""
    assert "NHWC" not in relay.astext(_TO_NHWC(_module(None, 4, 5, 6)))


def test_altered() -> None:
    """AlterOpLayout asks its callbacks within branches, too."""
    asked = []

    def alter(attrs: object, inputs: object, tinfos: object, out_type: object) -> None:
        asked.append(out_type)

    with relay.testing.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter):
        relay.transform.AlterOpLayout()(_module(1, 4, 5, 6))
    assert len(asked) == 3
