"""One convolution or dense layer, with bias and ReLU, in each runtime: the work of ``bench --layers``.

A peer's "model" is a JSON file (:func:`write_job`), and its inputs are made here from a fixed seed, because
weights are large and every runtime packs them in a way of its own. Weights that do not stay in a cache from
one run of a network to the next come from memory: calls take turns with copies of them.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relay_layout.bench.peers import Array, CallablePeer, Inputs, Prepared, Run
from relay_layout.layout.transform import apply
from relay_layout.runtime.peak import peak_arguments, peak_kernel
from topi_ext.files.temporary_folder import TemporaryFolder
from topi_ext.workloads.convolution import COLUMNS, PLANES, ROWS, ConvolutionWorkload
from topi_ext.workloads.reading import convolution_from_json

DTYPE = "float32"
"""The only data type that is measured."""


TorchCalls = tuple[Callable[[Any], Any], list[Any]]
"""A call that takes packed weights, and the copies of them to take turns with."""


class LayerArrays(NamedTuple):
    """What a layer computes with: data NCHW, weight OIHW (I of one group), bias [O]; all float32.

    Those of a volume have D before H.
    """

    data: Array
    weight: Array
    bias: Array


def layer_arrays(workload: ConvolutionWorkload) -> LayerArrays:
    """The same numbers in every process; results are about 1, so that ReLU leaves something to compare."""
    random = np.random.default_rng(0)
    inputs = workload.group_in_channels
    planes, depth = workload.depth[:1], workload.depth[1:2]
    data = (workload.batch, workload.in_channels, *planes, workload.in_height, workload.in_width)
    weight = random.standard_normal((workload.out_channels, inputs, *depth, *workload.kernel), np.float32)
    weight *= np.float32(1 / math.sqrt(inputs * workload.taps))
    bias = 1 + random.standard_normal(workload.out_channels, np.float32) / 8
    return LayerArrays(random.standard_normal(data, np.float32), weight, bias.astype(np.float32))


def stored(array: Array, axes: str, layout: str) -> Array:
    """An array of logical ``axes`` as it lies in memory; the layout may leave out axes of extent one."""
    kept = [(axis, extent) for axis, extent in zip(axes, array.shape, strict=True) if axis in layout]
    return apply(array.reshape([extent for _, extent in kept]), "".join(axis for axis, _ in kept), layout)


def logical_result(array: Array, workload: ConvolutionWorkload) -> Array:
    """A result that lies in the workload's layout, as NCHW or NCDHW."""
    kept = "".join(axis for axis in f"NC{workload.spatial}" if axis in workload.out_layout)
    return apply(array, workload.out_layout, kept).reshape(_result_shape(workload))


def write_job(path: Path, **fields: Any) -> Path:
    """A file for the peers of this module; the workload is stored as its own JSON."""
    workload = fields.get("workload")
    if workload is not None:
        fields["workload"] = workload.to_json()
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path


def prepare_kernel(path: Path, threads: int) -> Prepared:
    """relay-layout's kernel: the fields ``workload``, ``knobs`` and ``target`` of the job.

    ``groups`` are those of the layer before some were merged; the workload's where the job has none.
    """
    import tvm

    from topi_ext.kernel import kernel_arguments, scheduled_kernel
    from topi_ext.knobs import WinogradKnobs, knobs_from_dict
    from topi_ext.tune.measuring.workers import cold_copies
    from topi_ext.weights import fill_vectors, merge_groups, winograd_weight

    job = _read_job(path)
    workload = convolution_from_json(job["workload"])
    knobs = knobs_from_dict(workload, job["knobs"])
    function = _load(scheduled_kernel(workload, knobs), job["target"], threads)

    def bind(inputs: Inputs) -> Run:
        groups = job.get("groups", workload.groups)
        arrays = layer_arrays(replace(workload, groups=groups))
        data_axes, kernel_axes = f"NC{workload.spatial}", f"OI{workload.spatial}"
        weight, axes = arrays.weight, kernel_axes
        if groups != workload.groups:
            weight = merge_groups(weight, groups, workload.groups)
        if isinstance(knobs, WinogradKnobs):
            weight = winograd_weight(weight, workload, knobs)
        else:
            if workload.padded_lanes:
                weight = fill_vectors(weight, workload.groups, workload.padded_lanes)
                axes = kernel_axes if workload.groups == 1 else f"G{kernel_axes}"
            weight = stored(weight, axes, workload.kernel_layout)
        data = tvm.runtime.tensor(stored(arrays.data, data_axes, workload.data_layout))
        bias_array = arrays.bias.reshape(1, -1, *[1] * len(workload.spatial))
        bias = tvm.runtime.tensor(stored(bias_array, data_axes, workload.out_layout))
        result = tvm.runtime.empty(*kernel_arguments(workload, knobs)[3])
        weights = cycle([tvm.runtime.tensor(weight) for _ in range(cold_copies(weight.nbytes))])
        views = [np.from_dlpack(result)]

        def run() -> list[Array]:
            function(data, next(weights), bias, result)
            return views

        return run

    return bind


