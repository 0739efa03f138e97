"""``relay.transform``: Relay's passes, as passes over Relax modules.

Each is an ordinary TVM pass: ``tvm.transform.Sequential`` and ``PassContext`` take them. Modules are typed
and in canonical form from the start, so some passes that Relay needed have little to do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_layout.candidates import Rules
from relay_layout.errors import LayoutError
from relay_layout.fold import fold_constants
from relay_layout.graph import Graph, Node
from relay_layout.layout import Layout
from relay_layout.relay.callbacks import CONVERT, LayoutConfig
from relay_layout.relay.conventions import CONVERTED, check_entry
from relay_layout.relay.layout_rules import altering_rules, converting_rules
from relay_layout.relay.operators import TABLE, relay_form
from relay_layout.relay.passes.explicit_padding import fold_explicit_padding
from relay_layout.relay.passes.inference import simplify_inference
from relay_layout.relay.passes.scale_axis import fold_scale_axis
from relay_layout.targets import resolve_target
from relay_layout.transform import ConversionReport, LayoutRequest, convert_layout

_log = logging.getLogger("relay_layout")

_COUNTED = ("nn.conv2d", "nn.deformable_conv2d")
"""Operators that ``skip_layers`` counts."""


def InferType() -> tvm.transform.Pass:
    """Types of every binding. Relax modules have them; this only brings a module into normal form."""
    return relax.transform.Normalize()


def CanonicalizeOps() -> tvm.transform.Pass:
    """Normal form. Operators that Relay canonicalises, such as nn.bias_add, are imported in that form."""
    return relax.transform.Normalize()


def FoldConstant() -> tvm.transform.Pass:
    """Operators on constants alone become constants."""

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        del context
        module = relax.transform.CanonicalizeBindings()(fold_constants(relax.transform.Normalize()(module)))
        return tvm.transform.Sequential(
            [relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()]
        )(module)

    return tvm.transform.module_pass(run, opt_level=0, name="relay_layout.relay.FoldConstant")


def SimplifyInference() -> tvm.transform.Pass:
    """Batch norm as multiply and add, dropout as nothing."""
    return _pass(simplify_inference, "SimplifyInference")


def FoldScaleAxis() -> tvm.transform.Pass:
    """Multiplications along the channels before and after convolutions, taken into their weights."""
    return _pass(fold_scale_axis, "FoldScaleAxis")


def FoldExplicitPadding() -> tvm.transform.Pass:
    """nn.pad before a convolution or pooling, with the value that this pads with itself, taken into it."""
    return _pass(fold_explicit_padding, "FoldExplicitPadding")


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> tvm.transform.Pass:
    """Functions that the entry functions (main, unless others are named) do not reach are dropped."""
    return relax.transform.DeadCodeElimination(list(entry_functions or ["main"]))


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> tvm.transform.Pass:
    """Bindings that nothing uses are dropped; Relay's options have no meaning in Relax."""
    del inline_once, ignore_impurity
    return relax.transform.DeadCodeElimination()


def EliminateCommonSubexpr(fskip: Any = None) -> tvm.transform.Pass:
    """Equal calls become one. ValueError for ``fskip``, which cannot be honoured."""
    if fskip is not None:
        raise ValueError("EliminateCommonSubexpr: fskip is not supported")
    return relax.transform.EliminateCommonSubexpr()


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> tvm.transform.Pass:
    """Convert operators to the layouts of ``{operator: [data, kernel]}`` and the graph around them to match.

    Pooling, resizing and RoI operators take one entry. ``"default"`` is the usual kernel layout for the
    data's. Callbacks registered with ``register_convert_op_layout`` are asked; everything without an entry
    follows at the least cost of transforms. LayoutError for entries that no operator can take.

    Where Relay was wrong, this is right: a convolution whose groups do not fill a block takes a smaller
    block or keeps its layout (Relay computed wrong numbers), and so does one of 1000 channels in NCHW16c
    (Relay changed the function's type).
    """
    checked = _checked(desired_layouts)

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        del context
        return convert_layouts(module, checked)[0]

    return tvm.transform.module_pass(run, opt_level=3, name="ConvertLayout")


