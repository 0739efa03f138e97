"""Random numbers that depend on their place alone, so that any number of them are computed at once.

A number is its place and a seed, mixed by shifts and products of 32-bit integers until no bit of the result
tells anything of those of the place.
"""

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 0x9E3779B1), (15, 0x85EBCA6B))
"""Shifts, and odd factors that follow them."""

_BITS = 24
"""Bits of a number between 0 and 1: those that a float32 holds."""


def uniform(shape: Sequence[Any], seed: int) -> te.Tensor:
    """Numbers of float32, 0 or more and less than 1, of any ``shape``; ``seed`` has 32 bits."""

    def one(*index: Any) -> Any:
        place: Any = tirx.const(0, "int64")
        for extent, at in zip(shape, index, strict=True):
            place = place * extent + at
        mixed = tirx.Cast("uint32", place)
        # Others in each round: numbers of two seeds would else be the same ones in another order.
        for number, (shift, factor) in enumerate(_ROUNDS, 1):
            mixed = tirx.bitwise_xor(mixed, tirx.const(seed * number**3 % 2**32, "uint32"))
            mixed = tirx.bitwise_xor(mixed, mixed >> tirx.const(shift, "uint32"))
            mixed = mixed * tirx.const(factor, "uint32")
        kept = tirx.bitwise_xor(mixed, mixed >> tirx.const(16, "uint32")) >> tirx.const(32 - _BITS, "uint32")
        return tirx.Cast("float32", tirx.Cast("int32", kept)) * tirx.const(2.0**-_BITS, "float32")

    return te.compute(shape, one, name="uniform")
