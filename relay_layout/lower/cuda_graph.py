"""A whole network as one CUDA graph."""

import tvm
from tvm import relax

from relay_layout.ir import function_attributes


def capture(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Let "main" launch its kernels as one graph, which its first call records.

    Every tensor that "main" takes must be at the same address in each call: inputs, weights, and the memory
    that :func:`relay_layout.lower.workspace.lift_workspace` made parameters.
    """
    del context
    # Results must be parameters by their own names: an alias would be bound inside the graph.
    module = relax.transform.CanonicalizeBindings()(module)
    main = module["main"]
    # TVM takes parameters from the number of inputs on for what never moves.
    updated = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    attributes = {**function_attributes(main), "num_input": 0}
    updated.update_func(module.get_global_var("main"), main.with_attrs(attributes))
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        return relax.transform.RewriteCUDAGraph()(updated)


__all__ = ["capture"]
