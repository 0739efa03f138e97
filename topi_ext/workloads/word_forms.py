"""How a convolution is computed in words: dot products of bytes along channels or a row, or of bfloat16."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np

from topi_ext.indexing import WORD_BYTES, block_of, in_halves, in_pairs, layout_of, physical_axes
from topi_ext.machine.processor import Processor
from topi_ext.winograd import INTEGER_POINTS, winograd_matrices
from topi_ext.workloads.convolution import WIDENED, ConvolutionWorkload, word_elements
from topi_ext.workloads.facts import pairs_pixels, suits_amx, suits_winograd

Words = Literal["whole", "halves", "pairs", "wide", "none"]
"""How a kernel of bytes stores its words: each by itself, the lower two bytes of a vector of them before the
upper two, two words of an output side by side, as two int16 that it makes of the data when it copies them, or
without any."""

PAIR = 2
"""Products that are added to 16 bits."""

_LARGEST_BYTE = 255
"""The largest uint8."""
_LARGEST_SIGNED_BYTE = 128
"""In magnitude."""
_LARGEST_PRODUCT = _LARGEST_BYTE * 128
_SUM_BITS = 31
"""Bits of int32, without the sign."""
_EXACT_IN_FLOAT = 1 << 24
"""Integers up to this are float32, and so are all sums on the way to them."""


def fits_float(products: int) -> bool:
    """Whether float32 holds any sum of so many products of uint8 by int8."""
    return products * _LARGEST_PRODUCT < _EXACT_IN_FLOAT


class ByteWeight:
    """A constant weight with the outputs first, and what its elements of int8 allow, which is found once."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @cached_property
    def spare_bits(self) -> int:
        """How many bits of int32 are free whatever bytes are summed.

        They are as many as some tile of Winograd's convolution needs, so that there are few numbers of them.
        """
        axes = tuple(range(1, self.array.ndim))
        positive = np.maximum(self.array, 0).sum(axis=axes, dtype="int64")
        negative = positive - self.array.sum(axis=axes, dtype="int64")
        largest = _LARGEST_BYTE * int(max(positive.max(initial=0), negative.max(initial=0)))
        free = _SUM_BITS - largest.bit_length()
        needed = (winograd_matrices(tile, integers=True).spare_bits for tile in INTEGER_POINTS)
        return max((bits for bits in needed if bits <= free), default=0)

    @cached_property
    def pairs_fit(self) -> bool:
        """As :func:`pairs_fit`, whichever elements a layout makes neighbours."""
        return self._fit_in_pairs(_LARGEST_BYTE)

    @cached_property
    def signed_pairs_fit(self) -> bool:
        """The same of data of int8: all weights but -128 do."""
        return self._fit_in_pairs(_LARGEST_SIGNED_BYTE)

    def _fit_in_pairs(self, byte: int) -> bool:
        largest = max(int(self.array.max(initial=0)), -int(self.array.min(initial=0)))
        return PAIR * largest * byte <= np.iinfo("int16").max


def integer_form(
    workload: ConvolutionWorkload,
    *,
    signed_words: bool = False,
    pixel_words: bool = False,
    words: Words = "whole",
) -> ConvolutionWorkload:
    """The workload whose kernel computes ``workload``, one of uint8 data that accumulates int32.

    Dot products run along the input channels where words of these lie side by side, else along a row, with
    zeros that fill up the window. Without either, as in depthwise convolutions, sums that float32 holds
    exactly are made of float32. Other workloads, and those of three dimensions, stay as they are. With
    ``signed_words`` dot products take data of int8, which the caller has to subtract 128 for. With
    ``pixel_words`` those of depthwise convolutions run along a row. In "pairs" ``words`` are those of
    channels that products of matrices suit; where they suit none, the workload stays as it is.
    """
    if (workload.dtype, workload.out_dtype) != ("uint8", "int32") or workload.depth:
        return workload
    plain = _without_padded_lanes(workload)
    taps = workload.group_in_channels * workload.kernel[0] * workload.kernel[1]
    if words == "wide":
        worded = _in_words(replace(workload, dtype=WIDENED), word_elements(WIDENED, workload.out_dtype))
    else:
        worded = _in_words(workload, WORD_BYTES, words) if words != "none" else None
    if words == "pairs":
        return worded if worded is not None and pairs_pixels(worded) else workload
    if worded is None and words != "none" and pixel_words and _has_blocks_side_by_side(workload):
        worded = _words_of_rows(workload, WORD_BYTES)
    if worded is not None:
        return replace(worded, dtype="int8") if signed_words else worded
    if fits_float(taps):
        return replace(plain, out_dtype="float32")
    return plain


def integer_forms(
    workload: ConvolutionWorkload,
    processor: Processor,
    weight: ByteWeight | None = None,
    stored: Callable[[ConvolutionWorkload], np.ndarray] | None = None,
) -> list[ConvolutionWorkload]:
    """The forms of :func:`integer_form` at which a processor may be the fastest.

    ``weight`` is of int8 in any layout, ``stored`` gives it as the kernel of a form stores it. Without them
    it may be any.
    """
    form = integer_form(
        workload,
        signed_words=processor.signed_words,
        pixel_words=processor.pixel_words,
        words="halves" if processor.long_products else "whole",
    )
    if processor.byte_matrices:
        pairs = integer_form(workload, words="pairs")
        return [form] if pairs is workload else [form, pairs]
    if form is workload or processor.word_instructions == 1:
        return [form]
    if processor.signed_words:
        # Products of int16 are as many an instruction, so they pay by Winograd's alone.
        wide = replace(workload, dtype=WIDENED)
        if weight is None:
            return [form]
        if form.word_axis and weight.signed_pairs_fit:
            form = replace(form, pairs_fit=True)
        if not suits_winograd(wide):
            return [form]
        return [form, replace(wide, spare_bits=weight.spare_bits)]
    wide = integer_form(workload, words="wide")
    if weight is None:
        return [wide]
    if suits_winograd(wide):
        wide = replace(wide, spare_bits=weight.spare_bits)
    if not processor.adds_byte_products or not form.word_axis:
        return [wide]
    fit = pairs_fit(stored(form)) if stored else weight.pairs_fit
    if not fit:
        return [wide]
    return [replace(form, pairs_fit=True), *([wide] if wide.spare_bits else [])]


