"""What a function says of its border: the names of inputs and outputs, and how they lie in memory."""

from tvm import relax

from relay_layout.graph.nodes import Graph
from relay_layout.graph.window_bounds import window_bounds
from relay_layout.ir import fields_of, function_attributes

USUAL = {1: "C", 2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""What the dimensions of a tensor are called in a module without convolutions."""

ASSUMED = 2
"""The size from which on PyTorch takes a flexible dimension for one."""

DECLARED = ("input_dim_orders", "output_dim_orders")
"""Attributes of a function whose tensors are to lie so: a list of ints for each, empty where nobody said."""

CONDITIONS = "size_conditions"
"""Attribute of a function with what the sizes of inputs have to be, such as ``x.shape[2] % 4 == 0``."""

IN_MEMORY = ("input_memory_orders", "output_memory_orders")
"""Attributes of a function whose tensors lie so: its types are the shapes in memory."""


def input_names(function: relax.Function) -> list[str]:
    """Names of the inputs: those that the front end recorded, or the parameters' own."""
    names = [str(name) for name in function_attributes(function).get("input_names", ())]
    own = [str(parameter.name) for parameter in function.params]
    return names if len(names) == len(own) else own


def output_names(function: relax.Function) -> list[str]:
    """Names of the outputs: those that the front end recorded, or ``output``, numbered where several."""
    names = [str(name) for name in function_attributes(function).get("output_names", ())]
    count = len(fields_of(function.ret_ty))
    own = ["output"] if count == 1 else [f"output_{index}" for index in range(count)]
    return names if len(names) == count else own


def declared_orders(function: relax.Function) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The orders in which inputs and outputs are to lie in memory, empty where nobody said."""
    return _both(function, DECLARED)


def memory_orders(function: relax.Function) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The orders in which inputs and outputs lie in memory, empty where nobody declared one."""
    return _both(function, IN_MEMORY)


def size_bounds(function: relax.Function) -> dict[str, tuple[int, int | None]]:
    """The least and the largest size, None for any, of dimensions that take not every size, by name.

    Memory is planned for the largest one. Windows have to fit into the least one. PyTorch assumes two or more
    of every dimension without being asked, and checks no such bound; neither do we.
    """
    attributes = function_attributes(function)
    lower, upper = (dict(attributes.get(f"tir_var_{side}_bound", {})) for side in ("lower", "upper"))
    asked = {str(name): int(least) for name, least in lower.items() if int(least) > ASSUMED}
    asked |= {name: max(least, asked.get(name, 0)) for name, least in window_bounds(function).items()}
    largest = {str(name): int(most) for name, most in upper.items()}
    return {name: (asked.get(name, 0), largest.get(name)) for name in {**asked, **largest}}


def size_conditions(function: relax.Function) -> list[str]:
    """What the sizes of inputs have to be, as the front end recorded it."""
    return [str(text) for text in function_attributes(function).get(CONDITIONS, ())]


def dimension_letters(*graphs: Graph) -> dict[int, str]:
    """What dimensions are called, by rank: as the first convolution of that rank calls them."""
    letters = dict(USUAL)
    for node in reversed([node for graph in graphs for node in graph.nodes]):
        layout = str(getattr(node.attributes, "data_layout", "")) if node.operator else ""
        if layout.isupper():
            letters[len(layout)] = layout
    return letters


def _both(
    function: relax.Function, attributes: tuple[str, str]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    inputs = _listed(function, attributes[0], len(input_names(function)))
    return inputs, _listed(function, attributes[1], len(output_names(function)))


def _listed(function: relax.Function, attribute: str, count: int) -> list[tuple[int, ...]]:
    found = [tuple(map(int, order)) for order in function_attributes(function).get(attribute, ())]
    return found if len(found) == count else [()] * count
