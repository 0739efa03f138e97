"""Functions on parts of tensors that lists of integers name: sums of segments, places of sparse tensors."""

from typing import Any

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.expression import TupleWrapper, as_expression, const
from relay_layout.relay.functions.operator_functions import operator_function
from relay_layout.relay.syntax import relay_types, tree


def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None) -> Any:
    """The sums, (number of segments, ...), of the rows of ``data`` that have the same segment.

    ``segment_ids`` has the segment of each row. Without ``num_segments``, a number or a tensor of one, there
    are as many as the largest of them needs. ModelError where the data's rank is not known.
    """
    data, ids = as_expression(data), as_expression(segment_ids)
    kind = _tensor(data, "data")
    wide = operator_function("cast")(ids, "int64")
    if num_segments is None:
        largest = operator_function("max")(wide, axis=0)
        count: Any = operator_function("reshape")(largest + const(1, "int64"), (1,))
    elif isinstance(num_segments, int):
        count = const([num_segments], "int64")
    else:
        count = operator_function("cast")(operator_function("reshape")(num_segments, (1,)), "int64")
    parts = [count]
    if len(kind.shape) > 1:
        shape = operator_function("shape_of")(data, "int64")
        parts.append(operator_function("strided_slice")(shape, begin=(1,), end=(len(kind.shape),)))
    total = operator_function("zeros")(operator_function("concatenate")(parts, axis=0), kind.dtype)
    places = operator_function("expand_dims")(wide, axis=0)
    return operator_function("scatter_nd")(total, places, data, mode="add")


def sparse_reshape(sparse_indices: Any, prev_shape: Any, new_shape: Any) -> TupleWrapper:
    """The places (N, new dimensions) of a sparse tensor's values in another shape, and that shape.

    ``sparse_indices`` is (N, dimensions), the shapes are lists; one entry of the new one may be -1.
    """
    indices, before, after = map(as_expression, (sparse_indices, prev_shape, new_shape))
    dtype = _tensor(indices, "sparse_indices").dtype
    old, new = (operator_function("cast")(shape, "int64") for shape in (before, after))
    one = const(1, "int64")
    known = operator_function("prod")(operator_function("where")(_open(new), one, new), axis=0)
    rest = operator_function("floor_divide")(operator_function("prod")(old, axis=0), known)
    settled = operator_function("where")(_open(new), rest, new)
    wide = operator_function("cast")(indices, "int64")
    flat = operator_function("sum")(wide * _strides(old), axis=1, keepdims=True)
    places = operator_function("floor_mod")(
        operator_function("floor_divide")(flat, _strides(settled)), settled
    )
    results = [operator_function("cast")(result, dtype) for result in (places, settled)]
    return TupleWrapper(tree.Tuple(tuple(results)), 2)


def _open(shape: Any) -> Any:
    return operator_function("equal")(shape, const(-1, "int64"))


def _strides(shape: Any) -> Any:
    """How many elements lie between neighbours along each dimension."""
    turned = operator_function("reverse")(shape, axis=0)
    return operator_function("reverse")(operator_function("cumprod")(turned, axis=0, exclusive=True), axis=0)


def stft(
    data: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """Fourier transforms (batch, frequencies, frames, 2) of windows of signals (batch, samples) or (samples).

    Frames of ``n_fft`` samples start every ``hop_length``, a quarter of that where it is left out; of each
    the first ``win_length`` count, times ``window``. ModelError for signals of unknown or too short length.
    """
    signal = as_expression(data)
    kind = _tensor(signal, "data")
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    samples = kind.shape[-1] if kind.shape else None
    if len(kind.shape) not in (1, 2) or samples is None:
        raise ModelError("stft: data is (samples) or (batch, samples), of a known number of samples")
    if not 1 <= length <= n_fft <= samples or hop < 1:
        raise ModelError(
            f"stft: n_fft {n_fft}, win_length {length}, hop_length {hop} do not fit {samples} samples"
        )
    starts = np.arange(0, samples - n_fft + 1, hop)
    frames = operator_function("take")(signal, const(starts[:, None] + np.arange(length)), axis=-1)
    if window is not None:
        frames = frames * operator_function("cast")(as_expression(window), kind.dtype)
    rows = np.arange(n_fft // 2 + 1 if onesided else n_fft)
    angles = 2 * np.pi * np.outer(rows, np.arange(length)) / length
    scale = 1 / np.sqrt(n_fft) if normalized else 1.0
    parts = np.concatenate([np.cos(angles), -np.sin(angles)]) * scale
    flat = operator_function("reshape")(frames, (-1, length))
    product = operator_function("nn.dense")(flat, const(parts.astype(kind.dtype)))
    apart = operator_function("reshape")(product, (-1, len(starts), 2, len(rows)))
    result = operator_function("transpose")(apart, axes=(0, 3, 1, 2))
    return result if len(kind.shape) == 2 else operator_function("squeeze")(result, axis=(0,))


def _tensor(expression: tree.Expression, name: str) -> relay_types.TensorType:
    kind = expression.checked_type
    if not isinstance(kind, relay_types.TensorType):
        raise ModelError(f"{name} is a tensor, not a tuple")
    return kind
