"""The gradient of a convolution's weight against finite changes of it."""

import numpy as np
import pytest
from relay_harness import close, evaluate, program
from window_reference import axes, convolve

from relay_layout.errors import ModelError
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import read_text

RNG = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def test_weight_gradient() -> None:
    """What the sum of gradient times result changes by, when one weight changes by one."""
    x, gradient = normal(2, 4, 6, 5), normal(2, 6, 3, 5)
    attributes = "kernel_size=[3, 2], strides=[2, 1], padding=[1, 0, 0, 1], groups=2"
    plain, turned = evaluate(
        f"""(nn.conv2d_backward_weight(%g, %x, {attributes}, kernel_layout="NCHW", out_layout="OIHW"),
             nn.conv2d_backward_weight(%h, %y, {attributes}, data_layout="NHWC", kernel_layout="NHWC",
                                       out_layout="HWIO"))""",
        g=gradient,
        x=x,
        h=axes(gradient, "NCHW", "NHWC"),
        y=axes(x, "NCHW", "NHWC"),
    )
    expected = np.zeros((6, 2, 3, 2))
    for index in np.ndindex(expected.shape):
        weight = np.zeros(expected.shape)
        weight[index] = 1
        expected[index] = (convolve(x, weight, [2, 1], [1, 0, 0, 1], [1, 1], 2) * gradient).sum()
    close(plain, expected)
    close(turned, axes(expected, "OIHW", "HWIO"))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('kernel_layout="NCHW"', "kernel_size is needed"),
        ('kernel_layout="NCHW", kernel_size=[3, 0]', "kernel_size is [3, 0], not 2 numbers from 1"),
        ("kernel_size=[3, 3]", "data_layout is 'OIHW', which is no order of NCHW"),
        (
            'kernel_layout="NCHW", kernel_size=[3, 3], groups=4',
            "a gradient of 2 images with 6 channels does not fit data of 2 with 4 in 4 groups",
        ),
    ],
)
def test_wrong_attributes(attributes: str, message: str) -> None:
    text = program(
        f"nn.conv2d_backward_weight(%g, %x, {attributes})", g=normal(2, 6, 3, 5), x=normal(2, 4, 6, 5)
    )
    with pytest.raises(ModelError) as caught:
        from_tree(read_text(text, "test"))
    assert message in str(caught.value)


def test_python_arguments() -> None:
    """The attributes name the layouts otherwise than the function does."""
    arguments = {
        "strides": 1,
        "padding": (1, 2),
        "dilation": 1,
        "groups": 1,
        "channels": None,
        "kernel_size": 3,
    }
    layouts = {"grad_layout": "A", "data_layout": "B", "kernel_layout": "C", "out_dtype": ""}
    row = TABLE["nn.conv2d_backward_weight"]
    operands, attributes = row.prepare(grad="g", data="x", **arguments, **layouts)  # type: ignore[misc]
    assert operands == ["g", "x"]
    assert [attributes[name] for name in ("data_layout", "kernel_layout", "out_layout")] == ["A", "B", "C"]
    assert attributes["padding"] == (1, 2, 1, 2)
