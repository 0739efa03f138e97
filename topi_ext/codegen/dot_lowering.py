"""Dot products of vectors of words (:func:`.dot_products.dot`) as instructions, before code is generated.

Four bytes become VNNI's multiply-add of bytes where the target has it, sums of pairs on other x86 processors
where those fit, ARM's dot products or its long products, and plain arithmetic elsewhere, with the same
numbers. Two int16 have multiply-adds of pairs on every x86 processor. Two bfloat16 have multiply-adds of
such pairs on AVX512_BF16 and ARM's bf16, and elsewhere those of each half, widened.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.target import Target
from tvm_ffi import structural_equal, structural_map

from topi_ext.codegen.bfloat16 import without_conversion
from topi_ext.codegen.dot_instructions import (
    by_vectors,
    halves_of_words,
    in_a_lane,
    in_vectors,
    joined,
    lane_of,
    one_by_one,
)
from topi_ext.codegen.dot_products import (
    HALF_BITS,
    PAIR,
    WORD_BITS,
    has_fitting_pairs,
    is_dot,
    operands,
    parts_of,
)
from topi_ext.codegen.llvm_functions import has_pair_sums, pair_sums
from topi_ext.codegen.passes import function_pass
from topi_ext.codegen.scalar_operations import element_of, lanes_of, vector_of
from topi_ext.codegen.word_instructions import NEON_LANES, fills_vectors, instructions_for, width_of
from topi_ext.ir import nodes_of, repeated, substitute
from topi_ext.machine.architecture import is_aarch64

_NEON_BYTES = 16
"""Bytes of a NEON register."""


@function_pass
def lower_dot_products(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Every :func:`.dot_products.dot` of functions, vectorized and bound to their target, as instructions."""
    calls = nodes_of(func.body, Call)
    if not any(is_dot(call) for call in calls):
        return func
    lowering = _Lowering(func)
    # Sums first: a product that is lowered within one would no longer be found there.
    body = structural_map(func.body, (tirx.Add, lowering.sum))
    return func.with_body(structural_map(body, (Call, lowering.product)))


