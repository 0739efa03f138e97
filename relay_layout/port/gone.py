"""What to do instead of names of TVM up to 0.18 that are gone."""

_ERROR = "TVM raises Python's own exceptions; catch RuntimeError, ValueError or TypeError"
_TARGETS = {
    '{"kind": "cuda", "arch": "sm_80"}': ["cuda"],
    '{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}': ["arm_cpu", "rasp", "riscv_cpu"],
    '{"kind": "opencl", "device": "mali"}': ["adreno", "bifrost", "intel_graphics", "mali"],
    '{"kind": "rocm", "mcpu": "gfx900"}': ["rocm"],
}
_TEMPLATES = (
    "kernels and their knobs are relay-layout's own; leave the line out, and take tasks from "
    "autotvm.task.extract_from_program"
)
_REWRITE = "Relay's expression rewriters are gone; rewrite the module with tvm.relax.PyExprMutator"
_TE_SCHEDULE = "TE schedules are gone from TVM; use tvm.s_tir.Schedule on te.create_prim_func"
_BYOC = "external code generators are gone; leave the line out, relay-layout has kernels of its own"

_EXPORT = "export the model to ONNX or TensorFlow Lite; use relay.frontend.from_onnx or from_tflite"
_TENSORFLOW = (
    "save the model with tf.lite.TFLiteConverter and use relay.frontend.from_tflite, with the file's names "
    "and images in NHWC"
)
_SPARSE = "sparse products are not there; leave the line out, and give nn.dense the dense matrix"
_SPARSE_OPERATORS = ("add", "conv2d", "transpose")
_KERNELS = (
    "kernels come from relay-layout; leave the line out, or tune them with relay-layout tune; an operator of "
    "your own takes relay.op.register_compute"
)
_RANDOM = "random numbers are not drawn while a network runs; give them as an input"
_GRADIENTS = "training is not there; take gradients in the framework that the model comes from"
_ONE_DEVICE = "a network runs on one device; leave the line out"
_FUSION = "what is fused follows from what an operator computes; leave the line out"

_ALGEBRAIC = "algebraic data types are not there; write the model without lists and trees"
_REFERENCES = "references are not there; let functions return what they change"
_TYPE_PARAMETERS = "type parameters are not there; give functions the types that they are called with"
_WINOGRAD = "convolutions choose Winograd's kernels by themselves; call the convolution itself"
_WITHOUT_ROW = {
    **dict.fromkeys(
        [
            "Clause",
            "Constructor",
            "GlobalTypeVar",
            "Match",
            "PatternConstructor",
            "PatternTuple",
            "PatternVar",
            "PatternWildcard",
            "TypeCall",
            "TypeData",
            "adt",
        ],
        _ALGEBRAIC,
    ),
    **dict.fromkeys(["RefCreate", "RefRead", "RefType", "RefWrite"], _REFERENCES),
    **dict.fromkeys(["TypeConstraint", "TypeKind", "TypeRelation", "TypeVar"], _TYPE_PARAMETERS),
    **dict.fromkeys(
        [
            "nn.contrib_conv2d_winograd_weight_transform",
            "nn.contrib_conv2d_winograd_without_weight_transform",
            "nn.contrib_conv3d_winograd_weight_transform",
            "nn.contrib_conv3d_winograd_without_weight_transform",
        ],
        _WINOGRAD,
    ),
    "image.resize": "it is relay.image.resize2d since TVM 0.8",
    "debug": "networks run compiled; let the tensor be a result as well, and print that",
    "nn.bitpack": "networks of bits are not there; quantize to int8",
    "sparse_fill_empty_rows": "sparse tensors are not there; make them dense with relay.sparse_to_dense",
    "vision.proposal": "region proposals are not there; write them with relay.vision.non_max_suppression",
}
"""Names within ``tvm.relay`` that stand in several modules, or for operators without a row here."""

