"""``relay.transform``: Relay's passes, as passes over Relax modules.

Each is an ordinary TVM pass: ``tvm.transform.Sequential`` and ``PassContext`` take them. Modules are typed
and in canonical form from the start, so some passes that Relay needed have little to do.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.layout_request import LayoutRequest
from relay_layout.relay.callbacks import LayoutConfig
from relay_layout.relay.callbacks.conventions import check_desired
from relay_layout.relay.missing import refuser
from relay_layout.relay.passes.batch import change_batch
from relay_layout.relay.passes.casts import canonicalize_casts
from relay_layout.relay.passes.divisions import divisions_to_products
from relay_layout.relay.passes.explicit_padding import fold_explicit_padding
from relay_layout.relay.passes.folding import folded, folded_with_quantized
from relay_layout.relay.passes.function_pass import function_pass
from relay_layout.relay.passes.inference import simplify_inference
from relay_layout.relay.passes.joining import (
    Concatenated,
    Joining,
    Stacked,
    batch_matmul,
    convolution,
    dense,
    dense_of_matrices,
)
from relay_layout.relay.passes.legalizing import fast_math, legalizing
from relay_layout.relay.passes.mixed_precision import to_mixed_precision
from relay_layout.relay.passes.parallel_calls import combine_parallel
from relay_layout.relay.passes.scale_axis import fold_scale_axis
from relay_layout.relay.passes.views import merge_views
from relay_layout.relay.registries.legalization import LEGALIZATIONS
from relay_layout.relay.registries.mixed_precision import DTYPES
from relay_layout.relay.transform import mixed_precision
from relay_layout.relay.transform.normal_forms import (
    AnnotateSpans,
    CanonicalizeOps,
    Defunctionalization,
    DefuseOps,
    EtaExpand,
    InferType,
    Inline,
    LambdaLift,
    ToANormalForm,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
)
from relay_layout.relay.ty import dtype_text
from relay_layout.rewrite.branches_inside import each_branch
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import resolve_target
from relay_layout.verify import verify_module

PassContext = tvm.transform.PassContext
Sequential = tvm.transform.Sequential
"""Both are TVM's; Relay had them here first."""

build_config = PassContext
"""What Relay called it before version 0.7."""

__getattr__ = refuser(__name__)


def FoldConstant(fold_qnn: bool = False) -> tvm.transform.Pass:
    """Operators on constants alone become constants, with ``fold_qnn`` those on quantized ones as well."""
    return _pass(folded_with_quantized if fold_qnn else folded, "relay_layout.relay.FoldConstant")


def PartialEvaluate() -> tvm.transform.Pass:
    """What is computed of constants alone: functions that are called are part of main from the start."""
    return FoldConstant()


def SimplifyInference() -> tvm.transform.Pass:
    """Batch norm as multiply and add, dropout as nothing."""
    return _pass(simplify_inference, "relay_layout.relay.SimplifyInference")


def FoldScaleAxis() -> tvm.transform.Pass:
    """Multiplications along the channels before and after convolutions, taken into their weights."""
    return _pass(fold_scale_axis, "relay_layout.relay.FoldScaleAxis")


def ForwardFoldScaleAxis() -> tvm.transform.Pass:
    """Multiplications along the channels before convolutions, taken into their weights."""
    return _pass(partial(fold_scale_axis, after=False), "relay_layout.relay.ForwardFoldScaleAxis")


def BackwardFoldScaleAxis() -> tvm.transform.Pass:
    """Multiplications along the channels after convolutions, taken into their weights."""
    return _pass(partial(fold_scale_axis, before=False), "relay_layout.relay.BackwardFoldScaleAxis")


def FoldExplicitPadding() -> tvm.transform.Pass:
    """nn.pad before a convolution or pooling, with the value that this pads with itself, taken into it."""
    return _pass(fold_explicit_padding, "relay_layout.relay.FoldExplicitPadding")


def DivToMul() -> tvm.transform.Pass:
    """Divisions of floats by constants as products."""
    return _pass(divisions_to_products, "relay_layout.relay.DivToMul")


def CanonicalizeCast() -> tvm.transform.Pass:
    """Casts to a wider dtype that several elementwise operators read, once for each of them."""
    return _pass(canonicalize_casts, "relay_layout.relay.CanonicalizeCast", opt_level=3)