def pairs_fit(stored: np.ndarray) -> bool:
    """Do products of bytes with neighbours of each word of a weight, which its last axis is, add up to int16
    in pairs, whatever the bytes are? Weights of seven bits always do.
    """
    pairs = stored.reshape(-1, PAIR).astype("int32")
    most = max(int(np.maximum(side, 0).sum(axis=1).max()) for side in (pairs, -pairs))
    return most * _LARGEST_BYTE <= np.iinfo("int16").max


def bfloat16_form(
    workload: ConvolutionWorkload, *, vectors: bool = True, words: Words = "whole"
) -> ConvolutionWorkload:
    """The workload whose kernel computes ``workload``, one of float32, of bfloat16 and adds in float32.

    Without ``vectors`` of words it is for :mod:`topi_ext.codegen.amx` alone. What suits neither
    stays as it is, and so does what in "pairs" of ``words`` suits no products of matrices.
    """
    if (workload.dtype, workload.out_dtype) != ("float32", "float32") or workload.depth:
        return workload
    bfloat16 = replace(workload, dtype="bfloat16")
    worded = _in_words(bfloat16, word_elements(bfloat16.dtype, bfloat16.out_dtype), words)
    if worded is None:
        return workload
    suits = pairs_pixels(worded) if words == "pairs" else vectors or suits_amx(worded)
    return worded if suits else workload


def bfloat16_forms(workload: ConvolutionWorkload, processor: Processor) -> list[ConvolutionWorkload]:
    """Those of :func:`bfloat16_form` at which a processor may be faster than at ``workload`` itself."""
    forms = [bfloat16_form(workload, vectors=processor.bfloat16_instructions > 0)]
    if processor.bfloat16_matrices:
        forms.append(bfloat16_form(workload, words="pairs"))
    return [form for form in forms if form is not workload]


def _in_words(workload: ConvolutionWorkload, word: int, words: Words = "whole") -> ConvolutionWorkload | None:
    """The workload with its kernel stored in words, of channels or of rows; None where neither fits."""
    if physical_axes(workload.out_layout)[-1][0] != "C" or workload.is_depthwise:
        return None
    plain = _without_padded_lanes(workload)
    block = block_of(workload.data_layout, "C")
    run = 2 * word if words == "pairs" else word
    if workload.group_in_channels % run == 0 and (block == 1 or block % run == 0):
        # Zeros fill up the vectors of words of channels, if these are of one group.
        filled = workload if workload.groups == 1 else plain
        return replace(filled, kernel_layout=_words_of_channels(filled.kernel_layout, run, words))
    return _words_of_rows(plain, word, words) if words != "pairs" and _runs_along_rows(plain) else None


def _without_padded_lanes(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """Its kernel stored without vectors, if they would be filled up."""
    if not workload.padded_lanes:
        return workload
    plain = "".join(axis for axis in "HWIO" if (axis, 0) in physical_axes(workload.kernel_layout))
    return replace(workload, kernel_layout=plain)


def _words_of_channels(kernel_layout: str, run: int, words: Words) -> str:
    """``kernel_layout`` with a ``run`` of I innermost, of one word or two, taken out of its block of I where
    it has one.
    """
    left = [
        (name, factor // run if name == "I" else factor)
        for name, factor in physical_axes(kernel_layout)
        if name != "I" or factor != run
    ]
    return _with_words(layout_of(left), "I", run, words)


def _with_words(kernel_layout: str, axis: str, run: int, words: Words) -> str:
    """``kernel_layout`` with ``words`` along ``axis`` innermost."""
    if words == "pairs":
        return in_pairs(kernel_layout, run // 2)
    if words == "halves":
        return in_halves(kernel_layout, axis)
    return layout_of([*physical_axes(kernel_layout), (axis, run)])


def _runs_along_rows(workload: ConvolutionWorkload) -> bool:
    """Are the pixels that one row of the window covers one run in memory?"""
    return (
        physical_axes(workload.data_layout)[-1] == ("W", 0)
        and workload.dilation[1] == 1
        and ("W", 0) in physical_axes(workload.kernel_layout)
        and workload.kernel[1] > 1
    )


def _has_blocks_side_by_side(workload: ConvolutionWorkload) -> bool:
    """Are the vectors of channels that a row of a depthwise window covers one run in memory?"""
    return (
        workload.is_depthwise
        and workload.in_channels == workload.out_channels
        and workload.data_layout == workload.out_layout == "NCHW16c"
        and workload.dilation[1] == 1
        and workload.kernel[1] > 1
    )


def _words_of_rows(workload: ConvolutionWorkload, word: int, words: Words = "whole") -> ConvolutionWorkload:
    """The window widened to whole words by zeros on its right, and the image by as much border."""
    height, width = workload.kernel
    more = -width % word
    top, left, bottom, right = workload.padding
    return replace(
        workload,
        kernel=(height, width + more),
        padding=(top, left, bottom, right + more),
        kernel_layout=_with_words(workload.kernel_layout, "W", word, words),
    )
