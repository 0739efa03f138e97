"""Annotations leave no trace."""

import tvm_ffi
from relay_harness import imported

PARAMETER = "def @main(%x: Tensor[(2, 3), float32]) {"


def test_annotations_pass_their_operand_through() -> None:
    annotated = imported(
        f"""{PARAMETER}
        %0 = annotation.compiler_begin(%x, compiler="dnnl");
        %1 = nn.relu(annotation.checkpoint(annotation.stop_fusion(%0)));
        %2 = annotation.compiler_end(annotation.cast_hint(%1, dtype="int8"), compiler="dnnl");
        annotation.bitpack_end(annotation.bitpack_start(%2))
        }}"""
    )
    assert tvm_ffi.structural_equal(annotated, imported(f"{PARAMETER} nn.relu(%x) }}"))