def ChangeBatch(data: Mapping[Any, int], batch_size: int = 16) -> tvm.transform.Pass:
    """Inputs with another batch: ``data`` has the axis of each, by parameters of main (or their names).

    ModelError, when it runs, for an input that is not there, an axis that it lacks, and where the network has
    the batch elsewhere, such as in the shape of a reshape.
    """
    return _pass(partial(change_batch, axes=data, batch_size=batch_size), "ChangeBatch")


def FastMath() -> tvm.transform.Pass:
    """exp, tanh, erf and softmax of float32 as polynomials, as Relay approximated them."""
    return _pass(fast_math, "relay_layout.relay.FastMath", opt_level=4)


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> tvm.transform.Pass:
    """What callbacks of ``relay.op.register_legalize`` put in the place of operators.

    ValueError for the name of an attribute that has no callbacks here.
    """
    registry = LEGALIZATIONS.get(legalize_map_attr_name)
    if registry is None:
        raise ValueError(f"Legalize: '{legalize_map_attr_name}' is none of {', '.join(LEGALIZATIONS)}")
    return legalizing(registry, "Legalize")


def CombineParallelConv2D(min_num_branches: int = 3) -> tvm.transform.Pass:
    """Convolutions of one tensor that differ in output channels alone, and elementwise operators behind
    them, as one of all channels, where there are so many.
    """
    return _combining(Concatenated(convolution), min_num_branches, "CombineParallelConv2d")


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> tvm.transform.Pass:
    """nn.dense of one tensor, and elementwise operators behind them, as one, where there are so many.

    That is a product of batches of weights of one shape, or without ``to_batch`` one of all units.
    """
    joining = Stacked(dense_of_matrices) if to_batch else Concatenated(dense)
    return _combining(joining, min_num_branches, "CombineParallelDense")


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> tvm.transform.Pass:
    """nn.batch_matmul of one tensor, and elementwise operators behind them, as one of all columns."""
    return _combining(Concatenated(batch_matmul), min_num_branches, "CombineParallelBatchMatmul")


def SimplifyExpr() -> tvm.transform.Pass:
    """What :func:`relay.build` simplifies before it chooses layouts, done here already.

    Operators that Relax lacks stay as they are, so that the module can still be printed as Relay. Transposes
    that follow one another become one or none, which otherwise the choice of layouts sees to, and so do
    reshapes.
    """

    def simplified(module: tvm.IRModule) -> tvm.IRModule:
        return merge_views(canonicalize(module, keep_carried=True))

    return _pass(simplified, "relay_layout.relay.SimplifyExpr")


def DynamicToStatic() -> tvm.transform.Pass:
    """Shapes that are computed of constants become numbers; importers have done what else there is to do."""
    return FoldConstant()


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> tvm.transform.Pass:
    """Functions that the entry functions (main, unless others are named) do not reach are dropped."""
    return relax.transform.DeadCodeElimination(list(entry_functions or ["main"]))


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> tvm.transform.Pass:
    """Bindings that nothing uses are dropped; Relay's options have no meaning in Relax."""
    return relax.transform.DeadCodeElimination()


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> tvm.transform.Pass:
    """Nothing: operators between ``qnn.dequantize`` and ``qnn.quantize`` are computed in integers by
    :func:`relay.build`, as far as there are such, and in floats otherwise, whatever the options.
    """
    return relax.transform.Normalize()


def FuseOps(fuse_opt_level: int = -1) -> tvm.transform.Pass:
    """Nothing, of which it warns: :func:`relay.build` fuses by itself, whatever the level."""
    warnings.warn(
        "FuseOps leaves modules as they are: relay.build fuses by itself",
        stacklevel=2,
    )
    return relax.transform.Normalize()


def EliminateCommonSubexpr(fskip: Any = None) -> tvm.transform.Pass:
    """Equal calls become one. ValueError for ``fskip``, which cannot be honoured."""
    if fskip is not None:
        raise ValueError("EliminateCommonSubexpr: fskip is not supported")

    def shared(module: tvm.IRModule) -> tvm.IRModule:
        # TVM's pass leaves second names for what became one.
        return relax.transform.CanonicalizeBindings()(relax.transform.EliminateCommonSubexpr()(module))

    return _pass(shared, "relay_layout.relay.EliminateCommonSubexpr", opt_level=3)


