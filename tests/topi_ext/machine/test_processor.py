"""What a target says about its processor."""

from typing import Any

import pytest
from tvm.target import Target

from topi_ext.machine.processor import processor_of


@pytest.mark.parametrize(
    ("target", "vector_bytes", "registers"),
    [
        ({"mcpu": "x86-64-v4"}, 64, 32),
        ({"mcpu": "znver5"}, 64, 32),
        ({"mcpu": "skylake-avx512"}, 64, 32),
        ({"mcpu": "x86-64-v3"}, 32, 16),
        ({"mcpu": "znver2"}, 32, 16),
        ({"mcpu": "x86-64"}, 16, 16),
        ({"mtriple": "x86_64-linux-gnu", "mattr": ["+avx2", "+fma"]}, 32, 16),
        ({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}, 16, 32),
    ],
)
def test_vector_unit(target: dict[str, Any], vector_bytes: int, registers: int) -> None:
    processor = processor_of(Target({"kind": "llvm", **target}))
    assert (processor.vector_bytes, processor.vector_registers) == (vector_bytes, registers)
    assert processor.lanes(4) == vector_bytes // 4


def test_threads_are_the_cores_of_the_target() -> None:
    assert processor_of(Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 6})).threads == 6
    assert processor_of(Target({"kind": "llvm", "mcpu": "x86-64-v3"})).threads == 1


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        ("sapphirerapids", "x86-64 AMX"),
        ("icelake-server", "x86-64 AVX-512 Intel"),
        ("rocketlake", "x86-64 AVX-512 Intel"),
        ("znver5", "x86-64 AVX-512"),
        ("znver4", "x86-64 AVX-512 Zen 4"),
        ("x86-64-v4", "x86-64 AVX-512"),
        ("alderlake", "x86-64 AVX2"),
    ],
)
def test_processors_whose_kernels_differ_have_records_of_their_own(cpu: str, name: str) -> None:
    assert processor_of(Target({"kind": "llvm", "mcpu": cpu})).name == name


def test_units_that_take_halves_of_vectors() -> None:
    halved, whole = (processor_of(Target({"kind": "llvm", "mcpu": cpu})) for cpu in ("znver4", "znver5"))
    assert [halved.passes(size) for size in (16, 32, 64, 256)] == [1, 1, 2, 2]
    assert [whole.passes(size) for size in (16, 32, 64, 256)] == [1, 1, 1, 1]
    assert (halved.vectors_per_cycle, whole.vectors_per_cycle) == (1.0, 2.0)
