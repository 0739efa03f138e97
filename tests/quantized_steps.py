"""A quantized network taken apart, so that what follows quantized integers is given the reference's."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime

from tests.onnx_reference import reference_session

Arrays = Mapping[str, np.ndarray]

_GIVEN = "_given"


def taken_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network whose quantized activations are outputs, and inputs (``..._given``) of what reads them."""
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    graph = apart.graph
    weights = {each.name for each in graph.initializer}
    infos = {each.name: each for each in onnx.shape_inference.infer_shapes(model).graph.value_info}
    cuts = [
        node.output[0]
        for node in graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] not in weights
    ]
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in cuts:
                node.input[place] = name + _GIVEN
    for name in cuts:
        graph.output.append(infos[name])
        graph.input.append(infos[name])
        graph.input[-1].name = name + _GIVEN
    return apart


def steps_apart_each(
    model: onnx.ModelProto, image: np.ndarray, run: Callable[[onnx.ModelProto, Arrays], Arrays]
) -> tuple[int, float]:
    """The largest difference of quantized activations in steps, and the share of them that nobody else has.

    Each is computed from the integers that ONNX Runtime has before it, and compared with what ONNX Runtime
    makes of these by its kernels for integers, and by ONNX's definition in float32, which may be one step
    apart. Where a number is a half, either step is right: means of four integers often are, and rounding
    errors of the reference decide. ``run`` compiles a model and gives its outputs for inputs.
    """
    apart = taken_apart(model)
    cuts = [each.name for each in apart.graph.output][len(model.graph.output) :]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(apart.graph.output[len(model.graph.output) :])
    theirs = _by_onnx_runtime(whole, {"input": image}, cuts)
    inputs = {"input": image, **{name + _GIVEN: integers for name, integers in theirs.items()}}
    defined = _by_onnx_runtime(apart, inputs, cuts, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    ours = run(apart, inputs)
    distances = [
        np.concatenate([np.abs(ours[name].astype("int64") - reference[name]).ravel() for name in cuts])
        for reference in (theirs, defined)
    ]
    is_half = np.concatenate([each.ravel() for each in _are_halves(apart, inputs, cuts)])
    return int(np.max(distances)), float(((np.min(distances, axis=0) > 0) & ~is_half).mean())


def _are_halves(apart: onnx.ModelProto, inputs: Arrays, cuts: list[str]) -> list[np.ndarray]:
    """Of each quantized activation, which numbers lie between two steps, but for float32's rounding."""
    steps = {node.output[0]: node for node in apart.graph.node if node.output[0] in cuts}
    numbers = [steps[name].input[0] for name in cuts]
    whole = onnx.ModelProto()
    whole.CopyFrom(apart)
    outputs = {each.name for each in apart.graph.output}
    whole.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in dict.fromkeys(numbers) if name not in outputs
    )
    found = _by_onnx_runtime(
        whole, inputs, list(dict.fromkeys(numbers)), level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in apart.graph.initializer}
    scaled = [
        found[number] / constants[steps[name].input[1]] for name, number in zip(cuts, numbers, strict=True)
    ]
    return [np.abs(each - np.floor(each) - 0.5) < 1e-4 for each in scaled]


def _by_onnx_runtime(
    model: onnx.ModelProto,
    inputs: Arrays,
    outputs: list[str],
    level: Any = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = reference_session(model.SerializeToString(), options)
    return dict(zip(outputs, session.run(outputs, inputs), strict=True))