def ToMixedPrecision(
    mixed_precision_type: str = "float16", missing_op_mode: int = 1, *, keep_orig_output_dtype: bool = False
) -> tvm.transform.Pass:
    """Convolutions and products in ``mixed_precision_type``, and what reads nothing but their results.

    The categories are Relay's (``relay.transform.mixed_precision``), or what callbacks of
    ``relay.op.register_mixed_precision_conversion`` say. Inputs keep their types, and results where
    ``keep_orig_output_dtype``, in place of Relay's ``relay.ToMixedPrecision.keep_orig_output_dtype``.
    Operators without category follow their operands; ``missing_op_mode`` 0 refuses them, 1 warns, 2 does
    not. Processors without arithmetic in that precision convert where tensors enter and leave main alone.

    ModelError for a dtype that is no float, ValueError for another mode.
    """
    dtype = dtype_text(mixed_precision_type)
    if dtype not in DTYPES:
        raise ModelError(f"ToMixedPrecision: '{dtype}' is none of {', '.join(DTYPES)}")
    if missing_op_mode not in (0, 1, 2):
        raise ValueError(f"missing_op_mode is 0, 1 or 2, not {missing_op_mode!r}")

    def run(module: tvm.IRModule) -> tvm.IRModule:
        return to_mixed_precision(module, dtype, missing_op_mode, keep_output_dtype=keep_orig_output_dtype)

    return _pass(run, "ToMixedPrecision")


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> tvm.transform.Pass:
    """Convert operators to the layouts of ``{operator: [data, kernel]}`` and the graph around them to match.

    Pooling, resizing and RoI operators take one entry. ``"default"`` is the usual kernel layout for the
    data's. Callbacks registered with ``register_convert_op_layout`` are asked; everything without an entry
    follows at the least cost of transforms. LayoutError for entries that no operator can take.

    Where Relay was wrong, this is right: a convolution whose groups do not fill a block takes a smaller
    block or keeps its layout (Relay computed wrong numbers), and so does one of 1000 channels in NCHW16c
    (Relay changed the function's type).
    """
    checked = check_desired(desired_layouts)

    def run(module: tvm.IRModule) -> tvm.IRModule:
        return each_branch(module, lambda apart: convert_layouts(apart, checked)[0])

    return _pass(run, "ConvertLayout", opt_level=3)


def AlterOpLayout() -> tvm.transform.Pass:
    """Layouts that are best for the current target, and the callbacks of ``register_alter_op_layout``.

    The target is that of ``with tvm.target.Target(...)``; without one, this machine.
    """

    def run(module: tvm.IRModule) -> tvm.IRModule:
        return each_branch(module, lambda apart: alter_layouts(apart)[0])

    return _pass(run, "AlterOpLayout", opt_level=3)


def convert_layouts(
    module: tvm.IRModule, desired_layouts: Mapping[str, Sequence[str]]
) -> tuple[tvm.IRModule, ConversionReport]:
    """What :func:`ConvertLayout` does, with the report of it."""
    skipped = LayoutConfig.current().skip_layers
    request = LayoutRequest(check_desired(desired_layouts), skip_layers=skipped, for_any_module=True)
    return convert_layout(module, request, resolve_target("native"))


def alter_layouts(module: tvm.IRModule) -> tuple[tvm.IRModule, ConversionReport]:
    """What :func:`AlterOpLayout` does, with the report of it."""
    current = tvm.target.Target.current(allow_none=True)
    skipped = LayoutConfig.current().skip_layers
    request = LayoutRequest(skip_layers=skipped, for_any_module=True, alter=True)
    return convert_layout(module, request, resolve_target(current or "native"))


def _combining(joining: Joining, least: int, name: str) -> tvm.transform.Pass:
    return _pass(partial(combine_parallel, joining=joining, least=least), name, opt_level=4)


def _pass(
    run: Callable[[tvm.IRModule], tvm.IRModule], name: str, *, opt_level: int = 0
) -> tvm.transform.Pass:
    """A pass whose result names layouts that fit its tensors; VerificationError if it does not."""

    def checked(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        changed = run(module)
        verify_module(changed)
        return changed

    return tvm.transform.module_pass(checked, opt_level=opt_level, name=name)


__all__ = [
    "AlterOpLayout",
    "AnnotateSpans",
    "BackwardFoldScaleAxis",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "ChangeBatch",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ConvertLayout",
    "DeadCodeElimination",
    "Defunctionalization",
    "DefuseOps",
    "DivToMul",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FakeQuantizationToInteger",
    "FastMath",
    "FoldConstant",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FuseOps",
    "InferType",
    "Inline",
    "LambdaLift",
    "LayoutConfig",
    "Legalize",
    "PartialEvaluate",
    "PassContext",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "ToMixedPrecision",
    "build_config",
    "function_pass",
    "mixed_precision",
]
