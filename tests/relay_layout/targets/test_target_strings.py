"""Target strings of TVM up to 0.18."""

from typing import Any

import pytest

from relay_layout.errors import TargetError
from relay_layout.targets.target_strings import description_of, is_target_string


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("llvm", {}),
        ("llvm -mcpu=skylake", {"mcpu": "skylake"}),
        ("llvm -mcpu skylake -num-cores 4", {"mcpu": "skylake", "num-cores": 4}),
        ("llvm -mattr=+avx2,+fma", {"mattr": ["+avx2", "+fma"]}),
        ("llvm -keys=cpu -link-params", {}),
        ("llvm --num-cores=all", {"num-cores": "all"}),
    ],
)
def test_the_description_of_a_string(text: str, options: dict[str, Any]) -> None:
    assert description_of(text) == {"kind": "llvm", **options}


@pytest.mark.parametrize("word", ["-fast", "mcpu=skylake"])
def test_what_is_no_option(word: str) -> None:
    text = f"llvm {word}"
    with pytest.raises(TargetError) as raised:
        description_of(text)
    message = f"target '{text}': '{word}' is not understood; use mcpu, mattr, mtriple, num-cores"
    assert str(raised.value) == message


def test_what_is_no_option_may_be_passed_over() -> None:
    found = description_of("llvm -fast -mcpu=skylake mattr=+fma -target x", with_others=True)
    assert found == {"kind": "llvm", "mcpu": "skylake"}


def test_what_is_a_target_string() -> None:
    assert is_target_string(" llvm -mcpu=skylake") and is_target_string("llvm")
    assert not any(map(is_target_string, ("", "native", "llvm-mc", '{"kind": "llvm"}')))
