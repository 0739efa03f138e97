"""Relay on Relax: ``from relay_layout import relay`` instead of ``from tvm import relay``.

Expressions are built as with Relay, and TVM takes them as Relax functions::

    data = relay.var("data", shape=(1, 3, 224, 224))
    net = relay.nn.conv2d(data, relay.var("weight"), channels=16, kernel_size=(3, 3))
    module = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(net), net))
    module = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module)
    library = relay.build(module, target="llvm", params=params)
    runtime = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))

Modules are modules of Relax; :func:`astext` prints them as Relay, and :func:`parse`, :func:`fromtext`,
:func:`parse_expr` and :func:`load_json` read Relay's files. Operators are functions here and in
``relay.nn``, ``relay.image``, ``relay.vision``, ``relay.qnn.op`` and ``relay.op``. Names are loaded when they
are first used.
"""

from importlib import import_module
from typing import Any as _Anything

from relay_layout.environment.versions import check_versions as _check_versions
from relay_layout.relay.syntax import tree as _tree

_check_versions()

_EXPRESSION = (
    "Call",
    "Constant",
    "Expr",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "astext",
    "const",
    "var",
)

_TYPE = ("Any", "FuncType", "IncompleteType", "TensorType", "TupleType", "scalar_type")

_HOMES = {
    **dict.fromkeys(_EXPRESSION, "expression"),
    **dict.fromkeys(_TYPE, "ty"),
    **dict.fromkeys(("build", "create_executor", "load_module", "optimize"), "build_module"),
    **dict.fromkeys(("load_param_dict", "save_param_dict"), "params"),
    **dict.fromkeys(("fromtext", "load_json", "parse", "parse_expr"), "reading"),
    **dict.fromkeys(("ExprFunctor", "ExprMutator", "ExprVisitor"), "visitors"),
    "ScopeBuilder": "scope_builder",
    "bind": "analysis",
    "build_config": "transform",
}

_MODULES = (
    "analysis",
    "annotation",
    "auto_scheduler",
    "autotvm",
    "backend",
    "build_module",
    "contrib",
    "dataflow_pattern",
    "debug_executor",
    "frontend",
    "graph_executor",
    "image",
    "nn",
    "op",
    "qnn",
    "quantize",
    "random",
    "rpc",
    "testing",
    "transform",
    "ty",
    "vision",
    "vm",
)

_ALIASES = {"expr": "expression", "function": "expression", "param_dict": "params"}
"""Relay's modules whose names are in one of ours."""


# Files are read into trees without TVM; what an expression means takes TVM, from the first question on.
_tree.tell_meaning(lambda: import_module(f"{__name__}.trees.meaning").MEANING)


def __getattr__(name: str) -> _Anything:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES or name in _ALIASES:
        return import_module(f"{__name__}.{_ALIASES.get(name, name)}")
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from relay_layout.relay.functions.namespaces import namespace

    return namespace(__name__, "")[0](name)


def __dir__() -> list[str]:
    from relay_layout.relay.functions.namespaces import members

    return sorted({*_HOMES, *_MODULES, *_ALIASES, *members("")})
