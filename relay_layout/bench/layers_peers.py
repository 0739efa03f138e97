"""One convolution or dense layer, with bias and ReLU, in each runtime: what the workers of `bench --layers` run.

A peer's "model" is a JSON file (:func:`write_job`), and its inputs are made here from a fixed seed, because
weights are large and every runtime packs them in a way of its own. Weights that do not stay in a cache from one
run of a network to the next come from memory: calls take turns with copies of them.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relay_layout.bench.peers import Array, CallablePeer, Inputs, Prepared, Runner
from relay_layout.layout_transform import apply
from topi_ext.workload import ConvolutionWorkload

DATA_AXES, KERNEL_AXES = "NCHW", "OIHW"

DTYPE = "float32"
"""The only data type that is measured."""


class LayerArrays(NamedTuple):
    """What a layer computes with: data NCHW, weight OIHW (I of one group), bias [O]; all float32."""

    data: Array
    weight: Array
    bias: Array


def layer_arrays(workload: ConvolutionWorkload) -> LayerArrays:
    """The same numbers in every process; results are about 1, so that ReLU leaves something to compare."""
    random = np.random.default_rng(0)
    inputs = workload.group_in_channels
    data = (workload.batch, workload.in_channels, workload.in_height, workload.in_width)
    weight = random.standard_normal((workload.out_channels, inputs, *workload.kernel), np.float32)
    weight *= np.float32(1 / math.sqrt(inputs * math.prod(workload.kernel)))
    bias = 1 + random.standard_normal(workload.out_channels, np.float32) / 8
    return LayerArrays(random.standard_normal(data, np.float32), weight, bias.astype(np.float32))


def stored(array: Array, axes: str, layout: str) -> Array:
    """An array of logical ``axes`` as it lies in memory; the layout may leave out axes of extent one."""
    kept = [(axis, extent) for axis, extent in zip(axes, array.shape, strict=True) if axis in layout]
    return apply(array.reshape([extent for _, extent in kept]), "".join(axis for axis, _ in kept), layout)


def logical_result(array: Array, workload: ConvolutionWorkload) -> Array:
    """A result that lies in the workload's layout, as NCHW."""
    kept = "".join(axis for axis in DATA_AXES if axis in workload.out_layout)
    return apply(array, workload.out_layout, kept).reshape(_result_shape(workload))


def write_job(path: Path, **fields: Any) -> Path:
    """A file for the peers of this module; the workload is stored as its own JSON."""
    workload = fields.get("workload")
    if workload is not None:
        fields["workload"] = workload.to_json()
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path


def prepare_kernel(path: Path, threads: int) -> Prepared:
    """relay-layout's kernel: the fields ``workload``, ``knobs`` and ``target`` of the job."""
    import tvm

    from topi_ext.kernel import kernel_arguments, knobs_from_dict, scheduled_kernel
    from topi_ext.knobs import WinogradKnobs
    from topi_ext.tune.workers import cold_copies
    from topi_ext.winograd import transform_weight

    job = _read_job(path)
    workload = ConvolutionWorkload.from_json(job["workload"])
    knobs = knobs_from_dict(workload, job["knobs"])
    function = _load(scheduled_kernel(workload, knobs), job["target"], threads)

    def bind(inputs: Inputs) -> Runner:
        del inputs
        arrays = layer_arrays(workload)
        if isinstance(knobs, WinogradKnobs):
            places_first = knobs.order == "pixels"
            weight = transform_weight(arrays.weight, knobs.tile, knobs.weight_vector, places_first)
        else:
            weight = stored(arrays.weight, KERNEL_AXES, workload.kernel_layout)
        data = tvm.runtime.tensor(stored(arrays.data, DATA_AXES, workload.data_layout))
        bias = tvm.runtime.tensor(stored(arrays.bias.reshape(1, -1, 1, 1), DATA_AXES, workload.out_layout))
        result = tvm.runtime.empty(*kernel_arguments(workload, knobs)[3])
        weights = cycle([tvm.runtime.tensor(weight) for _ in range(cold_copies(weight.nbytes))])
        views = [np.from_dlpack(result)]

        def run() -> list[Array]:
            function(data, next(weights), bias, result)
            return views

        return Runner(run)

    return bind


def prepare_onednn(path: Path, threads: int) -> Prepared:
    """oneDNN as torch's Inductor calls it: data channels last, weights packed once, ReLU in the same call.

    These calls take equal padding on both sides only; other data is padded beforehand, at oneDNN's advantage.
    """
    import torch

    torch.set_num_threads(threads)
    workload = ConvolutionWorkload.from_json(_read_job(path)["workload"])

    def bind(inputs: Inputs) -> Runner:
        del inputs
        arrays = layer_arrays(workload)
        with torch.inference_mode():
            if "H" in workload.data_layout or "W" not in workload.out_layout or workload.kernel != (1, 1):
                calls = _torch_convolution(torch, workload, arrays)
            else:
                calls = _torch_convolution(torch, workload, arrays)

        def run() -> list[Array]:
            with torch.inference_mode():
                return [next(calls).numpy()]

        return Runner(run)

    return bind
