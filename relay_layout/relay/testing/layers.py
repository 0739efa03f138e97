"""Layers that name their own parameters."""

from typing import Any

from relay_layout.relay import nn
from relay_layout.relay.expression import var


def batch_norm_infer(
    data: Any,
    gamma: Any = None,
    beta: Any = None,
    moving_mean: Any = None,
    moving_var: Any = None,
    **kwargs: Any,
) -> Any:
    """The normalized data alone; ``name`` is what parameters that are not given are called after."""
    name = kwargs.pop("name")
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    operands = [value if value is not None else var(f"{name}_{role}") for role, value in given.items()]
    return nn.batch_norm(data, *operands, **kwargs)[0]


def conv2d(data: Any, weight: Any = None, **kwargs: Any) -> Any:
    """A convolution whose weight is called ``<name>_weight`` unless it is given."""
    name = kwargs.pop("name")
    return nn.conv2d(data, weight if weight is not None else var(f"{name}_weight"), **kwargs)


def conv2d_transpose(data: Any, weight: Any = None, **kwargs: Any) -> Any:
    """A transposed convolution whose weight is called ``<name>_weight`` unless it is given."""
    name = kwargs.pop("name")
    return nn.conv2d_transpose(data, weight if weight is not None else var(f"{name}_weight"), **kwargs)


def dense_add_bias(
    data: Any, weight: Any = None, bias: Any = None, units: int | None = None, **kwargs: Any
) -> Any:
    """A dense layer with bias; ``name`` is what parameters that are not given are called after."""
    name = kwargs.pop("name")
    product = nn.dense(data, weight if weight is not None else var(f"{name}_weight"), units, **kwargs)
    return nn.bias_add(product, bias if bias is not None else var(f"{name}_bias"), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The usual kernel layout for NCHW or NHWC data. ValueError for others."""
    layouts = {"NCHW": "OIHW", "NHWC": "HWOI" if is_depthwise else "HWIO"}
    if data_layout not in layouts:
        raise ValueError(f"layout is 'NCHW' or 'NHWC', not '{data_layout}'")
    return layouts[data_layout]


def finish(data: Any, num_classes: int, layout: str, name: str) -> Any:
    """Global average, a dense layer with bias, and softmax: how classifiers end."""
    pooled = nn.global_avg_pool2d(data, layout=layout)
    return nn.softmax(dense_add_bias(nn.batch_flatten(pooled), units=num_classes, name=name))
