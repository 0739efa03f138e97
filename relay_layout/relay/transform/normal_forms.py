"""Passes that bring modules into forms which Relax modules of this package have from the start."""

import tvm
from tvm import relax


def InferType() -> tvm.transform.Pass:
    """Types of every binding. Relax modules have them; this only brings a module into normal form."""
    return relax.transform.Normalize()


def CanonicalizeOps() -> tvm.transform.Pass:
    """Normal form. Operators that Relay canonicalises, such as nn.bias_add, are imported in that form."""
    return relax.transform.Normalize()


def Inline() -> tvm.transform.Pass:
    """Nothing: functions are part of what calls them from the start."""
    return relax.transform.Normalize()


def LambdaLift() -> tvm.transform.Pass:
    """Nothing: closures are part of what calls them from the start."""
    return relax.transform.Normalize()


def Defunctionalization(func: object = None, mod: tvm.IRModule | None = None) -> tvm.transform.Pass:
    """Nothing: functions are never values. Relay's arguments have no meaning."""
    return relax.transform.Normalize()


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> tvm.transform.Pass:
    """Nothing: functions are never values, whatever the options."""
    return relax.transform.Normalize()


def DefuseOps() -> tvm.transform.Pass:
    """Nothing: :func:`relay.build` alone fuses."""
    return relax.transform.Normalize()


def AnnotateSpans() -> tvm.transform.Pass:
    """Nothing: places in text are told where a text is read."""
    return relax.transform.Normalize()


def ToANormalForm() -> tvm.transform.Pass:
    """Normal form: each operator is bound to a variable, as in any Relax module."""
    return relax.transform.Normalize()


def ToGraphNormalForm() -> tvm.transform.Pass:
    """Normal form. ``relay.astext`` prints any module as a graph."""
    return relax.transform.Normalize()


def ToBasicBlockNormalForm() -> tvm.transform.Pass:
    """Normal form. What only one side of a branch reads is computed in it."""
    return relax.transform.Normalize()
