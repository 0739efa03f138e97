"""``relay.quantize.quantize``: integers put between the layers of a network."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.errors import ModelError
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    simplify_bindings,
    with_main,
    with_operands,
)
from relay_layout.relay.build_module import as_module, bind_params
from relay_layout.relay.quantize.calibration import observe
from relay_layout.relay.quantize.config import QConfig, current_qconfig
from relay_layout.relay.quantize.layers import Chosen, Layer, choose
from relay_layout.relay.quantize.ranges import Range, symmetric_range
from relay_layout.relay.transform import FoldConstant, FoldScaleAxis, SimplifyInference


def prerequisite_optimize(mod: Any, params: Mapping[str, Any] | None = None) -> tvm.IRModule:
    """The module with its parameters as constants and batch norms in the weights of convolutions."""
    module, _ = bind_params(as_module(mod), params)
    passes = [SimplifyInference(), FoldConstant(), FoldScaleAxis(), FoldConstant()]
    return tvm.transform.Sequential(passes)(module)


def quantize(
    mod: Any, params: Mapping[str, Any] | None = None, dataset: Iterable[Mapping[Any, Any]] | None = None
) -> tvm.IRModule:
    """The module with convolutions, and products if asked for, of 8-bit integers, by the current qconfig.

    What they read is quantized and dequantized, which compilation makes integers of from layer to layer;
    weights are integers with a scale for each output channel. ``dataset`` has dictionaries of arrays by the
    names of inputs, and is read where ``calibrate_mode`` is "kl_divergence".

    ModelError where the dataset is missing or does not fit, and for a weight that is no constant.
    """
    config = current_qconfig()
    module = prerequisite_optimize(mod, params)
    main = module["main"]
    chosen = choose(main, config)
    ranges = _ranges(module, chosen, config, dataset)
    quantized = _Quantizing(chosen, ranges, config).visit_expr(main)
    return simplify_bindings(with_main(module, quantized))


def _ranges(
    module: tvm.IRModule, chosen: Chosen, config: QConfig, dataset: Iterable[Mapping[Any, Any]] | None
) -> dict[relax.Var, Range]:
    tensors = list(dict.fromkeys(chosen.sources.values()))
    if config.calibrate_mode == "global_scale":
        # Relay divides by 128 and leaves out -128.
        high = 2 ** (config.nbit_input - 1) - 1
        step = config.global_scale / 2 ** (config.nbit_input - 1)
        return dict.fromkeys(tensors, Range(step, 0, -high, high))
    if dataset is None:
        raise ModelError(
            'quantize: calibrate_mode "kl_divergence" takes a dataset, dictionaries of arrays by input'
        )
    if not tensors:
        return {}
    histograms = observe(module, tensors, dataset)
    found = [histogram.best_range(config.nbit_input) for histogram in histograms]
    return dict(zip(tensors, found, strict=True))


@mutator
class _Quantizing(PyExprMutator):
    """Quantizes tensors where they are made, so that all who read them read the same numbers."""

    def __init__(self, chosen: Chosen, ranges: Mapping[relax.Var, Range], config: QConfig) -> None:
        super().__init__()
        self.layers: dict[relax.Var, Layer] = {layer.result: layer for layer in chosen.layers}
        self.ranges = {tensor: ranges[source] for tensor, source in chosen.sources.items()}
        self.config = config
        self.inputs: dict[relax.Var, relax.Var] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """A tensor in its range; a layer by its quantized weight."""
        layer = self.layers.get(binding.var)
        if layer is not None:
            call = binding.value
            data = self._input(layer.data) if layer.data in self.ranges else call.args[0]
            weight = self._weight(call.args[1], layer.axis)
            value: Expression = with_operands(call, [data, weight])
        else:
            value = self.visit_expr(binding.value)
        if binding.var in self.ranges:
            value = self._rounded(self.builder_.emit(value), self.ranges[binding.var])
        is_output = (
            not isinstance(binding.var, relax.DataflowVar) and self.builder_.current_block_is_dataflow()
        )
        emit = self.builder_.emit_output if is_output else self.builder_.emit
        self.set_var_remap(binding.var, emit(value))

    def _input(self, variable: relax.Var) -> Expression:
        found = self.visit_expr(variable)
        if not found.same_as(variable):
            return found
        if variable not in self.inputs:
            self.inputs[variable] = self._rounded(variable, self.ranges[variable])
        return self.inputs[variable]

    def _weight(self, weight: Constant, axis: int) -> Expression:
        array = constant_array(weight)
        others = tuple(place for place in range(array.ndim) if place != axis)
        largest = np.abs(array).max(axis=others, keepdims=True).astype("float64")
        largest[largest == 0] = 1.0
        if self.config.weight_scale == "power2":
            largest = 2.0 ** np.ceil(np.log2(largest))
        high = symmetric_range(1.0, self.config.nbit_weight).high
        scales = (largest / high).astype("float32")
        integers = np.clip(np.rint(array / scales), -high, high)
        if self.config.do_simulation:
            return constant((integers * scales).astype("float32"))
        zero = constant(np.zeros(scales.size, "int8"))
        call = relax.op.dequantize(
            constant(integers.astype("int8")), constant(scales.reshape(-1)), zero, axis, "float32"
        )
        return self.builder_.emit(call)

    def _rounded(self, tensor: Expression, kept: Range) -> relax.Var:
        """A tensor as numbers that its integers stand for."""
        emit = self.builder_.emit
        scale, zero = constant(np.array(kept.scale, "float32")), constant(np.array(kept.zero_point, "int8"))
        is_whole = (kept.low, kept.high) == (-128, 127)
        if not self.config.do_simulation:
            if not is_whole:
                low, high = ((bound - kept.zero_point) * kept.scale for bound in (kept.low, kept.high))
                tensor = emit(relax.op.clip(tensor, low, high))
            integers = emit(relax.op.quantize(tensor, scale, zero, -1, "int8"))
            return emit(relax.op.dequantize(integers, scale, zero, -1, "float32"))
        steps = emit(relax.op.round(emit(relax.op.divide(tensor, scale))))
        held = emit(relax.op.clip(steps, kept.low - kept.zero_point, kept.high - kept.zero_point))
        return emit(relax.op.multiply(held, scale))
