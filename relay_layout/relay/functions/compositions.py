"""Functions of Relay's Python interface that are no operators of their own."""

from collections.abc import Callable, Sequence
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.expression import TupleWrapper, as_expression
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.functions.segments import segment_sum, sparse_reshape, stft
from relay_layout.relay.functions.sparse import sparse_dense
from relay_layout.relay.syntax import tree

Axis = int | Sequence[int] | None


def dropout(data: Any, rate: float = 0.5) -> Any:
    """The first result of nn.dropout: the data as it is."""
    return dropout_raw(data, rate)[0]


def dropout_raw(data: Any, rate: float = 0.5) -> Any:
    """Both results of nn.dropout: the data and the mask."""
    return operator_function("nn.dropout")(data, rate)


def std(
    data: Any, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Any:
    """The standard deviation over axes (all of them for None; all others with ``exclude``)."""
    deviation = operator_function("variance")(data, axis, keepdims, exclude, unbiased)
    return operator_function("sqrt")(deviation)


def mean_variance(
    data: Any, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """Mean and variance over axes; without ``keepdims`` the mean loses every dimension of extent 1."""
    mean = operator_function("mean")(data, axis, True, exclude)
    variance = operator_function("variance")(data, axis, keepdims, exclude, unbiased, mean)
    if not keepdims:
        mean = operator_function("squeeze")(mean)
    return TupleWrapper(tree.Tuple((mean, variance)), 2)


def mean_std(data: Any, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """Mean and standard deviation over axes; see :func:`mean_variance`."""
    mean, variance = mean_variance(data, axis, keepdims, exclude)
    return TupleWrapper(tree.Tuple((mean, operator_function("sqrt")(variance))), 2)


def logsumexp(data: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials over axes, without overflow."""
    largest = operator_function("max")(data, axis, True)
    total = operator_function("sum")(operator_function("exp")(data - largest), axis, True)
    result = operator_function("log")(total) + largest
    return result if keepdims else operator_function("squeeze")(result, axis)


def fifo_buffer(data: Any, buffer: Any, axis: int) -> Any:
    """The newest of a buffer's entries along an axis and ``data`` behind them, as many as the buffer has.

    ModelError where the number of entries of ``data`` is not known.
    """
    shape = getattr(as_expression(data).checked_type, "shape", ())
    if not -len(shape) <= axis < len(shape) or shape[axis] is None:
        raise ModelError(f"fifo_buffer: the data have no known extent along axis {axis}")
    place = axis % len(shape)
    both = operator_function("concatenate")([buffer, data], place)
    return operator_function("strided_slice")(both, [shape[place]], [2**31 - 1], [1], [place])


def _global_pool(kind: str, rank: int) -> Callable[..., Any]:
    default = "NCDHW" if rank == 3 else "NCW"

    def pool(data: Any, layout: str = default, out_layout: str = "") -> Any:
        function = operator_function(f"nn.adaptive_{kind}_pool{rank}d")
        return function(data, output_size=(1,) * rank, layout=layout, out_layout=out_layout)

    pool.__name__ = pool.__qualname__ = f"global_{kind}_pool{rank}d"
    pool.__doc__ = f"The {'average' if kind == 'avg' else 'maximum'} over all {rank} spatial dimensions."
    return pool


def _renamed(operator: str, name: str) -> Callable[..., Any]:
    """An operator whose function has another name in Python."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return operator_function(operator)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The operator {operator}."
    return function


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "logsumexp": logsumexp,
    "mean_std": mean_std,
    "mean_variance": mean_variance,
    "nn.contrib_conv2d_nchwc": _renamed("nn.contrib_conv2d_NCHWc", "contrib_conv2d_nchwc"),
    "nn.contrib_depthwise_conv2d_nchwc": _renamed(
        "nn.contrib_depthwise_conv2d_NCHWc", "contrib_depthwise_conv2d_nchwc"
    ),
    "nn.dropout": dropout,
    "nn.dropout_raw": dropout_raw,
    "nn.fifo_buffer": fifo_buffer,
    **{
        f"nn.global_{kind}_pool{rank}d": _global_pool(kind, rank)
        for kind in ("avg", "max")
        for rank in (1, 3)
    },
    "nn.sparse_dense": sparse_dense,
    "reverse_reshape": _renamed("contrib_reverse_reshape", "reverse_reshape"),
    "segment_sum": segment_sum,
    "sparse_reshape": sparse_reshape,
    "std": std,
    "stft": stft,
}
"""Functions by the name that an operator of theirs would have; they come before operators."""
