"""Fusion of a depthwise convolution with the pointwise one that reads it, where one kernel is faster."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.graph.uses import call_read_once, count_uses, variables_read
from relay_layout.ir import bindings_of, calls_global, with_values
from relay_layout.lower.fusion.patterns import PRIMITIVE
from topi_ext.chooser import KernelChooser
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.schedule.blocks import carried_workload
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import SeparableWorkload, separable
from topi_ext.workloads.text import operator_of

HANDED_BYTES_PER_US = 100_000
"""Measured: reading 300 kB that another thread has just written takes 3 to 40 microseconds longer than
reading them a second time."""

FusionDecision = Callable[[SeparableWorkload], bool]
"""Decides whether one kernel computes both convolutions of a workload."""


def if_faster(kernels: KernelChooser) -> FusionDecision:
    """Decides by time: the fused kernel against both kernels, by records or estimates of ``kernels``.

    The times of single kernels leave out what passing the first result through memory costs; it is added.
    """
    threads = kernels.processor.threads

    def decide(workload: SeparableWorkload) -> bool:
        first, second = workload.depthwise, workload.pointwise
        apart = kernels.choose(first).microseconds + kernels.choose(second).microseconds
        if threads > 1:
            handed = first.planes * first.out_channels * int(first.out_height) * int(first.out_width)
            apart += handed * DTYPE_BYTES[first.out_dtype] / HANDED_BYTES_PER_US
        return kernels.choose(workload).microseconds < apart

    return decide


def join_separable(module: tvm.IRModule, decide: FusionDecision) -> tvm.IRModule:
    """Make one group of two in "main" where ``decide`` says so.

    Expects groups of functions that are not fused yet: the first one is a depthwise convolution with what
    follows it element by element, and only the second one, a pointwise convolution, reads its result.
    """
    return _Joining(module, decide).run()


class _Joining:
    def __init__(self, module: tvm.IRModule, decide: FusionDecision) -> None:
        self.module = module
        self.decide = decide
        self.builder = relax.BlockBuilder(module)
        self.workloads: dict[str, ConvolutionWorkload | None] = {}

    def run(self) -> tvm.IRModule:
        main = self.module["main"]
        bindings = bindings_of(main)
        uses = count_uses(main)
        made = {binding.var: binding.value for binding in bindings}
        joined: dict[Any, relax.Call] = {}
        for binding in bindings:
            call = self._joined(binding.value, made, uses)
            if call is not None:
                joined[binding.var] = call
        if not joined:
            return self.module
        updated = self.builder.get()
        updated.update_func(self.module.get_global_var("main"), with_values(main, joined))
        return relax.transform.DeadCodeElimination()(updated)

    def _joined(self, second: Any, made: dict[Any, Any], uses: dict[str, int]) -> relax.Call | None:
        """The call of both groups in the place of ``second``; None where that is no such pair."""
        pointwise = self._workload(second)
        if pointwise is None or not pointwise.is_pointwise:
            return None
        data = self._data_argument(second)
        first = call_read_once(data, uses, made.get)
        depthwise = self._workload(first)
        if first is None or depthwise is None:
            return None
        both = separable(depthwise, pointwise)
        if both is None or not self.decide(both):
            return None
        return self._call_of_both(first, second, data)

    def _workload(self, call: Any) -> ConvolutionWorkload | None:
        """The 2-D convolution with static extents in the group that is called; None where there is none."""
        if not calls_global(call):
            return None
        name = str(call.op.name_hint)
        if name not in self.workloads:
            self.workloads[name] = self._found(self.module[call.op])
        return self.workloads[name]

    def _found(self, group: Any) -> ConvolutionWorkload | None:
        if not group.attrs or PRIMITIVE not in group.attrs:
            return None
        anchors = [text for text in map(self._annotation, _calls(group)) if text]
        if len(anchors) != 1 or operator_of(anchors[0]) != "conv2d":
            return None
        workload = convolution_from_json(anchors[0])
        return workload if workload.is_static and isinstance(workload.batch, int) else None

    def _annotation(self, call: relax.Call) -> str:
        function = self.module[call.args[0]]
        found = carried_workload(function) if isinstance(function, tirx.PrimFunc) else None
        return found[0] if found else ""

    def _data_argument(self, call: relax.Call) -> Any:
        """What the group's convolution alone reads, as its data, if that is an argument of ``call``."""
        group = self.module[call.op]
        anchor = next(inner for inner in _calls(group) if self._annotation(inner))
        data = anchor.args[1].fields[0]
        read = [variable for inner in _calls(group) for variable in variables_read(inner)]
        if sum(data.same_as(variable) for variable in read) != 1:
            return None
        given = dict(zip(group.params, call.args, strict=True))
        return given.get(data)

    def _call_of_both(self, first: relax.Call, second: relax.Call, data: Any) -> relax.Call:
        before, after = self.module[first.op], self.module[second.op]
        arguments = [*first.args, *(argument for argument in second.args if not argument.same_as(data))]
        parameters = [relax.Var(f"p{place}", argument.ty) for place, argument in enumerate(arguments)]
        builder = relax.BlockBuilder()
        with builder.function("both", parameters, attrs={PRIMITIVE: 1}, private=True):
            with builder.dataflow():
                made = _inlined(builder, before, parameters[: len(first.args)])
                rest = iter(parameters[len(first.args) :])
                given = [made if argument.same_as(data) else next(rest) for argument in second.args]
                result = builder.emit_output(_inlined(builder, after, given))
            builder.emit_func_output(result)
        name = f"{first.op.name_hint}_{second.op.name_hint}"
        return relax.Call(self.builder.add_func(builder.get()["both"], name), arguments, ty_args=None)


def _calls(group: relax.Function) -> list[relax.Call]:
    """The functions that a group calls."""
    values = [binding.value for binding in bindings_of(group)]
    return [
        value
        for value in values
        if isinstance(value, relax.Call) and value.args and isinstance(value.args[0], tvm.ir.GlobalVar)
    ]


def _inlined(builder: relax.BlockBuilder, group: relax.Function, arguments: list[Any]) -> Any:
    """The result of a group whose bindings are made anew."""
    known: dict[Any, Any] = dict(zip(group.params, arguments, strict=True))

    def renamed(variable: relax.Var) -> Any:
        return known.get(variable, variable)

    for binding in bindings_of(group):
        known[binding.var] = builder.emit(structural_map(binding.value, (relax.Var, renamed)))
    return known[group.body.body]