GONE = {
    "tvm.TVMError": _ERROR,
    "tvm._ffi.base.TVMError": _ERROR,
    "tvm._ffi": "TVM's foreign functions moved to the package tvm_ffi",
    "tvm.auto_scheduler": (
        "kernels and how they are searched are relay-layout's own; leave the line out, and take tasks from "
        "auto_scheduler.extract_tasks"
    ),
    "tvm.autotvm": _TEMPLATES,
    "tvm.autotvm.feature": "features of kernels are relay-layout's own; leave the line out",
    "tvm.autotvm.task.Task": "tasks are told by name, workload, flop and config_space; leave it out",
    "tvm.autotvm.tophub": "the package has logs in TopHub's place; leave the line out",
    "tvm.contrib.debugger": "of the debug executor GraphModuleDebug and create are there, which time kernels",
    "tvm.runtime.profiler_vm": "use relay.debug_executor, whose profile() times kernels",
    "tvm.contrib.graph_executor.GraphModule.debug_get_output": (
        "networks run compiled; let the tensor be a result as well, and get that"
    ),
    "tvm.contrib.graph_executor.GraphModule.set_input_zero_copy": "set_input takes the array",
    "tvm.contrib.graph_executor.GraphModule.set_output_zero_copy": "get_output takes the array to write to",
    "tvm.contrib.graph_executor.GraphModule.share_params": (
        "weights are in the file that export_library wrote, which processes share"
    ),
    "tvm.contrib.pipeline_executor": "the pipeline executor is gone; build the parts one by one",
    "tvm.contrib.pipeline_executor_build": "the pipeline executor is gone; build the parts one by one",
    "tvm.contrib.relay_viz": (
        "the graph viewer is gone; print relay.astext(mod), or draw the model with "
        "relay-layout compile --report"
    ),
    "tvm.contrib.target": _BYOC,
    "tvm.contrib.torch": (
        "the bridge from PyTorch is gone; give the module to relay.frontend.from_pytorch and run what "
        "relay.build makes"
    ),
    "tvm.error.TVMError": _ERROR,
    "tvm.driver.tvmc": "tvmc is gone from TVM; use the command relay-layout compile",
    "tvm.driver.tvmc.compile": (
        "tvmc is gone from TVM; use relay_layout.compile(path, target=..., desired_layout=...) and its save()"
    ),
    "tvm.driver.tvmc.load": "tvmc is gone from TVM; relay_layout.compile(path) reads the model itself",
    "tvm.driver.tvmc.model.TVMCPackage": "tvmc is gone from TVM; use relay_layout.load(path)",
    "tvm.driver.tvmc.run": "tvmc is gone from TVM; use relay_layout.load(path).run(inputs)",
    "tvm.driver.tvmc.tune": (
        "tvmc is gone from TVM; use relay-layout tune, and relay_layout.compile with its tuning_records"
    ),
    "tvm.lower": "lowering alone is gone; look at the TensorIR of te.create_prim_func",
    "tvm.micro": "microTVM is gone from TVM; build for a target with tvm.target.Target",
    "tvm.parser": "only Relay's text is left: relay.fromtext",
    "tvm.relay.ExprFunctor": _REWRITE,
    "tvm.relay.ExprMutator": _REWRITE,
    "tvm.relay.ExprVisitor": _REWRITE,
    "tvm.relay.analysis": "relay-layout has no such question; ask it by relay.analysis.post_order_visit",
    "tvm.relay.analysis.sparse_conv2d": _SPARSE,
    "tvm.relay.analysis.sparse_dense": _SPARSE,
    "tvm.relay.annotation": _ONE_DEVICE,
    "tvm.relay.build_module": "use relay.build, create_executor and graph_executor.GraphModule",
    "tvm.relay.device_copy": _ONE_DEVICE,
    "tvm.relay.loops": "a function cannot call itself; loops are read from ONNX, TensorFlow Lite and PyTorch",
    "tvm.relay.nn.bitserial_conv2d": "networks of bits are not there; quantize to int8",
    "tvm.relay.nn.bitserial_dense": "networks of bits are not there; quantize to int8",
    "tvm.relay.Prelude": _ALGEBRAIC,
    **{
        f"tvm.relay.{module}{name}": why
        for name, why in _WITHOUT_ROW.items()
        for module in ("", "op.", "expr.", "ty.", "adt.")
    },
    "tvm.relay.TypeFunctor": _REWRITE,
    "tvm.relay.TypeMutator": _REWRITE,
    "tvm.relay.TypeVisitor": _REWRITE,
    "tvm.relay.backend": "there is one way to build and run: relay.build and graph_executor.GraphModule",
    "tvm.relay.collage": _BYOC,
    "tvm.relay.data_dep_optimization": _SPARSE,
    "tvm.relay.expr_functor": _REWRITE,
    "tvm.relay.frontend": _EXPORT,
    "tvm.relay.frontend.common": (
        "helpers of Relay's importers are not there; types are those of relay.transform.InferType"
    ),
    "tvm.relay.frontend.from_keras": _TENSORFLOW,
    "tvm.relay.frontend.from_tensorflow": _TENSORFLOW,
    "tvm.relay.frontend.from_tensorflow2": _TENSORFLOW,
    **{
        f"tvm.relay.{module}sparse_{name}": _SPARSE
        for module in ("nn.", "op.nn.")
        for name in _SPARSE_OPERATORS
    },
    "tvm.relay.op.annotation": _ONE_DEVICE,
    "tvm.relay.op.contrib": _BYOC,
    "tvm.relay.op.dyn": "give shapes as expressions to the operators of relay, such as relay.reshape",
    "tvm.relay.op.OpPattern": _FUSION,
    "tvm.relay.op.OpStrategy": _KERNELS,
    "tvm.relay.op.register_broadcast_schedule": _KERNELS,
    "tvm.relay.op.register_injective_schedule": _KERNELS,
    "tvm.relay.op.register_pattern": _FUSION,
    "tvm.relay.op.register_reduce_schedule": _KERNELS,
    "tvm.relay.op.register_schedule": _KERNELS,
    "tvm.relay.op.register_shape_func": "shapes follow from register_compute; leave the line out",
    "tvm.relay.op.register_stateful": "operators have no state; leave the line out",
    "tvm.relay.op.register_strategy": _KERNELS,
    "tvm.relay.op.random": _RANDOM,
    "tvm.relay.op.register_gradient": _GRADIENTS,
    "tvm.relay.op.strategy": _KERNELS,
    "tvm.relay.prelude": _ALGEBRAIC,
    "tvm.relay.qnn.op.requantize_config": "give rounding and compute_dtype to qnn.op.requantize",
    "tvm.relay.quantize": "relay.quantize.quantize does all of it; its parts are not there one by one",
    "tvm.relay.random": _RANDOM,
    "tvm.relay.testing.tf": _TENSORFLOW,
    "tvm.relay.testing": "it is one of TVM's own test helpers; relay_layout.models has networks",
    "tvm.relay.transform.AnnotateTarget": _BYOC,
    "tvm.relay.transform.FirstOrderGradient": _GRADIENTS,
    "tvm.relay.transform.MergeCompilerRegions": _BYOC,
    "tvm.relay.transform.MergeComposite": _BYOC,
    "tvm.relay.transform.PartitionGraph": _BYOC,
    "tvm.relay.transform.PlanDevices": _ONE_DEVICE,
    "tvm.relay.transform.gradient": _GRADIENTS,
    "tvm.relay.transform.recast": "use relay.transform.ToMixedPrecision or relay.quantize",
    "tvm.relay.transform": "relay-layout has no such pass; leave it out if it only makes code faster",
    "tvm.relay.type_functor": _REWRITE,
    "tvm.relay.vm": "the Relay VM is gone; use relay.vm.compile and VirtualMachine, or relay.build",
    "tvm.runtime.executor": "the AOT executor is gone; use relay.build and graph_executor.GraphModule",
    "tvm.runtime.vm": "use relay.vm.VirtualMachine, or graph_executor.GraphModule",
    **{
        f"tvm.target.{helper}": f"give a dict, such as tvm.target.Target({target})"
        for target, helpers in _TARGETS.items()
        for helper in helpers
    },
    "tvm.target.datatype": "data types of your own are gone from TVM; use relay.transform.ToMixedPrecision",
    "tvm.te.Schedule": _TE_SCHEDULE,
    "tvm.te.create_schedule": _TE_SCHEDULE,
    "tvm.te.schedule": _TE_SCHEDULE,
    "tvm.topi.sparse": _SPARSE,
    "tvm.tir.ir_builder": "the IR builder is gone; write TVMScript, tvm.script.tirx",
    "tvm.topi.arm_cpu": "TOPI's schedules are gone from TVM; convolutions get relay-layout's",
    "tvm.topi.cuda": "TOPI's schedules are gone from TVM; use tvm.s_tir.dlight",
    "tvm.topi.generic": "TOPI's schedules are gone from TVM; use tvm.s_tir.dlight",
    "tvm.topi.x86": "TOPI's schedules are gone from TVM; convolutions get relay-layout's",
}
"""By the old names; of several the longest that a name begins with counts."""
