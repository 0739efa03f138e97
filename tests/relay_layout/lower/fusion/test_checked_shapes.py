"""What a check of a shape lies between is not one function: FuseOps would make one that needs itself."""

import numpy as np
import tvm
from tvm import relax, tirx

from relay_layout.relax_pipeline import pipeline
from relay_layout.targets import resolve_target
from topi_ext.codegen.build import PIPELINE

op = relax.op
TARGET = resolve_target("native", threads=1)


def module() -> tvm.IRModule:
    """The sum of exp(data), checked to have as many columns as rows, and of some of its columns."""
    builder = relax.BlockBuilder()
    rows, columns = (tirx.Var(name, "int64") for name in "nm")
    data = relax.Var("data", relax.TensorType([rows, columns], "float32"))
    places = relax.Var("places", relax.TensorType([rows], "int64"))
    with builder.function("main", [data, places]):
        with builder.dataflow():
            powers = builder.emit(op.exp(data))
            taken = builder.emit(op.take(powers, places, axis=1))
            checked = builder.match_cast(powers, relax.TensorType([rows, rows], "float32"))
            result = builder.emit_output(op.add(checked, taken))
        builder.emit_func_output(result)
    return builder.finalize()


def test_both_sides_of_a_check_compile() -> None:
    built = tvm.compile(
        module(),
        TARGET.tvm_target,
        relax_pipeline=pipeline(TARGET, desired_layout="none"),
        tir_pipeline=PIPELINE,
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    data = np.random.default_rng(0).random((3, 3), "float32")
    places = np.array([2, 0, 0])
    have = machine["main"](*map(tvm.runtime.tensor, (data, places))).numpy()
    np.testing.assert_allclose(have, np.exp(data) + np.exp(data)[:, places], 1e-6)
