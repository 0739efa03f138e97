"""A network as it was loaded, to inference form and to the layouts that a request and a target ask for."""

import tvm

from relay_layout.layout_request import LayoutRequest
from relay_layout.relay.callbacks.conventions import names_carried
from relay_layout.rewrite.branch_functions import with_branch_functions
from relay_layout.rewrite.branch_selection import with_selections
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import BuildTarget


def inference_form(module: tvm.IRModule, request: LayoutRequest, target: BuildTarget) -> tvm.IRModule:
    """The module as layouts are chosen for it, with carried operators if the request names any.

    Branches are choices between functions. These are selections for a target without branches, where they
    can be.
    """
    module = with_branch_functions(module)
    module = module if target.has_branches else with_selections(module)
    carried = names_carried(request.desired_layouts)
    return canonicalize(module, keep_carried=carried, widened=target.widened_dtypes)


def convert_network(
    module: tvm.IRModule, request: LayoutRequest, target: BuildTarget
) -> tuple[tvm.IRModule, ConversionReport]:
    """The module in inference form and in its layouts, before carried operators that the request names become
    what they stand for (:func:`.canonicalize`).
    """
    return convert_layout(inference_form(module, request, target), request, target)
