"""Poolings of signals and volumes as those of images, against windows in numpy."""

import random
from collections.abc import Sequence
from itertools import product
from math import ceil, prod

import numpy as np
import pytest
from tvm import relax, tirx

from relay_layout.lower.legalize.poolings import pooling_call
from tests.layout_graphs import execute

LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
OPERATORS = {
    (kind, rank): getattr(relax.op.nn, f"{kind}_pool{rank}d") for kind in ("max", "avg") for rank in LAYOUTS
}


def wanted(
    data: np.ndarray,
    kind: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    counts_padding: bool,
) -> np.ndarray:
    """Each window by itself."""
    rank = len(kernel)
    before, after, extents = padding[:rank], padding[rank:], data.shape[2:]
    spans = [step * (taps - 1) + 1 for taps, step in zip(kernel, dilation, strict=True)]
    rooms = [sum(sides) - span for *sides, span in zip(extents, before, after, spans, strict=True)]
    divided = [room / stride for room, stride in zip(rooms, strides, strict=True)]
    counts = [(ceil(each) if ceil_mode else int(each)) + 1 for each in divided]
    found = np.zeros((*data.shape[:2], *counts), data.dtype)
    for place in product(*map(range, counts)):
        starts = [at * stride - pad for at, stride, pad in zip(place, strides, before, strict=True)]
        taps = [
            [start + tap * step for tap in range(count)]
            for start, count, step in zip(starts, kernel, dilation, strict=True)
        ]
        inside = [[tap for tap in each if 0 <= tap < size] for each, size in zip(taps, extents, strict=True)]
        window = data[(..., *np.ix_(*inside))].reshape(*data.shape[:2], -1)
        if kind == "max":
            found[(..., *place)] = window.max(-1)
            continue
        bounds = zip(taps, extents, after, strict=True)
        counted = [[tap for tap in each if tap < size + pad] for each, size, pad in bounds]
        number = prod(map(len, counted if counts_padding else inside))
        found[(..., *place)] = window.sum(-1) / number
    return found


@pytest.mark.parametrize("seed", range(40))
def test_random_poolings(seed: int) -> None:
    rng = random.Random(seed)
    rank, kind = rng.choice([1, 3]), rng.choice(["max", "avg"])
    kernel = [rng.randint(1, 4) for _ in range(rank)]
    strides = [rng.randint(1, 3) for _ in range(rank)]
    padding = [rng.randint(0, (side - 1) // 2) for side in (*kernel, *kernel)]
    dilation = [rng.choice([1, 1, 2]) if kind == "max" else 1 for _ in range(rank)]
    shape = [rng.randint(1, 2), rng.randint(1, 5), *(rng.randint(7, 21) for _ in range(rank))]
    is_open, counts_padding = rng.random() < 0.3, rng.random() < 0.5
    ceil_mode = not is_open and not any(padding) and rng.random() < 0.4
    data = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    extents = [tirx.Var(name, "int64") for name in "abcde"[: rank + 2]] if is_open else shape
    x = relax.Var("x", relax.TensorType([*extents[:1], shape[1], *extents[2:]], "float32"))
    call = OPERATORS[kind, rank](
        x, kernel, strides, padding, dilation, ceil_mode, counts_padding, LAYOUTS[rank]
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(call)]))
        builder.emit_func_output(result)
    (found,) = execute(builder.finalize(), data)
    expected = wanted(data, kind, kernel, strides, padding, dilation, ceil_mode, counts_padding)
    reproducer = f"test_random_poolings({seed}): {kind} {kernel} {strides} {padding} {dilation} of {shape}"
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=reproducer)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_extents_of_results_are_those_of_the_tensor(kind: str) -> None:
    """Given beside the tensor, nothing would say that windows end where it does."""
    height, width = tirx.Var("height", "int64"), tirx.Var("width", "int64")
    x = relax.Var("x", relax.TensorType([1, 2, height, width], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = pooling_call(builder, builder.normalize(OPERATORS[kind, 2](x, (3, 1))))
        builder.emit_func_output(builder.emit(call))
    (function,) = (one for one in builder.finalize().functions.values() if isinstance(one, tirx.PrimFunc))
    assert len(function.params) == 2
