"""Activations ahead of the views between them and the convolution whose result they take.

Vision transformers flatten the image that a depthwise convolution computes to rows before they apply GELU
(PVTv2, SegFormer). Applied to the image it is an epilogue of the convolution; after the reshape it would be a
pass over memory of its own.
"""

from tvm import relax

from relay_layout.ir import Constant, Expression, operator_name, with_attributes, with_operands
from relay_layout.ops import is_elementwise
from relay_layout.rewrite.bindings import Bindings
from relay_layout.targets.convolutions import CONVOLUTION_AXES

_VIEWS = frozenset({"reshape", "permute_dims", "squeeze", "expand_dims", "flatten"})


def hoisted(call: relax.Call, bindings: Bindings) -> relax.Call:
    """The last of the views of ``call`` computed before them; ``call`` if it follows no convolution by views.

    ``call`` is an elementwise operator of one tensor that keeps the dtype. Nothing else reads the views or
    the tensor behind them.
    """
    if len(call.args) != 1 or not is_elementwise(operator_name(call)) or _dtype(call.args[0]) != _dtype(call):
        return call
    views: list[tuple[relax.Var, relax.Call]] = []
    data = call.args[0]
    producer = bindings.read_once(data)
    while producer is not None and operator_name(producer) in _VIEWS:
        views.append((data, producer))
        data = producer.args[0]
        producer = bindings.read_once(data)
    if not views or not _ends_convolution(producer, bindings):
        return call
    moved = with_operands(call, [data])
    hint = f"{data.name}_{operator_name(call).rpartition('.')[2]}"
    for variable, view in reversed(views):
        moved = with_attributes(view, [bindings.emit(moved, hint), *view.args[1:]])
        # The last view is bound to what the activation was.
        hint = variable.name
    return moved


def _ends_convolution(call: relax.Call | None, bindings: Bindings) -> bool:
    """Whether a call is a convolution or elementwise operators of one and of constants: its epilogue."""
    while call is not None and operator_name(call) not in CONVOLUTION_AXES:
        others = [argument for argument in call.args if not isinstance(argument, Constant)]
        if len(others) != 1 or not is_elementwise(operator_name(call)):
            return False
        call = bindings.read_once(others[0])
    return call is not None


def _dtype(expression: Expression) -> str | None:
    return getattr(expression.ty, "dtype", None) and str(expression.ty.dtype)
