"""Where the names of TVM up to 0.18 are today, and what to do instead of those that are gone."""

from collections.abc import Callable, Collection, Iterator

HasName = Callable[[str], bool]
"""Whether today's packages have a dotted name that begins with ``relay`` (this package's) or ``tvm``."""

RELAY = "relay_layout.relay"
"""What stands for ``tvm.relay``."""

NO_KERNELS = "relay-layout has kernels for CPUs (llvm) and NVIDIA's GPUs (cuda) alone; give one of these"
"""Why a target is noted that nothing is built for."""

_MOVED = {
    "tvm._ffi.get_global_func": "tvm.get_global_func",
    "tvm._ffi.register_func": "tvm.register_global_func",
    "tvm._ffi.register_object": "tvm.register_object",
    "tvm.arith": "tvm.sym",
    "tvm.auto_scheduler": f"{RELAY}.auto_scheduler",
    "tvm.auto_scheduler.search_task": f"{RELAY}.auto_scheduler",
    "tvm.auto_scheduler.task_scheduler": f"{RELAY}.auto_scheduler",
    "tvm.autotvm": f"{RELAY}.autotvm",
    "tvm.autotvm.measure.measure_methods": f"{RELAY}.autotvm.measure",
    "tvm.autotvm.task.task": f"{RELAY}.autotvm.task",
    "tvm.autotvm.task.relay_integration": f"{RELAY}.autotvm.task",
    "tvm.cl": "tvm.opencl",
    "tvm.compute": "tvm.te.compute",
    "tvm.context": "tvm.device",
    "tvm.contrib.cc": "tvm.support.cc",
    "tvm.contrib.clang": "tvm.support.clang",
    "tvm.contrib.debugger.debug_executor": f"{RELAY}.debug_executor",
    "tvm.contrib.debugger.debug_runtime": f"{RELAY}.debug_executor",
    "tvm.contrib.emcc": "tvm.support.emcc",
    "tvm.contrib.graph_executor": f"{RELAY}.graph_executor",
    "tvm.contrib.graph_runtime": f"{RELAY}.graph_executor",
    "tvm.contrib.ndk": "tvm.support.ndk",
    "tvm.contrib.nvcc": "tvm.support.nvcc",
    "tvm.contrib.popen_pool": "tvm.support.popen_pool",
    "tvm.contrib.rocm": "tvm.support.rocm",
    "tvm.contrib.tar": "tvm.support.tar",
    "tvm.contrib.util": "tvm.support.utils",
    "tvm.contrib.utils": "tvm.support.utils",
    "tvm.contrib.xcode": "tvm.support.xcode",
    "tvm.dlight": "tvm.s_tir.dlight",
    "tvm.gpu": "tvm.cuda",
    "tvm.meta_schedule": "tvm.s_tir.meta_schedule",
    "tvm.module.load": "tvm.runtime.load_module",
    "tvm.mtl": "tvm.metal",
    "tvm.nd": "tvm.runtime",
    "tvm.nd.NDArray": "tvm.runtime.Tensor",
    "tvm.nd.array": "tvm.runtime.tensor",
    "tvm.ndarray": "tvm.runtime",
    "tvm.ndarray.NDArray": "tvm.runtime.Tensor",
    "tvm.ndarray.array": "tvm.runtime.tensor",
    "tvm.parser.fromtext": f"{RELAY}.fromtext",
    "tvm.parser.parse": f"{RELAY}.parse",
    "tvm.parser.parse_expr": f"{RELAY}.parse_expr",
    "tvm.placeholder": "tvm.te.placeholder",
    "tvm.register_func": "tvm.register_global_func",
    "tvm.te.size_var": "tvm.te.var",
    "tvm.relay.Module": "tvm.IRModule",
    "tvm.relay.SequentialSpan": "tvm.ir.SequentialSpan",
    "tvm.relay.SourceName": "tvm.ir.SourceName",
    "tvm.relay.Span": "tvm.ir.Span",
    "tvm.relay.build_config": "tvm.transform.PassContext",
    "tvm.relay.module.Module": "tvm.IRModule",
    "tvm.relay.transform.PassContext": "tvm.transform.PassContext",
    "tvm.relay.transform.Sequential": "tvm.transform.Sequential",
    "tvm.relay.transform.build_config": "tvm.transform.PassContext",
    "tvm.rpc": f"{RELAY}.rpc",
    "tvm.runtime.NDArray": "tvm.runtime.Tensor",
    "tvm.runtime.ndarray": "tvm.runtime",
    "tvm.runtime.ndarray.NDArray": "tvm.runtime.Tensor",
    "tvm.runtime.ndarray.array": "tvm.runtime.tensor",
    "tvm.runtime.vm.Executable": f"{RELAY}.vm.Executable",
    "tvm.runtime.vm.VirtualMachine": f"{RELAY}.vm.VirtualMachine",
    "tvm.script.tir": "tvm.script.tirx",
    "tvm.target.create": "tvm.target.Target",
    "tvm.tir": "tvm.tirx",
    # Layouts of tvm.tirx are something else.
    "tvm.tir.BijectiveLayout": "tvm.s_tir.SBijectiveLayout",
    "tvm.tir.Block": "tvm.s_tir.SBlock",
    "tvm.tir.Layout": "tvm.s_tir.SLayout",
    "tvm.tir.Schedule": "tvm.s_tir.Schedule",
    "tvm.tir.TensorIntrin": "tvm.s_tir.TensorIntrin",
    "tvm.tir.bijective_layout": "tvm.s_tir.sbijective_layout",
    "tvm.tir.layout": "tvm.s_tir.slayout",
    "tvm.var": "tvm.te.var",
}
"""Today's names by the old ones; of several the longest that a name begins with counts."""