def prepare_onednn(path: Path, threads: int) -> Prepared:
    """oneDNN as torch's Inductor calls it: weights packed once, ReLU in the same call.

    The data lies as it is faster, with channels first or last. These calls take equal padding on both sides
    only; other data is padded beforehand, to oneDNN's advantage.
    """
    import torch

    torch.set_num_threads(threads)
    workload = convolution_from_json(_read_job(path)["workload"])
    dense = is_dense(workload)

    def bind(inputs: Inputs) -> Run:
        arrays = layer_arrays(workload)
        with torch.inference_mode():
            call, packed = (_torch_dense if dense else _torch_convolution)(workload, arrays)
        weights = cycle(packed)
        shape = _result_shape(workload)

        def run() -> list[Array]:
            result = call(next(weights)).numpy()
            return [(result.T if dense else result).reshape(shape)]

        return run

    return bind


def _torch_convolution(workload: ConvolutionWorkload, arrays: LayerArrays) -> TorchCalls:
    import torch

    from topi_ext.tune.measuring.workers import cold_copies

    sides = [
        workload.along(side) for side in ((PLANES, ROWS, COLUMNS) if workload.depth else (ROWS, COLUMNS))
    ]
    _, _, strides, before, after, dilation = (list(numbers) for numbers in zip(*sides, strict=True))
    padding, groups = before, workload.groups
    data, weight, bias = (torch.from_numpy(array) for array in arrays)
    if before != after:
        from relay_layout.bench.onnx_to_torch.windows import pad_argument

        data = torch.nn.functional.pad(data, pad_argument(list(zip(before, after, strict=True))))
        padding = [0] * len(sides)
    reorder = torch.ops.mkldnn._reorder_convolution_weight.default
    convolve = torch.ops.mkldnn._convolution_pointwise.default

    def prepared(data: Any) -> TorchCalls:
        # Packed anew for each: a clone of a packed weight is in another format, and slow.
        packed = [
            reorder(weight, padding, strides, dilation, groups, list(data.shape))
            for _ in range(cold_copies(arrays.weight.nbytes))
        ]

        def call(weight: Any) -> Any:
            return convolve(data, weight, bias, padding, strides, dilation, groups, "relu", [], "")

        return call, packed

    last = torch.channels_last_3d if workload.depth else torch.channels_last
    formats = (last, torch.contiguous_format)
    return min((prepared(data.contiguous(memory_format=format)) for format in formats), key=_seconds)


def _seconds(calls: TorchCalls) -> float:
    """The quickest of a few calls."""
    call, packed = calls
    weights, times = cycle(packed), []
    for _ in range(_TRIALS):
        start = time.perf_counter()
        call(next(weights))
        times.append(time.perf_counter() - start)
    return min(times)


_TRIALS = 10


def _torch_dense(workload: ConvolutionWorkload, arrays: LayerArrays) -> TorchCalls:
    import torch

    from topi_ext.tune.measuring.workers import cold_copies

    data = torch.from_numpy(arrays.data[0, :, 0, :].T.copy())
    weight, bias = torch.from_numpy(arrays.weight[:, :, 0, 0]), torch.from_numpy(arrays.bias)
    reorder = torch.ops.mkldnn._reorder_linear_weight.default
    multiply = torch.ops.mkldnn._linear_pointwise.default
    packed = [reorder(weight, data.shape[0]) for _ in range(cold_copies(arrays.weight.nbytes))]

    def call(weight: Any) -> Any:
        return multiply(data, weight, bias, "relu", [], "")

    return call, packed


def prepare_peak(path: Path, threads: int) -> Prepared:
    """The kernel of :func:`peak_kernel`: the fields ``target``, ``lanes`` and ``steps`` of the job."""
    job = _read_job(path)
    function = _load(peak_kernel(threads, job["lanes"], job["steps"]), job["target"], threads)

    def bind(inputs: Inputs) -> Run:
        arguments = peak_arguments(threads, job["lanes"])
        views = [np.from_dlpack(arguments[-1])]

        def run() -> list[Array]:
            function(*arguments)
            return views

        return run

    return bind


def is_dense(workload: ConvolutionWorkload) -> bool:
    """A product of rows by a matrix, whose layouts leave out all but the rows and the channels."""
    return "N" not in workload.data_layout


def _load(function: Any, target: Mapping[str, Any], threads: int) -> Any:
    """A scheduled function, compiled and linked as a network's kernels are."""
    import tvm

    from relay_layout.lower.library.link import link_command
    from topi_ext.tune.measuring.library import ENTRY
    from topi_ext.tune.measuring.workers import WORKER_GROUP_BIG, build_and_export, named

    tvm.get_global_func("runtime.config_threadpool")(WORKER_GROUP_BIG, threads)
    with TemporaryFolder() as folder:
        path = build_and_export(
            folder, tuple(link_command()), named(function), tvm.target.Target(dict(target))
        )
        return tvm.runtime.load_module(path)[ENTRY]


def _read_job(path: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return job


def _result_shape(workload: ConvolutionWorkload) -> tuple[int, ...]:
    planes = (workload.out_depth,) if workload.depth else ()
    return workload.batch, workload.out_channels, *planes, workload.out_height, workload.out_width


KERNEL = CallablePeer("relay-layout", prepare_kernel, ("tvm",), "relay-layout")
ONEDNN = CallablePeer("oneDNN", prepare_onednn, ("torch",), "torch")
PEAK = CallablePeer("peak", prepare_peak, ("tvm",), "apache-tvm")
