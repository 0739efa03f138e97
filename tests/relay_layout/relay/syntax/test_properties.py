"""Random modules and expressions survive being printed and read."""

from hypothesis import given, settings
from relay_trees import functions, modules

from relay_layout.relay.syntax import (
    Function,
    Module,
    free_variables,
    print_expression,
    print_text,
    read_expression,
    read_text,
    structurally_equal,
)


@settings(max_examples=150)
@given(modules)
def test_what_is_printed_reads_back_as_the_same(module: Module) -> None:
    text = print_text(module)
    again = read_text(text)
    assert structurally_equal(module, again), text
    assert print_text(again) == text


@settings(max_examples=150)
@given(functions())
def test_so_do_functions_and_expressions_of_free_variables(function: Function) -> None:
    for expression in (function, function.body):
        text = print_expression(expression)
        again = read_expression(text)
        # Names of free variables may be none that text can hold.
        left, right = (Function(free_variables(one), one) for one in (expression, again))
        assert structurally_equal(left, right), text
        assert print_expression(again) == text
