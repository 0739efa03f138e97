"""The places of elements that are not zero, as many as the data say."""

from contextlib import ExitStack
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from topi_ext.compute.imperative import written


def places_of_nonzero(data: te.Tensor) -> list[te.Tensor]:
    """Index by index the places of elements that are not zero, in their order, and how many there are.

    The places are int64 (dimensions of ``data``, elements of ``data``), of which the first columns are
    filled, and the one behind them may be overwritten; how many is an int64 tensor of one element.
    """
    shape, truth = data.shape, str(data.dtype) == "bool"
    elements = prod(shape, start=tirx.const(1, "int64"))

    def body(data: Any, places: Any, count: Any) -> None:
        count[0] = T.int64(0)
        with ExitStack() as loops:
            index = [loops.enter_context(T.serial(0, extent)) for extent in shape]
            element = data[tuple(index)]
            # Every place is written, and kept by counting it: which ones are kept, no processor predicts.
            for axis, place in enumerate(index):
                places[axis, count[0]] = place.astype("int64")
            kept = element if truth else element != tirx.const(0, data.dtype)
            count[0] = count[0] + tirx.Cast("int64", kept)

    outputs = [((len(shape), elements), "int64"), ((1,), "int64")]
    return written("places_of_nonzero", [data], outputs, body)
