"""``relay.testing``: networks with random weights, and shorthands for trying passes.

>>> module, params = relay.testing.resnet.get_workload(num_layers=18)
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import tvm

from relay_layout.relay.expression import TupleWrapper
from relay_layout.relay.missing import missing
from relay_layout.relay.syntax import tree
from relay_layout.relay.testing.init import create_workload
from relay_layout.relay.testing.temp_op_attr import TempOpAttr

_MODULES = (
    "dcgan",
    "densenet",
    "inception_v3",
    "init",
    "layers",
    "mlp",
    "mobilenet",
    "resnet",
    "squeezenet",
    "temp_op_attr",
    "vgg",
)


def run_infer_type(expr: Any) -> Any:
    """The expression itself, once it is known to have a type. ModelError where it has none."""
    expression = expr.tuple_value if isinstance(expr, TupleWrapper) else expr
    expression.checked_type  # noqa: B018
    return expression


def run_opt_pass(expr: Any, opt_pass: Any, import_prelude: bool = False) -> Any:
    """The Relax function of an expression after a pass, or several; its body where it is no function."""
    passes = list(opt_pass) if isinstance(opt_pass, Sequence) else [opt_pass]
    module = tvm.transform.Sequential(passes)(tvm.IRModule.from_expr(expr))
    main = module["main"]
    return main if isinstance(expr, tree.Function) else main.body


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise missing(__name__, name)
    return import_module(f"{__name__}.{name}")


__all__ = ["TempOpAttr", "create_workload", "run_infer_type", "run_opt_pass"]
