"""Weights as kernels store them."""

import numpy as np

from topi_ext.knobs import WinogradKnobs
from topi_ext.winograd import transform_weight
from topi_ext.workloads.convolution import ConvolutionWorkload


def fill_vectors(weight: np.ndarray, groups: int, lanes: int) -> np.ndarray:
    """``weight``, its outputs on the first axis, with zeros after those of each group.

    They fill vectors of ``lanes`` and are as a padded convolution takes them
    (:attr:`topi_ext.workloads.convolution.ConvolutionWorkload.padded_lanes`): the groups are an axis of their
    own, the first, where there are several.
    """
    if groups > 1:
        return np.stack([fill_vectors(part, 1, lanes) for part in np.split(weight, groups)])
    return np.pad(weight, [(0, -weight.shape[0] % lanes), *[(0, 0)] * (weight.ndim - 1)])


def merge_groups(weight: np.ndarray, groups: int, merged: int) -> np.ndarray:
    """The OIHW weight of ``merged`` groups that computes what ``weight`` does for ``groups``, a multiple.

    It has zeros where outputs and inputs are of different groups.
    """
    outputs, inputs, *window = weight.shape
    factor = groups // merged
    result = np.zeros((outputs, factor, inputs, *window), weight.dtype)
    place = np.arange(outputs) // (outputs // groups) % factor
    result[np.arange(outputs), place] = weight
    return result.reshape(outputs, factor * inputs, *window)


def winograd_weight(weight: np.ndarray, workload: ConvolutionWorkload, knobs: WinogradKnobs) -> np.ndarray:
    """An OIHW or OIDHW weight as Winograd's kernel reads it: ``knobs.weight_shape(workload)``."""
    places_first = knobs.order == "pixels"
    return transform_weight(weight, knobs.tile, knobs.weight_vector, places_first, word=workload.word)
