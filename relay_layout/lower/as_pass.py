"""Rewrites of modules as passes of TVM's."""

from collections.abc import Callable
from typing import Any

import tvm


def as_pass(rewrite: Callable[..., tvm.IRModule], *options: Any, **named: Any) -> tvm.transform.Pass:
    """What ``rewrite`` makes of a module, with options, as a pass of its name."""
    return tvm.transform.module_pass(
        lambda module, _: rewrite(module, *options, **named), 0, rewrite.__name__
    )