class _Lowering:
    """The dot products of one function."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self._target: Target = func.attrs["target"]
        self._analyzer = tvm.sym.Analyzer()
        bindings = nodes_of(func.body, tirx.Bind)
        # A binding may name those before it, and then reads their values.
        self._bound: dict[Any, Any] = {}
        for binding in bindings:
            self._bound[binding.var] = substitute(binding.value, self._bound)
        self._body = func.body

    @cached_property
    def _stored(self) -> dict[Any, int]:
        """By buffer, the lanes of the vectors that are stored there."""
        stores = nodes_of(self._body, tirx.BufferStore)
        return {
            store.buffer: int(store.indices[0].lanes)
            for store in stores
            if isinstance(store.indices[0], tirx.Ramp)
        }

    def sum(self, addition: tirx.Add) -> Any:
        """A dot product that is added to something, which one instruction does with it."""
        for call, rest in ((addition.b, addition.a), (addition.a, addition.b)):
            if is_dot(call):
                return self._lowered(call, rest)
        return addition

    def product(self, call: Call) -> Any:
        """A dot product that stands alone."""
        if not is_dot(call):
            return call
        return self._lowered(call, tirx.const(0, call.ty.dtype))

    def _lowered(self, call: Any, addend: Any) -> Any:
        values, factors = operands(call)
        lanes = lanes_of(call)
        if str(call.ty.dtype).startswith("float"):
            return self._lowered_bfloat16(addend, values, factors)
        element = element_of(values[0])
        width = width_of(self._target, lanes, element)
        if not width:
            return one_by_one(addend, values, factors)
        kind = instructions_for(self._target, width, element)
        if kind == "sums" and not has_fitting_pairs(call):
            return one_by_one(addend, values, factors)
        if kind == "long":
            return self._long_products(addend, values, factors, fit=has_fitting_pairs(call))
        left, right = self._words(values), self._words(factors)
        if kind in ("signed", "mixed"):
            held = self._held(values)
            left = in_a_lane(left) if held is None else held
        return by_vectors(kind, width, addend, left, right)

    def _lowered_bfloat16(self, addend: Any, values: Sequence[Any], factors: Sequence[Any]) -> Any:
        """As :meth:`_lowered`, of pairs of bfloat16."""
        lanes = lanes_of(addend)
        words = [self._words([_bits(element) for element in side]) for side in (values, factors)]
        if is_aarch64(self._target):
            if fills_vectors(lanes, NEON_LANES) and has_pair_sums(self._target, NEON_LANES):
                return by_vectors("pairs", NEON_LANES, addend, repeated(words[0]), words[1])
        elif has_pair_sums(self._target, lanes):
            return pair_sums(addend, *words)
        for left, right in zip(*map(_float_halves, words), strict=True):
            addend = addend + left * right
        return addend

    def _held(self, elements: Sequence[Any]) -> Any:
        """A broadcast word as a lane of the register that holds it and its neighbours; None where none does.

        That is where a schedule loads the data of a pixel, into a buffer with constant places.
        """
        scalars = _in_all_lanes(elements)
        start = self._start_of_run(scalars) if scalars else None
        start = None if start is None else self._analyzer.simplify(substitute(start, self._bound))
        if not isinstance(start, tirx.IntImm):
            return None
        source, place = scalars[0].source, int(start)
        length = self._stored.get(source, 0)
        if length not in (_NEON_BYTES // 2, _NEON_BYTES) or place % len(elements):
            return None
        begin, extent = place // length * length, source.shape[0]
        if not isinstance(extent, tirx.IntImm) or begin + length > int(extent):
            return None
        register = tirx.BufferLoad(source, [tirx.Ramp(tirx.IntImm(str(start.ty), begin), 1, length)])
        words = tirx.reinterpret(vector_of("int32", length // len(elements)), register)
        return lane_of(words, (place - begin) // len(elements))

    def _long_products(self, addend: Any, values: Sequence[Any], factors: Sequence[Any], *, fit: bool) -> Any:
        """``addend`` and the products of words, by products of bytes to int16 whose neighbours are added.

        Four sums take two products of eight bytes. Where they ``fit`` into int16 these are added up first.
        """
        parts = zip(in_vectors(addend), self._halves(values), self._halves(factors), strict=True)
        sums = []
        for total, *sides in parts:
            products = [
                tirx.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.smull.v8i16", *both)
                for both in zip(*sides, strict=True)
            ]
            for pairs in [products[0] + products[1]] if fit else products:
                total += tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", pairs)
            sums.append(total)
        return joined(sums)

    def _halves(self, elements: Sequence[Any]) -> list[list[Any]]:
        """The lower and the upper halves of each four words of four bytes, as vectors of eight bytes.

        Those that lie side by side are loaded by themselves: the upper half of a register would have to be
        moved to where products take it from.
        """
        lanes, scalars = lanes_of(elements[0]), _in_all_lanes(elements)
        halves = [(scalars or elements)[:PAIR], (scalars or elements)[PAIR:]]
        if scalars:
            runs = [self._runs(half, PAIR) for half in halves]
            words = [tirx.Broadcast(tirx.reinterpret("int16", run[0]), NEON_LANES) for run in runs if run]
            parts = [[tirx.reinterpret("int8x8", word) for word in words]] * (lanes // NEON_LANES)
        else:
            runs = [self._runs(half, PAIR * NEON_LANES) for half in halves]
            parts = [list(part) for part in zip(*runs, strict=False)]
        return parts if all(runs) else [halves_of_words(part) for part in in_vectors(self._words(elements))]

    def _words(self, elements: Sequence[Any]) -> Any:
        """Vectors of the elements of a word as one vector of 32-bit words, the first element lowest."""
        lanes, count = lanes_of(elements[0]), len(elements)
        scalars = _in_all_lanes(elements)
        if scalars:
            return tirx.Broadcast(self._words(scalars), lanes)
        word = _whole_word(elements)
        if word is not None:
            return tirx.reinterpret(vector_of("int32", lanes), word)
        run = self._runs(elements, count * lanes)
        if run:
            return tirx.reinterpret(vector_of("int32", lanes), run[0])
        if lanes > 1:
            vectors = self._neighbours(elements) or list(elements)
            order = [place * lanes + lane for lane in range(lanes) for place in range(count)]
            return tirx.reinterpret(vector_of("int32", lanes), tirx.Shuffle(vectors, order))
        dtype, bits = "int32", WORD_BITS // count
        mask = tirx.const((1 << bits) - 1, dtype)
        words = None
        for place, element in enumerate(elements):
            part = (element.astype(dtype) & mask) << tirx.const(bits * place, dtype)
            words = part if words is None else words | part
        return words

    def _neighbours(self, elements: Sequence[Any]) -> list[Any]:
        """One load of all, where they are neighbouring elements of a buffer of vectors; else nothing.

        LLVM joins two such loads of four, and then needs two registers for a permutation that one would do
        for.
        """
        first = elements[0]
        loads = [each for each in elements if isinstance(each, TensorLoad) and len(each.indices) == 1]
        if len(loads) < len(elements) or not all(load.source.same_as(first.source) for load in loads):
            return []
        if first.source.dtype.lanes != lanes_of(first):
            return []
        places = [substitute(load.indices[0], self._bound) for load in loads]
        if not all(self._is_constant(place - places[0], step) for step, place in enumerate(places)):
            return []
        return [tirx.BufferLoad(first.source, [tirx.Ramp(first.indices[0], 1, len(elements))])]

    def _runs(self, elements: Sequence[Any], length: int) -> list[Any]:
        """All elements in loads of such a length, lane after lane; none where they do not lie in a run."""
        start = self._start_of_run(elements)
        if start is None:
            return []
        places = range(0, len(elements) * lanes_of(elements[0]), length)
        return [tirx.BufferLoad(elements[0].source, [tirx.Ramp(start + at, 1, length)]) for at in places]

    def _start_of_run(self, elements: Sequence[Any]) -> Any:
        """The index of the first element where all lie side by side in one buffer, lane after lane.

        As it is written: LLVM would not find the values of its variables to be the same in every load.
        """
        first, indices = elements[0], []
        if not all(isinstance(element, TensorLoad) and len(element.indices) == 1 for element in elements):
            return None
        for element in elements:
            (index,) = element.indices
            if isinstance(index, tirx.Ramp):
                if not self._is_constant(index.stride, len(elements)):
                    return None
                index = index.base
            elif lanes_of(first) > 1:
                return None
            if not element.source.same_as(first.source):
                return None
            indices.append(index)
        starts = [substitute(index, self._bound) for index in indices]
        follows = (self._is_constant(start - starts[0], place) for place, start in enumerate(starts))
        return indices[0] if all(follows) else None

    def _is_constant(self, value: Any, number: int) -> bool:
        return bool(self._analyzer.can_prove_equal(value, number))


def _whole_word(elements: Sequence[Any]) -> Any:
    """The words that ``elements`` are :func:`parts_of`; None where they are none."""
    low = elements[0]
    if not isinstance(low, tirx.Cast) or element_of(low.value) != "uint32":
        return None
    parts = parts_of(low.value, element_of(low))
    whole = len(parts) == len(elements) and all(map(structural_equal, elements, parts))
    return low.value if whole else None


def _in_all_lanes(elements: Sequence[Any]) -> list[Any]:
    """What is broadcast to all lanes; nothing where not all elements are."""
    scalars = [element.value for element in elements if isinstance(element, tirx.Broadcast)]
    return scalars if len(scalars) == len(elements) else []


def _bits(element: Any) -> Any:
    """Those that an element of bfloat16 is widened from, in every lane if it is broadcast."""
    if isinstance(element, tirx.Broadcast):
        return tirx.Broadcast(without_conversion(element.value), lanes_of(element))
    return without_conversion(element)


def _float_halves(words: Any) -> list[Any]:
    """The lower and the upper halves of words, widened from bfloat16."""
    dtype, lanes = words.ty.dtype, lanes_of(words)
    upper = words & tirx.const(-1 << HALF_BITS, dtype)
    halves = (words << tirx.const(HALF_BITS, dtype), upper)
    return [tirx.reinterpret(vector_of("float32", lanes), half) for half in halves]
