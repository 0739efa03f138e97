"""How a convolution of bytes is computed: in dot products along channels or along a row, or in float32."""

from dataclasses import replace

from topi_ext.indexing import WORD_BYTES, block_of, physical_axes
from topi_ext.workload import ConvolutionWorkload

_LARGEST_PRODUCT = 255 * 128
_EXACT_IN_FLOAT = 1 << 24
"""Integers up to this are float32, and so are all sums on the way to them."""


def integer_form(
    workload: ConvolutionWorkload, *, signed_words: bool = False, words: bool = True
) -> ConvolutionWorkload:
    """The workload whose kernel computes ``workload``, one of uint8 data that accumulates int32.

    Dot products run along the input channels where words of these lie side by side, else along a row, with
    zeros that fill up the window. Without either, as in depthwise convolutions, sums that float32 holds
    exactly are made of float32. Other workloads, and those of three dimensions, stay as they are. With
    ``signed_words`` dot products take data of int8, which the caller has to subtract 128 for. Without
    ``words`` there are none.
    """
    if (workload.dtype, workload.out_dtype) != ("uint8", "int32") or workload.depth:
        return workload
    if workload.padded_lanes:
        # Words take the place of vectors that are filled up.
        plain = "".join(axis for axis in "HWIO" if (axis, 0) in physical_axes(workload.kernel_layout))
        workload = replace(workload, kernel_layout=plain)
    taps = workload.group_in_channels * workload.kernel[0] * workload.kernel[1]
    channels_innermost = physical_axes(workload.out_layout)[-1][0] == "C"
    if words and channels_innermost and not workload.is_depthwise:
        block = block_of(workload.data_layout, "C")
        if workload.group_in_channels % WORD_BYTES == 0 and (block == 1 or block % WORD_BYTES == 0):
            worded = replace(workload, kernel_layout=_words_of_channels(workload.kernel_layout))
            return replace(worded, dtype="int8") if signed_words else worded
        if _runs_along_rows(workload):
            worded = _words_of_rows(workload)
            return replace(worded, dtype="int8") if signed_words else worded
    if taps * _LARGEST_PRODUCT < _EXACT_IN_FLOAT:
        return replace(workload, out_dtype="float32")
    return workload


def _words_of_channels(kernel_layout: str) -> str:
    """``kernel_layout`` with a word of I innermost, taken out of its block of I where it has one."""
    return "".join(
        (f"{factor // WORD_BYTES}i" if factor > WORD_BYTES else "")
        if name == "I" and factor
        else _text(name, factor)
        for name, factor in physical_axes(kernel_layout)
    ) + _text("I", WORD_BYTES)


def _runs_along_rows(workload: ConvolutionWorkload) -> bool:
    """Are the pixels that one row of the window covers one run in memory?"""
    return (
        physical_axes(workload.data_layout)[-1] == ("W", 0)
        and workload.dilation[1] == 1
        and ("W", 0) in physical_axes(workload.kernel_layout)
        and workload.kernel[1] > 1
    )


def _words_of_rows(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """The window widened to whole words by zeros on its right, and the image by as much border."""
    height, width = workload.kernel
    more = -width % WORD_BYTES
    top, left, bottom, right = workload.padding
    return replace(
        workload,
        kernel=(height, width + more),
        padding=(top, left, bottom, right + more),
        kernel_layout=workload.kernel_layout + _text("W", WORD_BYTES),
    )


def _text(name: str, factor: int) -> str:
    return f"{factor}{name.lower()}" if factor else name


__all__ = ["integer_form"]
