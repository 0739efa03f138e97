"""What the arithmetic of a register tile's step is estimated to take, in words and without."""

from dataclasses import replace

import pytest
from kernel_networks import workload_for
from tvm.target import Target

from topi_ext.arithmetic_costs import step_costs
from topi_ext.processor import Processor, processor_of
from topi_ext.word_forms import integer_form

FLOATS = workload_for((64, 64, 14, 3, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
BYTES = integer_form(replace(FLOATS, dtype="uint8", out_dtype="int32"))


def _processor(cpu: str) -> Processor:
    return processor_of(Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2}))


def _cycles_per_element(cpu: str, *, pairs_fit: bool) -> float:
    return step_costs(replace(BYTES, pairs_fit=pairs_fit), _processor(cpu), 8, 2, 4).cycles / BYTES.word


def test_a_step_of_floats_is_as_many_multiply_adds() -> None:
    costs = step_costs(FLOATS, _processor("x86-64-v3"), 8, 2, 4)
    assert (costs.cycles, costs.registers) == (4.0, 0)


def test_fewer_bits_are_multiplied_sooner_without_instructions_for_words() -> None:
    floats = step_costs(FLOATS, _processor("x86-64-v3"), 8, 2, 4).cycles
    halves = _cycles_per_element("x86-64-v3", pairs_fit=False)
    pairs = _cycles_per_element("x86-64-v3", pairs_fit=True)
    assert floats > halves > pairs


@pytest.mark.parametrize("cpu", ["znver4", "cascadelake"])
def test_pairs_are_nothing_to_an_instruction_for_words(cpu: str) -> None:
    assert _cycles_per_element(cpu, pairs_fit=True) == _cycles_per_element(cpu, pairs_fit=False)


def test_halves_take_registers_beside_the_tile() -> None:
    halves, pairs = (
        step_costs(replace(BYTES, pairs_fit=fit), _processor("x86-64-v3"), 8, 2, 4).registers
        for fit in (False, True)
    )
    assert halves > pairs > 0
