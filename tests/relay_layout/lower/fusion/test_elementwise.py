"""Lookups are elementwise, and so in the kernel of what computes the bytes."""

import numpy as np
from tvm import relax

from relay_layout.lower.fusion.elementwise import mark_elementwise
from relay_layout.lower.fusion.patterns import ELEMENTWISE, OPAQUE, PATTERN
from relay_layout.quantization.lookup import lookup
from tests.relax_modules import module_giving


def test_a_lookup_is_elementwise_once_patterns_are_known() -> None:
    data = relax.Var("x", relax.TensorType((2, 3), "uint8"))
    legalized = relax.transform.LegalizeOps()(
        module_giving(lookup(data, np.arange(256, dtype="uint8")), data)
    )
    annotated = relax.transform.AnnotateTIROpPattern()(legalized)
    assert int(annotated["lookup"].attrs[PATTERN]) == OPAQUE
    assert int(mark_elementwise(annotated)["lookup"].attrs[PATTERN]) == ELEMENTWISE