def AlterOpLayout() -> tvm.transform.Pass:
    """Layouts that are best for the current target, and the callbacks of ``register_alter_op_layout``.

    The target is that of ``with tvm.target.Target(...)``; without one, this machine.
    """

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        del context
        return alter_layouts(module)[0]

    return tvm.transform.module_pass(run, opt_level=3, name="AlterOpLayout")


def convert_layouts(
    module: tvm.IRModule, desired_layouts: Mapping[str, Sequence[str]]
) -> tuple[tvm.IRModule, ConversionReport]:
    """What :func:`ConvertLayout` does, with the report of it."""
    desired = _checked(desired_layouts)
    config = LayoutConfig.current()
    by_callback = {name for name in desired if CONVERT.get(name) is not None}
    native = {
        name: layouts for name, layouts in desired.items() if name == "nn.conv2d" and name not in by_callback
    }

    def rules(graph: Graph) -> Rules:
        skipped = _skipped(graph, config.skip_layers)
        _warn_of_missing(graph, desired)
        return converting_rules(graph, desired, lambda node: node in skipped)

    request = LayoutRequest(native, skip_layers=_native_skips(module, config.skip_layers))
    return convert_layout(module, request, resolve_target("native"), rules=rules)


def alter_layouts(module: tvm.IRModule) -> tuple[tvm.IRModule, ConversionReport]:
    """What :func:`AlterOpLayout` does, with the report of it."""
    config = LayoutConfig.current()
    current = tvm.target.Target.current(allow_none=True)

    def rules(graph: Graph) -> Rules:
        skipped = _skipped(graph, config.skip_layers)
        return altering_rules(graph, lambda node: node in skipped)

    request = LayoutRequest(None, skip_layers=_native_skips(module, config.skip_layers))
    return convert_layout(module, request, resolve_target(current or "native"), rules=rules)


def _checked(desired_layouts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    checked: dict[str, list[str]] = {}
    for name, layouts in desired_layouts.items():
        if name not in TABLE:
            raise LayoutError(f"desired layouts of '{name}': Relay has no such operator")
        if name not in CONVERTED and CONVERT.get(name) is None:
            raise LayoutError(
                f"desired layouts of {name}: nothing converts this operator; register a callback with "
                f"relay.op.register_convert_op_layout, or leave it to follow its neighbours"
            )
        if isinstance(layouts, str) or not layouts:
            raise LayoutError(f"desired layouts of {name}: a list of layouts is needed, not {layouts!r}")
        checked[name] = [str(layout) for layout in layouts]
        if CONVERT.get(name) is None:
            check_entry(name, checked[name])
        for layout in checked[name]:
            if layout != "default":
                Layout.parse(layout)
    return checked


def _skipped(graph: Graph, positions: frozenset[int]) -> set[Node]:
    counted = [node for node in graph.nodes if _relay_name(node) in _COUNTED]
    return {node for position, node in enumerate(counted) if position in positions}


def _native_skips(module: tvm.IRModule, positions: frozenset[int]) -> frozenset[int]:
    """Positions among the engine's convolutions of the ones that Relay's count skips."""
    from relay_layout.graph import build_graph
    from relay_layout.targets import CONVOLUTION_AXES

    if not positions:
        return frozenset()
    graph = build_graph(relax.transform.Normalize()(module)["main"])
    skipped = _skipped(graph, positions)
    convolutions = [node for node in graph.nodes if node.operator in CONVOLUTION_AXES]
    return frozenset(place for place, node in enumerate(convolutions) if node in skipped)


def _relay_name(node: Node) -> str:
    form = relay_form(node.expression) if node.operator else None
    return form[0].name if form is not None else ""


def _warn_of_missing(graph: Graph, desired: Mapping[str, Sequence[str]]) -> None:
    present = {_relay_name(node) for node in graph.nodes}
    for name in sorted((present & set(CONVERTED)) - set(desired)):
        if CONVERT.get(name) is not None or "conv" in name:
            _log.warning("desired layouts name nothing for %s; it follows its neighbours", name)


def _pass(run: Any, name: str) -> tvm.transform.Pass:
    return tvm.transform.module_pass(
        lambda module, context: run(module), opt_level=0, name=f"relay_layout.relay.{name}"
    )


__all__ = [
    "AlterOpLayout",
    "CanonicalizeOps",
    "ConvertLayout",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "InferType",
    "LayoutConfig",
    "RemoveUnusedFunctions",
    "SimplifyInference",
]
