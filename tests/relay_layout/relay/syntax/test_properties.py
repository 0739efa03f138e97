"""Random modules survive being printed and read."""

from hypothesis import given, settings
from relay_trees import modules

from relay_layout.relay.syntax import Module, print_text, read_text, structurally_equal


@settings(max_examples=150)
@given(modules)
def test_what_is_printed_reads_back_as_the_same(module: Module) -> None:
    text = print_text(module)
    again = read_text(text)
    assert structurally_equal(module, again), text
    assert print_text(again) == text
