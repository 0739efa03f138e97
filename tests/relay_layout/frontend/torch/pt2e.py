"""Quantized PyTorch programs for tests, as PT2E quantization leaves them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

import relay_layout.frontend.torch.operators.quantized as torch_quantized

torch_quantized.register()
OPERATORS = torch.ops.quantized_decomposed

_WEIGHTED = ("conv2d", "linear")
_BOUNDS = ("relu", "relu6", "hardtanh", "clamp")
_QUANTIZED = (*_WEIGHTED, *_BOUNDS, "add", "adaptive_avg_pool2d", "cat", "max_pool2d", "mean", "mul")


class _Recorder(Interpreter):
    """Runs a graph and keeps every value."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.values: dict[Node, Any] = {}

    def run_node(self, node: Node) -> Any:
        self.values[node] = super().run_node(node)
        return self.values[node]


def recorded(module: GraphModule, inputs: Sequence[torch.Tensor]) -> dict[Node, Any]:
    recorder = _Recorder(module)
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.values


def _operation(node: Node) -> str:
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name.partition(".")[0].rstrip("_")


def by_hand(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], *, per_channel: bool = True
) -> GraphModule:
    """int8 for the inputs, for weights and for what the operators above give; bounds join what they bound."""
    module = torch.export.export(model, tuple(inputs), strict=False).module()
    graph = module.graph
    values = recorded(module, inputs)
    for node in [*graph.nodes]:
        if node.op != "placeholder" and _operation(node) not in _QUANTIZED:
            continue
        users = [*node.users]
        if _operation(node) in _WEIGHTED:
            _quantize_weight(module, node, values[node.args[1]], per_channel)
        if len(users) == 1 and _operation(users[0]) in _BOUNDS:
            continue
        low, high = min(float(values[node].min()), 0.0), max(float(values[node].max()), 0.0)
        scale = max(high - low, 1e-3) / 255
        parameters = (scale, round(-128 - low / scale), -128, 127, torch.int8)
        after = node if node.op != "placeholder" else [n for n in graph.nodes if n.op == "placeholder"][-1]
        with graph.inserting_after(after):
            quantized = graph.call_function(OPERATORS.quantize_per_tensor.default, (node, *parameters))
        with graph.inserting_after(quantized):
            real = graph.call_function(OPERATORS.dequantize_per_tensor.default, (quantized, *parameters))
        for user in users:
            user.replace_input_with(node, real)
    module.recompile()
    return module


def _quantize_weight(module: GraphModule, node: Node, weight: torch.Tensor, per_channel: bool) -> None:
    name, graph = f"integers_of_{node.name}", module.graph
    rows = weight.detach().flatten(1).abs().amax(1).clamp(min=1e-3)
    scales = (rows if per_channel else rows.max().reshape(1)) / 127
    shape = (-1, *[1] * (weight.dim() - 1))
    steps = weight.detach() / scales.reshape(shape)
    module.register_buffer(name, steps.round().clamp(-127, 127).to(torch.int8))
    module.register_buffer(f"{name}_scales", scales)
    module.register_buffer(f"{name}_zeros", torch.zeros(len(scales), dtype=torch.int64))
    with graph.inserting_before(node):
        integers = graph.get_attr(name)
        if per_channel:
            operands = (graph.get_attr(f"{name}_scales"), graph.get_attr(f"{name}_zeros"), 0)
            operator = OPERATORS.dequantize_per_channel.default
        else:
            operands = (float(scales), 0)
            operator = OPERATORS.dequantize_per_tensor.default
        real = graph.call_function(operator, (integers, *operands, -127, 127, torch.int8))
    node.update_arg(1, real)


def by_x86_quantizer(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], *, per_channel: bool = True
) -> GraphModule:
    """torchao's for x86: activations of uint8, results as real numbers; weights are per channel alone."""
    pytest.importorskip("torchao", reason="needs torchao")
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    assert per_channel
    quantizer = x86.X86InductorQuantizer()
    return _prepared(model, inputs, quantizer.set_global(x86.get_default_x86_inductor_quantization_config()))


def by_xnnpack_quantizer(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], *, per_channel: bool = True
) -> GraphModule:
    """torchao's for XNNPACK: activations of int8, the results too."""
    pytest.importorskip("torchao", reason="needs torchao")
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    options = xnnpack.get_symmetric_quantization_config(is_per_channel=per_channel)
    return _prepared(model, inputs, xnnpack.XNNPACKQuantizer().set_global(options))


def _prepared(model: torch.nn.Module, inputs: Sequence[torch.Tensor], quantizer: Any) -> GraphModule:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(torch.export.export(model, tuple(inputs), strict=False).module(), quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)


def apart(module: GraphModule, inputs: Sequence[torch.Tensor]) -> tuple[GraphModule, list[torch.Tensor]]:
    """Each step from integers to integers on its own: a module with every quantized activation as an input.

    It gives each of them anew, computed from the others as they are in ``module``. Also the module's own
    integers for ``inputs``, in the same order.
    """
    values = recorded(module, inputs)
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    steps = [node for node in module.graph.nodes if _operation(node) == "quantize_per_tensor"]
    given = {node: graph.placeholder(f"given_{place}") for place, node in enumerate(steps)}
    results = []
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output", "call_module"):
            continue
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node in given:
            results.append(copies[node])
            copies[node] = given[node]
    graph.output(tuple(results))
    return GraphModule(module, graph), [values[node] for node in steps]


QUANTIZERS: dict[str, Callable[..., GraphModule]] = {
    "by hand": by_hand,
    "x86": by_x86_quantizer,
    "xnnpack": by_xnnpack_quantizer,
}
