"""Target strings of the old TVM."""

import pytest
import tvm

from relay_layout.port.targets import is_target_string, literal, target_fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llvm -mcpu=core-avx2", '{"kind": "llvm", "mcpu": "core-avx2"}'),
        ("llvm  -mattr=+neon,+v8.2a", '{"kind": "llvm", "mattr": ["+neon", "+v8.2a"]}'),
        ("llvm -num-cores=4 --device=arm_cpu", '{"kind": "llvm", "num-cores": 4, "device": "arm_cpu"}'),
        ("llvm -target=armv7l-linux-gnueabihf", '{"kind": "llvm", "mtriple": "armv7l-linux-gnueabihf"}'),
        (
            "llvm -keys=arm_cpu,cpu -fast-math",
            '{"kind": "llvm", "keys": ["arm_cpu", "cpu"], "fast-math": True}',
        ),
        (
            "cuda -arch=sm_70 -max_num_threads=512",
            '{"kind": "cuda", "arch": "sm_70", "max_num_threads": 512}',
        ),
        ("opencl -device=mali -model='a b'", '{"kind": "opencl", "device": "mali", "model": "a b"}'),
    ],
)
def test_options_become_fields_that_tvm_takes(text: str, expected: str) -> None:
    assert is_target_string(text)
    fields = target_fields(text)
    assert fields is not None
    assert literal(fields) == expected
    assert tvm.target.Target(fields).kind.name == fields["kind"]


@pytest.mark.parametrize(
    "text",
    [
        "llvm --system-lib",
        "c -runtime=c",
        "llvm -num-cores=many",
        "llvm -num-cores=99999999999999999999",
        "llvm -mcpu=",
        "llvm -mcpu=a -mcpu=b",
        "llvm -mcpu=%s",
        "llvm -mcpu='a",
        "stackvm -mcpu=a",
    ],
)
def test_options_without_a_place_have_none(text: str) -> None:
    assert is_target_string(text)
    assert target_fields(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "",
        "cuda",
        "c -a",
        "test -x",
        "llvm is a compiler",
        "llvm - mcpu=x",
        "gcc -mcpu=x",
        "llvm -O3 -lm",
    ],
)
def test_other_text_is_no_target(text: str) -> None:
    assert not is_target_string(text)