_ONLY_WITH_RELAY = frozenset(["tvm.rpc"])
"""Of these what moved for scripts that use Relay, and is where it was for others."""

_FLAT_MODULES = [
    "adt",
    "base",
    "build_module",
    "expr",
    "expr_functor",
    "function",
    "param_dict",
    "parser",
    "scope_builder",
    "ty",
    "type_functor",
]
"""Modules of Relay that were seldom named, since all that they have is also there without them."""

_INNER_MODULES = (*_FLAT_MODULES, *["op", "op.algorithm", "op.op", "op.reduce", "op.tensor", "op.transform"])
"""Modules of Relay whose names it also offered without them."""

_SAME_MODULE = {
    "analysis.analysis": "analysis",
    "backend.vm": "vm",
    "frontend.onnx": "frontend",
    "frontend.pytorch": "frontend",
    "frontend.tflite": "frontend",
    "op.image.image": "image",
    "op.nn.nn": "nn",
    "op.op": "op",
    "op.vision.vision": "vision",
    "parse": "fromtext",
    "qnn.op.qnn": "qnn.op",
    "transform.infer_layout_utils": "op",
    "transform.transform": "transform",
}
"""Names of Relay that it also offered under another name."""

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

_GONE = {
    "tvm.TVMError": _ERROR,
    "tvm._ffi.base.TVMError": _ERROR,
    "tvm._ffi": "TVM's foreign functions moved to the package tvm_ffi",
    "tvm.auto_scheduler": (
        "kernels and how they are searched are relay-layout's own; leave the line out, and take tasks from "
        "auto_scheduler.extract_tasks"
    ),
    "tvm.autotvm": _TEMPLATES,
    "tvm.autotvm.feature": "features of kernels are relay-layout's own; leave the line out",
    "tvm.autotvm.tophub": "the package has logs in TopHub's place; leave the line out",
    "tvm.contrib.debugger": "of the debug executor GraphModuleDebug and create are there, which time kernels",
    "tvm.runtime.profiler_vm": "use relay.debug_executor, whose profile() times kernels",
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
    "tvm.ir.structural_equal": "use tvm_ffi.structural_equal, or tvm.ir.assert_structural_equal",
    "tvm.ir.structural_hash": "use tvm_ffi.structural_hash",
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
    "tvm.relay.Prelude": "algebraic data types are not there; write the model without lists and trees",
    "tvm.relay.TypeFunctor": _REWRITE,
    "tvm.relay.TypeMutator": _REWRITE,
    "tvm.relay.TypeVisitor": _REWRITE,
    "tvm.relay.backend": "there is one way to build and run: relay.build and graph_executor.GraphModule",
    "tvm.relay.collage": _BYOC,
    "tvm.relay.data_dep_optimization": _SPARSE,
    "tvm.relay.expr_functor": _REWRITE,
    "tvm.relay.frontend": _EXPORT,
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
    "tvm.relay.op.register_stateful": "operators have no state; leave the line out",
    "tvm.relay.op.register_strategy": _KERNELS,
    "tvm.relay.op.random": _RANDOM,
    "tvm.relay.op.register_gradient": _GRADIENTS,
    "tvm.relay.op.strategy": _KERNELS,
    "tvm.relay.prelude": "algebraic data types are not there; write the model without lists and trees",
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


class Names:
    """Old names and today's, as far as ``has_name`` knows them."""

    def __init__(self, has_name: HasName, *, with_relay: bool = True) -> None:
        """``with_relay`` says whether the script that is asked for uses Relay."""
        self._has_name = has_name
        self._stays: Collection[str] = () if with_relay else _ONLY_WITH_RELAY
        self._known: dict[str, str | None] = {}

    def today(self, old: str) -> str | None:
        """Today's name for one of the old TVM's; None if there is none.

        Both are dotted from the top, such as "tvm.relay.nn.conv2d" and "relay_layout.relay.nn.conv2d".
        Today's names are their own.
        """
        if old not in self._known:
            found = (name for name in _candidates(old, self._stays) if self._is_there(name))
            self._known[old] = next(found, None)
        return self._known[old]

    def to_import(self, old: str) -> str | None:
        """The same for what a ``from`` import names, whose module must be a module today too."""
        inner = _inner_relay_name(old)
        module, _, name = (inner or "").rpartition(".")
        if module in _FLAT_MODULES and self._is_there(f"{RELAY}.{name}"):
            return f"{RELAY}.{name}"
        return self.today(old)

    def _is_there(self, name: str) -> bool:
        if name in (RELAY, "tvm"):
            return True
        if name.startswith(f"{RELAY}."):
            return self._has_name(f"relay{name[len(RELAY) :]}")
        return not name.startswith("tvm.") or self._has_name(name)


def is_ours(dotted: str) -> bool:
    """Whether a name is TVM's, or this package's in its place."""
    return _begins(dotted, "tvm") or _begins(dotted, RELAY) or dotted == "relay_layout"


def old_name(dotted: str) -> str:
    """The old name for what a script imports, which may have been ported before."""
    return f"tvm.relay{dotted[len(RELAY) :]}" if _begins(dotted, RELAY) else dotted


def shown(old: str) -> str:
    """A name as people say it: ``relay.build`` for ``tvm.relay.build``."""
    return old.removeprefix("tvm.") if _begins(old, "tvm.relay") else old


def reason(old: str) -> str:
    """Why an old name cannot be carried, and what to do instead."""
    known = known_reason(old)
    if known is not None:
        return known
    if _begins(old, "tvm.relay"):
        return "relay-layout has no such name; write it with the operators that relay-layout has"
    return "TVM 0.27 has no such name; see its documentation for what took its place"


def known_reason(old: str) -> str | None:
    """The same, None where nothing is known of the name or of a module that it is in."""
    if _begins(old, "tvm.relay.op.op"):
        old = old.replace(".op.op", ".op", 1)
    return next((_GONE[prefix] for prefix in _prefixes(old) if prefix in _GONE), None)


def _candidates(old: str, stays: Collection[str]) -> Iterator[str]:
    """What an old name may be called today, likeliest first."""
    for prefix in _prefixes(old):
        if prefix in _MOVED and prefix not in stays:
            yield from _moved(_MOVED[prefix] + old[len(prefix) :])
    yield from _moved(old)


def _moved(name: str) -> Iterator[str]:
    inner = _inner_relay_name(name)
    if inner is None:
        yield name
        return
    yield RELAY + (f".{inner}" if inner else "")
    for module, same in _SAME_MODULE.items():
        if _begins(inner, module):
            yield f"{RELAY}.{same}{inner[len(module) :]}"
    for module in sorted(_INNER_MODULES, key=len, reverse=True):
        if inner.startswith(f"{module}."):
            yield f"{RELAY}.{inner[len(module) + 1 :]}"


def _inner_relay_name(name: str) -> str | None:
    """What follows ``relay.``; None for other names."""
    for package in (RELAY, "tvm.relay"):
        if _begins(name, package):
            return name[len(package) + 1 :]
    return None


def _prefixes(dotted: str) -> Iterator[str]:
    """The name and its modules, longest first."""
    while dotted:
        yield dotted
        dotted = dotted.rpartition(".")[0]


def _begins(dotted: str, prefix: str) -> bool:
    return dotted == prefix or dotted.startswith(f"{prefix}.")
