"""Libraries as assembly."""

import shutil

import pytest

from relay_layout import relay
from relay_layout.errors import InputError
from relay_layout.relay.building import disassembly

needs_disassembler = pytest.mark.skipif(
    not any(map(shutil.which, ("llvm-objdump", "objdump"))), reason="needs a disassembler"
)


@needs_disassembler
@pytest.mark.parametrize("fmt", ["", "asm", "s"])
def test_a_built_network_shows_its_instructions(fmt: str) -> None:
    x = relay.var("x", shape=(1, 8, 9, 9))
    net = relay.nn.conv2d(x, relay.var("w", shape=(16, 8, 3, 3)))
    library = relay.build(relay.Function(relay.analysis.free_vars(net), net), target="llvm -mcpu=x86-64-v3")
    text = library.get_lib().get_source(fmt)
    assert "vfmadd" in text and "conv2d" in text
    assert text.lstrip().startswith("network.so:")


@needs_disassembler
def test_what_is_no_library_is_refused() -> None:
    with pytest.raises(InputError, match=r"^get_source: (llvm-)?objdump: .+"):
        disassembly.assembly(b"no library")


def test_other_formats_and_machines_without_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as raised:
        disassembly.assembly(b"", "ll")
    assert str(raised.value) == "get_source: a library holds machine code, of which there is 'asm', not 'll'"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError) as raised:
        disassembly.assembly(b"")
    assert str(raised.value) == "get_source: needs llvm-objdump or objdump, and neither is on the path"
