"""What the solver makes least: estimated microseconds, or the number of transforms before them."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_layout.graph import Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.targets import BuildTarget
from relay_layout.targets.fusion import parting_us
from relay_layout.targets.offers import TRANSPOSE
from relay_layout.targets.transform_cost import TransformPrice

TRANSFORM_DOUBT = 2.0
"""What a transform has to save for each microsecond that it takes.

It leaves its reader with a tensor in another place, and what kernels are said to take is known to a tenth.
"""

FEWEST_FIRST_US = 1e6
"""Added to each transform where the caller names the layouts, who then wants as few transforms as possible.

More than all operators of a network cost together, so that costs only decide between equal numbers.
"""


@dataclass(frozen=True)
class Objective:
    """Costs as the solver adds them up, which are no estimate of what the network takes.

    ``price`` is what a transform is estimated to take. With ``fewest_first`` the number of transforms decides
    and microseconds only between equal numbers; a transpose that the module holds counts as one.
    """

    target: BuildTarget
    price: Callable[[Value, Layout, Layout], TransformPrice]
    fewest_first: bool

    def operator(self, node: Node, signature: Signature) -> float:
        """Of a node that runs as ``signature`` says."""
        transposes = self.fewest_first and node.operator == TRANSPOSE and not signature.alias
        return signature.cost + (FEWEST_FIRST_US if transposes else 0.0)

    def transform(self, value: Value, source: Layout, target: Layout) -> float:
        """Of a value that passes from one layout to another; 0 where nothing is moved at run time."""
        microseconds = self.price(value, source, target).microseconds
        if not microseconds:
            return 0.0
        doubtful = TRANSFORM_DOUBT * (microseconds + parting_us(self.target, value))
        return doubtful + (FEWEST_FIRST_US if self.fewest_first else 0.0)


__all__ = ["Objective"]
