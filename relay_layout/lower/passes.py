"""The passes from operators to calls of the virtual machine, in their order."""

import tvm
from tvm import relax

from relay_layout.lower.as_pass import as_pass
from relay_layout.lower.dynamic_shapes.definitions import define_before_use
from relay_layout.lower.dynamic_shapes.function_extents import name_extents
from relay_layout.lower.dynamic_shapes.introduced_extents import prevent_fusion_of_new_extents
from relay_layout.lower.dynamic_shapes.shape_functions import lower_shapes
from relay_layout.lower.fusion.broadcasts import prevent_fusion_of_broadcasts
from relay_layout.lower.fusion.chains import limit_chain_length
from relay_layout.lower.fusion.checked_shapes import prevent_fusion_across_checks
from relay_layout.lower.fusion.elementwise import mark_elementwise
from relay_layout.lower.fusion.many_operands import prevent_fusion_of_many_operands
from relay_layout.lower.fusion.reshapes import rewrite_reshapes
from relay_layout.lower.fusion.scalar_order import merge_alike, order_scalars
from relay_layout.lower.fusion.separable import FusionDecision
from relay_layout.lower.lowering_for import lowering_for
from relay_layout.lower.memory.dynamic_storage import share_dynamic_storages
from relay_layout.lower.memory.in_place import compute_in_place
from relay_layout.lower.memory.shared_views import share_views
from relay_layout.lower.memory.uncalled_functions import drop_uncalled
from relay_layout.lower.memory.unfused_parts import prevent_fusion_of_parts
from relay_layout.lower.narrow_storage import narrow_intermediates
from relay_layout.targets import BuildTarget


def legalize_passes(target: BuildTarget) -> list[tvm.transform.Pass]:
    """Lower operators to loops, each in a function of its own."""
    return [
        *lowering_for(target).legalize_passes(),
        as_pass(order_scalars),
        as_pass(merge_alike),
        relax.transform.AnnotateTIROpPattern(),
        as_pass(mark_elementwise),
        as_pass(prevent_fusion_of_broadcasts),
        as_pass(prevent_fusion_of_new_extents),
        as_pass(prevent_fusion_across_checks),
        as_pass(prevent_fusion_of_parts),
        as_pass(prevent_fusion_of_many_operands),
        as_pass(limit_chain_length),
    ]


def fuse_passes(target: BuildTarget, join: FusionDecision | None = None) -> list[tvm.transform.Pass]:
    """Fuse functions with their elementwise neighbours; the first pass forms the groups.

    ``join`` decides which depthwise convolutions are fused with the pointwise convolution of their result; by
    default those for which that is faster.
    """
    groups = [
        relax.transform.FuseOps(),
        as_pass(define_before_use),
        *lowering_for(target).separable_passes(join),
    ]
    return [
        tvm.transform.Sequential(groups),
        relax.transform.FuseTIR(),
        as_pass(order_scalars),
        # Before scheduling: a reshape is recognised by its unscheduled loops, and then needs no function.
        as_pass(rewrite_reshapes),
        relax.transform.DeadCodeElimination(),
        as_pass(name_extents),
        as_pass(narrow_intermediates, target.storage_dtype),
    ]


def memory_passes(target: BuildTarget) -> list[tvm.transform.Pass]:
    """Plan and allocate memory."""
    return [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        *lowering_for(target).buffer_passes(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        as_pass(compute_in_place),
        as_pass(share_dynamic_storages),
        as_pass(drop_uncalled),
    ]


def machine_passes() -> list[tvm.transform.Pass]:
    """Lower functions whose memory is planned to code of the virtual machine."""
    return [
        as_pass(share_views),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        as_pass(lower_shapes),
        relax.transform.AttachGlobalSymbol(),
    ]
