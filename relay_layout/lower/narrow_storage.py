"""Tensors between kernels as float16 or bfloat16, while kernels compute in float32."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm_ffi import structural_map

from relay_layout.ir import bindings_of, fields_of, operator_name, with_body, with_main, with_operands
from relay_layout.lower.fusion.function_calls import called_attributes, is_function_call
from topi_ext.codegen.bfloat16 import BITS, rounded, widened, without_detour
from topi_ext.cuda.compute.implicit_gemm import ROWS
from topi_ext.ir import holds, nodes_of
from topi_ext.schedule.blocks import child_blocks, is_reduction, open_schedule
from topi_ext.schedule.cpu.product import is_product

KEEPS_DTYPE = "relay_layout.keeps_dtype"
"""Attribute of functions whose result stays float32: sums that are not finished."""

KEEPS_OPERANDS = "relay_layout.keeps_operands"
"""Attribute of functions: the places of operands that stay float32, such as coordinates of pixels."""

NARROWED = "relay_layout.narrowed"
"""Attribute of functions of narrow tensors: the name of the same function of float32."""

WIDE = "float32"

_VIEWS = ("reshape",)


def narrow_intermediates(module: tvm.IRModule, narrow: str) -> tvm.IRModule:
    """Store every float32 tensor that one function of "main" hands to another as ``narrow``.

    That is "float16", "uint16" for the bits of bfloat16 (:mod:`topi_ext.codegen.bfloat16`), or "float32",
    which changes nothing. Inputs, weights and results of "main" stay as they are, and so does what an
    operator that is no function reads. Expects ``call_tir`` of fused functions that are not scheduled; sums
    within a function stay float32.
    """
    return module if narrow == WIDE else _Narrowing(module, narrow).run()


class _Narrowing:
    def __init__(self, module: tvm.IRModule, narrow: str) -> None:
        self.module = module
        self.narrow = narrow
        self.builder = relax.BlockBuilder(module)
        self.replaced: dict[Any, relax.Var] = {}
        self.functions: dict[Any, Any] = {}
        self._stated: dict[Any, bool] = {}

    def run(self) -> tvm.IRModule:
        main = self.module["main"]
        chosen = self._chosen(main)
        blocks = []
        for block in main.body.blocks:
            bindings = [self._binding(binding, chosen) for binding in block.bindings]
            blocks.append(type(block)(bindings))
        function = with_body(main, relax.SeqExpr(blocks, main.body.body))
        return relax.transform.DeadCodeElimination()(with_main(self.builder.get(), function))

    def _chosen(self, main: relax.Function) -> set[Any]:
        """The variables that become narrow: made by a function or as a view, and only read by such."""
        made, kept = set(), _variables(main.body.body) | set(main.params)
        bindings = bindings_of(main)
        for binding in bindings:
            name, value = operator_name(binding.value), binding.value
            is_call = is_function_call(value)
            if _is_wide(binding.var) and (name in _VIEWS or self._may_narrow(value)):
                made.add(binding.var)
            else:
                kept |= {binding.var}
            if name in _VIEWS and not isinstance(value.args[0], relax.Var):
                # A view of a constant, which stays as it is.
                kept |= {binding.var}
            if is_call and not self._is_stated(value):
                kept |= self._operands_kept(value)
            elif name not in _VIEWS:
                kept |= _variables(value)
        changed = True
        while changed:
            changed = False
            for binding in bindings:
                if operator_name(binding.value) in _VIEWS:
                    pair = {binding.var, binding.value.args[0]}
                    if pair & kept and not pair <= kept:
                        kept |= pair
                        changed = True
        return {variable for variable in made if variable not in kept}

    def _may_narrow(self, value: Any) -> bool:
        if not is_function_call(value):
            return False
        return KEEPS_DTYPE not in called_attributes(self.module, value) and not self._is_stated(value)

    def _operands_kept(self, call: relax.Call) -> set[Any]:
        places = called_attributes(self.module, call).get(KEEPS_OPERANDS, ())
        return set().union(*(_variables(call.args[1][int(place)]) for place in places))

    def _is_stated(self, call: relax.Call) -> bool:
        """Whether statements compute it, such as a choice among boxes, whose numbers may be pixels."""
        function = call.args[0]
        if function not in self._stated:
            blocks = nodes_of(self.module[function].body, SBlock)
            self._stated[function] = not all(block.writes or block.name_hint == "root" for block in blocks)
        return self._stated[function]

    def _binding(self, binding: relax.Binding, chosen: set[Any]) -> relax.Binding:
        variable, value = binding.var, binding.value
        is_view = operator_name(value) in _VIEWS
        if not is_function_call(value) and not is_view:
            return binding
        if not is_view:
            value = self._call(value, variable in chosen)
        else:
            arguments = [self.replaced.get(argument, argument) for argument in value.args]
            value = with_operands(value, arguments)
        if variable not in chosen:
            return relax.VarBinding(variable, value)
        new = type(variable)(variable.name, relax.TensorType(variable.ty.shape, self.narrow))
        self.replaced[variable] = new
        if is_view:
            value = relax.BlockBuilder().normalize(value)
        return relax.VarBinding(new, value)

    def _call(self, call: relax.Call, narrow_result: bool) -> relax.Call:
        function, arguments = call.args[0], list(call.args[1].fields)
        mask = [argument in self.replaced for argument in arguments]
        (result,) = call.ty_args
        if not narrow_result and not any(mask):
            return call
        outputs = len(fields_of(result))
        kind = relax.TensorType(result.shape, self.narrow) if narrow_result else result
        key = (function, *mask, narrow_result)
        if key not in self.functions:
            narrowed = _narrowed(self.module[function], [*mask, *[narrow_result] * outputs], self.narrow)
            named = narrowed.with_attr(NARROWED, str(function.name_hint))
            self.functions[key] = self.builder.add_func(named, f"{function.name_hint}_half")
        fields = relax.Tuple([self.replaced.get(argument, argument) for argument in arguments])
        return relax.Call(call.op, [self.functions[key], fields, *call.args[2:]], call.attrs, [kind])


def _narrowed(func: tirx.PrimFunc, mask: Sequence[bool], dtype: str) -> tirx.PrimFunc:
    """The function with those of its parameters as ``dtype``; a sum that is a result is summed apart from
    it.
    """
    sch = open_schedule(func)
    changed = [buffer for buffer, narrow in zip(func.params, mask, strict=True) if narrow]
    _sums_apart(sch, changed)
    _read_directly(sch)
    if dtype == BITS:
        _operands_apart(sch, changed)
    func = sch.mod["main"]
    buffers = {}
    for old, narrow in zip(func.params, mask, strict=True):
        if narrow and str(old.dtype) == WIDE:
            buffers[old] = tirx.decl_buffer(old.shape, dtype, old.name)
    new = list(buffers.values())

    def load(node: TensorLoad) -> Any:
        if not holds(new, node.source):
            return node
        loaded = tirx.BufferLoad(node.source, list(node.indices))
        return widened(loaded) if dtype == BITS else tirx.Cast(WIDE, loaded)

    def store(node: tirx.BufferStore) -> Any:
        if not holds(new, node.buffer):
            return node
        value = rounded(node.value) if dtype == BITS else _without_detour(tirx.Cast(dtype, node.value))
        return tirx.BufferStore(node.buffer, value, list(node.indices))

    body = structural_map(
        func.body,
        [
            (TensorLoad, load),
            (tirx.BufferStore, store),
            (tirx.Cast, _without_detour),
            (tvm.ir.Call, without_detour),
            (tirx.Var, lambda variable: buffers.get(variable, variable)),
        ],
    )
    parameters = [buffers.get(parameter, parameter) for parameter in func.params]
    return tirx.PrimFunc(parameters, body, func.ret_type, attrs=func.attrs)


def _without_detour(cast: tirx.Cast) -> Any:
    """The value itself where it is float16 that was made float32 and back."""
    inner = cast.value
    if (
        str(cast.ty.dtype) == "float16"
        and isinstance(inner, tirx.Cast)
        and str(inner.ty.dtype) == WIDE
        and str(inner.value.ty.dtype) == "float16"
    ):
        return inner.value
    return cast


def _read_directly(sch: Schedule) -> None:
    """Leave out the view of rows as an image, which would stay float32 and be rounded by its readers."""
    for block in child_blocks(sch):
        if sch.get(block).name_hint == ROWS:
            sch.compute_inline(block)


def _sums_apart(sch: Schedule, narrowed: Sequence[Any]) -> None:
    """Sum apart from a result that is narrow."""
    for block in child_blocks(sch):
        written = sch.get(block).writes[0].source
        if is_reduction(sch, block) and any(written.same_as(buffer) for buffer in narrowed):
            sch.cache_write(block, 0, "global")


def _operands_apart(sch: Schedule, narrowed: Sequence[Any]) -> None:
    """Copies of what is multiplied with another narrow tensor, each element of which is read many times."""
    for block in child_blocks(sch):
        if is_product(sch, block):
            for place, region in enumerate(sch.get(block).reads):
                if holds(narrowed, region.source):
                    sch.cache_read(block, place, "global")


def _is_wide(variable: relax.Var) -> bool:
    kind = variable.ty
    return isinstance(kind, relax.TensorType) and str(kind.dtype) == WIDE


def _variables(expression: Any) -> set[Any]:
    return set(nodes_of(expression, (relax.Var, relax.DataflowVar)))
