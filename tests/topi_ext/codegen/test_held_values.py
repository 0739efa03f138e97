"""Values that are used twice each, time after time."""

import numpy as np
from kernel_harness import compile_function, host_cpus, prim_func, run_guarded, scheduled_by, target_for
from tvm import te, tirx

from topi_ext.codegen.held_values import held
from topi_ext.compute.transcendental import bound, single
from topi_ext.schedule.cpu.loops import LoopNest

TARGET = target_for(host_cpus()[-1])


def test_a_long_chain() -> None:
    """Looked at in each place, its values would be 2**40; in vectors all the same."""

    def chain(value: tirx.Expr, length: int) -> tirx.Expr:
        if length == 0:
            return value
        return bound(held(tirx.abs(value) - value * single(0.5)), lambda bent: chain(bent, length - 1))

    data = te.placeholder((48,), "float32")
    result = te.compute((48,), lambda i: chain(data(i), 40))
    schedule = scheduled_by(LoopNest(), prim_func([data, result]), TARGET)
    library = compile_function(schedule.mod["main"], TARGET)
    values = np.linspace(-3, 3, 48, dtype="float32")
    wanted = np.where(values < 0, -1.5 * values, 0.5 * values) * np.float32(0.5**39)
    np.testing.assert_allclose(run_guarded(library, [values], (48,)), wanted, rtol=1e-6)
