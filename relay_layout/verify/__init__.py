"""A proof that a converted function computes what the original does, made from its own calls.

Both functions are walked in order. Every tensor is described by the value of the original function that it
holds and by where the elements of that value lie in it (:mod:`relay_layout.verify.digits`): parameters lie as
they are; transposes, reshapes and layout transforms move elements as their own arguments say. Any other call
of the converted function must mean what some original call means: one of the same operator whose operands
are the values that its own operands hold. The two are compared by what they say about their dimensions, by
attributes and arguments alone (:mod:`relay_layout.verify.meanings`), and the comparison also gives how the
results lie. Constants are compared by content.

What the rules of operators said is not used. The rewriter's list of placements is not used to pair the calls
of both functions; it only tells which nodes a callback replaced by something else, and the order in which to
expect a tensor where every order would mean the same.
"""

from collections.abc import Mapping, Sequence

from tvm import relax

from relay_layout.graph import Graph, Value, build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Placement
from relay_layout.verify.borders import Borders
from relay_layout.verify.canonical import canonical
from relay_layout.verify.consistency import verify_module
from relay_layout.verify.proof import Proof


def verify(
    function_name: str,
    original: Graph,
    converted: relax.Function,
    outputs: Mapping[Value, Layout],
    placements: Sequence[Placement] = (),
) -> None:
    """Check that ``converted`` computes what ``original`` does, with its outputs in the layouts promised.

    ``outputs`` are over the dimensions of the original outputs; one that is missing must lie as it was.
    ``placements`` say which nodes a callback replaced, and where: their operands and results are checked as
    their signatures declare them, and what is between is accepted.

    Raises :class:`relay_layout.errors.VerificationError`, one line that names function, binding, operator,
    the tensor or attribute, and what is provided and what is expected.
    """
    graph = build_graph(converted)
    original, outputs, placements = canonical(original, outputs, placements)
    Proof(function_name, original, graph, outputs, Borders(original, graph, placements), placements).run()


__all__ = ["verify", "verify_module"]
