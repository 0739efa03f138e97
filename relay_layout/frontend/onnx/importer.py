"""The walk over an ONNX graph that builds a Relax function."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.body_building import Bodies
from relay_layout.frontend.expressions import Expressions
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.identifiers import identifier
from relay_layout.frontend.identity import ByIdentity
from relay_layout.frontend.messages import reason
from relay_layout.frontend.onnx import fallback
from relay_layout.frontend.onnx.agreement import agreeing
from relay_layout.frontend.onnx.arithmetic import arithmetic, tested_extent
from relay_layout.frontend.onnx.assumptions import Assumption, Assumptions
from relay_layout.frontend.onnx.folding import fold
from relay_layout.frontend.onnx.graphs import OWN_DOMAINS, dense, needed, place_of
from relay_layout.frontend.onnx.inlined import Surroundings
from relay_layout.frontend.onnx.limits import RowLimits
from relay_layout.frontend.onnx.narrow_types import NarrowTypes
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators import converter_of
from relay_layout.frontend.onnx.ratios import Ratios
from relay_layout.frontend.onnx.requirements import Requirements
from relay_layout.frontend.onnx.rounded_sizes import RoundedSizes
from relay_layout.frontend.onnx.signs import Signs
from relay_layout.frontend.onnx.subgraphs import SUBGRAPHS
from relay_layout.frontend.trips import WrittenOut
from relay_layout.frontend.values import Unsupported, Value, shape_of, tensors_of, written
from relay_layout.graph.border import CONDITIONS
from relay_layout.ir import Extent, as_extent, function_scope, is_one

if TYPE_CHECKING:
    import onnx


class Importer:
    """Converts nodes in the order of the graph, each once, and only those that the outputs need."""

    def __init__(self, label: str, opsets: Mapping[str, int], assumptions: Assumptions) -> None:
        self._label = label
        self._opsets = opsets
        self._assumptions = assumptions
        self._outputs: frozenset[str] = frozenset()
        self._limits = RowLimits((), {}, ())
        self._requirements = Requirements.none()
        self.builder = relax.BlockBuilder()
        self._expressions = Expressions(self.builder)
        self._counts = Counts(self.builder)
        self._signs = Signs()
        self._narrow_types = NarrowTypes()
        self._ratios = Ratios()
        self._rounded_sizes = RoundedSizes()
        # Conditions, each with the extent and the number of which it says whether they are equal.
        self._tested: ByIdentity[Value, tuple[Extent, int]] = ByIdentity()
        # Read once, so that what the body of a loop holds is the same constant in all its trips.
        self._attributes: ByIdentity[onnx.NodeProto, dict[str, Any]] = ByIdentity()
        self._bodies = Bodies(self.builder, self._counts)
        self._around = Surroundings(
            label, ChainMap(), self._run, self._counts, self._bodies, self._tested.get, WrittenOut(label)
        )

    def build(
        self,
        nodes: Sequence["onnx.NodeProto"],
        inputs: Mapping[str, Any],
        tensors: Mapping[str, Any],
        outputs: Sequence[str],
    ) -> Any:
        """A module with the function "main" from ``inputs``, Relax variables by name, to ``outputs``.

        ``tensors`` are the initializers. Raises :class:`.Assumption` where the graph has to be read again.
        """
        attributes = {"input_names": list(inputs), "output_names": list(outputs)}
        self._around.values.update(tensors)
        self._outputs = frozenset(outputs)
        self._requirements = Requirements(inputs, self._assumptions)
        self._limits = RowLimits(nodes, tensors, outputs)
        with function_scope(self.builder, "main", list(inputs.values()), attributes):
            with self.builder.dataflow():
                for name, variable in inputs.items():
                    self._around.values[name] = self._assumptions.fitting(self.builder, variable)
                self._run(needed(nodes, outputs))
                results = [self._result(name) for name in outputs]
            self.builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
        module = self._bodies.added_to(self.builder.finalize())
        if self._requirements.texts:
            main = module["main"].with_attr(CONDITIONS, list(self._requirements.texts))
            module.update_func(module.get_global_var("main"), main)
        return module

    def _run(self, protos: Iterable["onnx.NodeProto"]) -> None:
        for proto in protos:
            place = place_of(proto)
            try:
                self._convert(proto)
            except Unsupported as error:
                raise ModelError(f"{self._label}: {place} {error}") from None
            except (ModelError, Assumption):
                raise
            except Exception as error:
                raise ModelError(f"{self._label}: {place} cannot be imported: {reason(error)}") from None

    def _convert(self, proto: "onnx.NodeProto") -> None:
        inputs = tuple(self._around.values[name] if name else None for name in proto.input)
        node = Node(
            operator=proto.op_type,
            name=proto.name,
            opset=self._opsets.get("" if _in_default_domain(proto) else proto.domain, 1),
            inputs=inputs,
            outputs=tuple(proto.output),
            attributes=self._attributes_of(proto),
            builder=self.builder,
            expressions=self._expressions,
            counts=self._counts,
            signs=self._signs,
            limits=self._limits,
            narrow_types=self._narrow_types,
            requirements=self._requirements if self._around.is_certain else Requirements.none(),
        )
        results = self._results(proto, node)
        if any(proto.output[len(results) :]):
            raise Unsupported(
                f"has more than {len(results)} of its outputs in use, which is not supported: "
                "export the model without the others"
            )
        for name, value in zip(proto.output, results, strict=False):
            if name:
                self._around.values[name] = self._bound(name, value)
                self._check_shape(proto.domain, node, self._around.values[name])
        values = [self._around.values.get(name) if name else None for name in proto.output]
        self._signs.note(node.operator, inputs, values)
        self._narrow_types.note(node.operator, inputs, values)
        self._ratios.note(node, values[0])
        self._rounded_sizes.note(node, values[0])
        self._note_condition(node, values)
        if node.operator == "Concat" and isinstance(values[0], relax.Var):
            self._counts.parts[values[0]] = inputs
        if node.operator in _KEEPS_NUMBERS and isinstance(inputs[0], relax.Var) and _is_number(values[0]):
            self._counts.made_of(values[0], inputs[0])

    def _attributes_of(self, proto: "onnx.NodeProto") -> dict[str, Any]:
        if not self._around.is_inside:
            return _attributes(proto)
        return self._attributes.kept(proto, _attributes)

    def _results(self, proto: "onnx.NodeProto", node: Node) -> Sequence[Value]:
        if node.operator in SUBGRAPHS and _in_default_domain(proto):
            return SUBGRAPHS[node.operator](node, self._around)
        folded = _constant(node) if node.operator == "Constant" else fold(proto, node.inputs, self._opsets)
        if folded is not None:
            return folded
        result = self._ratios.integers(node)
        if result is NotImplemented:
            result = self._rounded_sizes.integers(node)
        if result is NotImplemented:
            result = self._ratios.steps(node)
        if result is NotImplemented:
            result = arithmetic(node)
        if result is NotImplemented:
            converter = converter_of(proto.domain, node.operator)
            node = self._ratios.with_sizes(node) if _in_default_domain(proto) else node
            node = agreeing(node) if _in_default_domain(proto) else node
            result = NotImplemented if converter is None else converter(node)
        if result is NotImplemented:
            result = fallback.convert(proto, node)
        return result if isinstance(result, list) else [result]

    def _bound(self, name: str, value: Value) -> Value:
        """An expression bound to a variable of that name; other values as they are."""
        if not isinstance(value, relax.Expr) or isinstance(value, relax.Var):
            return value
        is_output = name in self._outputs and not self._around.is_inside
        emit = self.builder.emit_output if is_output else self.builder.emit
        return self._counts.sized(emit(value, name_hint=identifier(name)), identifier(name))

    def _check_shape(self, domain: str, node: Node, value: Value) -> None:
        # TVM takes operands whose shapes may or may not fit, and then cannot compile the operator.
        known = not isinstance(value, relax.Var) or getattr(value.ty, "shape", ()) is not None
        if not known and converter_of(domain, node.operator) is not None:
            operands = [written(shape_of(tensor)) for value in node.inputs for tensor in tensors_of(value)]
            raise Unsupported(
                f"gives a result of unknown shape from {' and '.join(operands)}: "
                "give the model's inputs fixed shapes (--input-shape)"
            )

    def _result(self, name: str) -> Any:
        value = self._around.values[name]
        if isinstance(value, relax.Var) and not isinstance(value, relax.DataflowVar):
            return value
        try:
            value = self._expressions(value, name)
        except Unsupported:
            raise ModelError(
                f"{self._label}: output '{name}' is not a tensor, which is not supported: "
                "export the model with tensors as outputs"
            ) from None
        return self.builder.emit_output(value, name_hint=identifier(name))

    def _note_condition(self, node: Node, results: Sequence[Value]) -> None:
        if node.operator in ("Cast", "Identity"):
            tested = self._tested.get(node.inputs[0])
        else:
            tested = tested_extent(node)
        if tested is not None:
            self._tested[results[0]] = tested


_KEEPS_NUMBERS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose result is the number that they are given, where that is one."""


