"""Which layers of a network are quantized, and which tensors become integers with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, bindings_of, dtype_of, operator_name, shape_of
from relay_layout.relay.quantize.config import QConfig

_KEEPING = ("nn.max_pool2d", "permute_dims", "reshape", "squeeze", "expand_dims", "flatten", "strided_slice")
"""Operators whose results are elements of their operand, and so have its range."""


@dataclass(frozen=True)
class Layer:
    """A convolution or a product with a constant: where it stands, its data, and its weight's channels."""

    result: relax.Var
    data: relax.Var
    axis: int


@dataclass(frozen=True)
class Chosen:
    """Layers to quantize, and for each tensor that becomes integers the one whose range it has."""

    layers: Sequence[Layer]
    sources: dict[relax.Var, relax.Var]


def choose(main: relax.Function, config: QConfig) -> Chosen:
    """The layers that a configuration leaves to be quantized.

    ModelError for one whose weight is no constant, as where the parameters are not given.
    """
    layers: list[Layer] = []
    sources: dict[relax.Var, relax.Var] = {}
    values = {binding.var: binding.value for binding in bindings_of(main)}
    skipped, convolutions = set(config.skip_conv_layers or ()), 0
    for variable, value in values.items():
        name = operator_name(value)
        if name == "nn.conv2d":
            position, convolutions = convolutions, convolutions + 1
            if position in skipped or not config.guard("nn.conv2d"):
                continue
            axis = str(value.attrs.kernel_layout).index("O")
        elif name == "matmul" and _is_dense(value):
            if config.skip_dense_layer or not config.guard("nn.dense"):
                continue
            axis = 1
        else:
            continue
        data, weight = value.args
        if dtype_of(data) != "float32" or not isinstance(data, relax.Var):
            continue
        if not isinstance(weight, Constant):
            raise ModelError(
                f"quantize: the weight of {variable.name} ({name}) is no constant; give params, or leave the "
                "layer out"
            )
        layers.append(Layer(variable, data, axis))
        moved = _moved(data, values)
        sources.update(dict.fromkeys(moved, moved[-1]))
    return Chosen(layers, sources)


def _is_dense(call: Expression) -> bool:
    return len(shape_of(call.args[1]) or ()) == 2


def _moved(variable: relax.Var, values: dict[relax.Var, Expression]) -> list[relax.Var]:
    """A tensor and those before it that have its elements, the first of them last."""
    found = [variable]
    while operator_name(values.get(found[-1])) in _KEEPING:
        operand = values[found[-1]].args[0]
        if not isinstance(operand, relax.Var):
            break
        found.append(operand)
    return found
