"""What the arithmetic of a register tile's step is estimated to take, in words and without."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import target_for
from kernel_networks import workload_for

from topi_ext.machine.processor import Processor, processor_of
from topi_ext.spaces.arithmetic_costs import StepCosts, step_costs
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import ByteWeight, integer_forms

FLOATS = workload_for((64, 64, 14, 3, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
BYTES = replace(FLOATS, dtype="uint8", out_dtype="int32")


def _processor(cpu: str) -> Processor:
    return processor_of(target_for(cpu))


def _costs(workload: ConvolutionWorkload, processor: Processor) -> StepCosts:
    """Of eight whole vectors of sums."""
    return step_costs(workload, processor, 8, processor.vector_bytes)


def _form(processor: Processor, fit: bool) -> ConvolutionWorkload:
    """Of bytes, by weights whose pairs of products fit or do not."""
    weight = ByteWeight(np.full((1, 1), 64 if fit else 127, "int8"))
    return integer_forms(BYTES, processor, weight)[0]


def _cycles_per_element(cpu: str, *, fit: bool) -> float:
    form = _form(_processor(cpu), fit)
    return _costs(form, _processor(cpu)).cycles / form.word


def test_a_step_of_floats_is_as_many_multiply_adds() -> None:
    costs = _costs(FLOATS, _processor("x86-64-v3"))
    assert (costs.cycles, costs.registers) == (4.0, 0)


@pytest.mark.parametrize(("vector_bytes", "cycles"), [(32, 4.0), (64, 8.0)])
def test_halves_of_vectors_that_are_multiplied_one_by_one(vector_bytes: int, cycles: float) -> None:
    assert step_costs(FLOATS, _processor("znver4"), 8, vector_bytes).cycles == cycles


@pytest.mark.parametrize(
    ("cpu", "fit", "share"),
    [
        ("x86-64-v3", True, 0.5),
        ("x86-64-v3", False, 0.5),
        ("x86-64-v4", True, 0.75),
        # Vectors of 64 bytes are added by the units that multiply.
        ("x86-64-v4", False, 1.0),
    ],
)
def test_what_bytes_take_of_floats_without_instructions_for_words(cpu: str, fit: bool, share: float) -> None:
    floats = _costs(FLOATS, _processor(cpu)).cycles
    assert _cycles_per_element(cpu, fit=fit) == share * floats


@pytest.mark.parametrize(
    ("cpu", "largest", "share"),
    [
        ("cortex-a53", 127, 3 / 4),
        ("cortex-a53", 128, 1.0),
        # One of two vector units multiplies.
        ("cortex-a72", 127, 1 / 2),
        ("cortex-a72", 128, 1 / 2),
        ("cortex-a55", 128, 1 / 4),
    ],
)
def test_what_bytes_take_of_floats_on_arm(cpu: str, largest: int, share: float) -> None:
    processor = _processor(cpu)
    weight = ByteWeight(np.array([-largest], "int8"))
    (form,) = integer_forms(replace(BYTES, kernel=(1, 1)), processor, weight)
    words, floats = (_costs(each, processor).cycles for each in (form, FLOATS))
    assert words / form.word == share * floats


@pytest.mark.parametrize("cpu", ["znver4", "cascadelake"])
def test_pairs_are_nothing_to_an_instruction_for_words(cpu: str) -> None:
    assert _cycles_per_element(cpu, fit=True) == _cycles_per_element(cpu, fit=False)


@pytest.mark.parametrize("fit", [False, True])
def test_products_on_the_way_to_sums_take_registers_beside_the_tile(fit: bool) -> None:
    processor = _processor("x86-64-v3")
    assert _costs(_form(processor, fit), processor).registers > 0