def _is_number(value: Value) -> bool:
    """Whether a value is computed at run time, and has one element."""
    extents = getattr(getattr(value, "ty", None), "shape", None)
    return isinstance(extents, relax.ShapeExpr) and all(is_one(as_extent(extent)) for extent in extents)


def _in_default_domain(proto: "onnx.NodeProto") -> bool:
    return proto.domain in OWN_DOMAINS


def _attributes(proto: "onnx.NodeProto") -> dict[str, Any]:
    """Attributes with text as str, numbers and lists of them, tensors as numpy arrays."""
    from onnx import AttributeProto, helper, numpy_helper

    result = {}
    for attribute in proto.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.STRING:
            value = value.decode("utf-8", errors="replace")
        elif attribute.type == AttributeProto.STRINGS:
            value = [text.decode("utf-8", errors="replace") for text in value]
        elif attribute.type == AttributeProto.TENSOR:
            value = numpy_helper.to_array(value)
        elif attribute.type == AttributeProto.SPARSE_TENSOR:
            value = dense(value)
        elif attribute.type == AttributeProto.FLOAT:
            value = _decimal(value)
        elif attribute.type == AttributeProto.FLOATS:
            value = [_decimal(number) for number in value]
        elif attribute.type == AttributeProto.INTS:
            value = list(value)
        result[attribute.name] = value
    return result


def _decimal(number: float) -> float:
    """The decimal number that a file's float32 stands for: 1e-05 rather than 9.9999997e-06."""
    return float(str(np.float32(number)))


def _constant(node: Node) -> list[Any]:
    """The value of a Constant node."""
    dtypes = dict.fromkeys(("value_float", "value_floats"), "float32")
    dtypes |= dict.fromkeys(("value_int", "value_ints"), "int64")
    for name, value in node.attributes.items():
        if name in ("value", "sparse_value") and value.dtype.kind not in "OSUc":
            return [value]
        if name in dtypes:
            return [np.array(value, dtype=dtypes[name])]
    raise Unsupported("holds strings or complex numbers, which is not supported: use a tensor of numbers")
