"""The objective of the solver: estimated microseconds, or first the number of transforms."""

from dataclasses import dataclass

from relay_layout.graph import Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.targets import BuildTarget
from relay_layout.targets.fusion import fusion_break_us
from relay_layout.targets.offers import TRANSPOSE
from relay_layout.targets.transform_cost import TransformPrice, transform_price

TRANSFORM_MARGIN = 2.0
"""The factor on the cost of a transform: how much it must save for each microsecond that it takes.

Estimates of kernels are accurate to a tenth, and the reader of a transformed tensor finds it in other memory.
"""

FEWEST_FIRST_US = 1e6
"""Added to each transform where the caller names the layouts, and so wants the fewest transforms.

It exceeds the cost of all operators of a network, so that costs decide only between equal numbers.
"""


@dataclass(frozen=True)
class Objective:
    """The costs that the solver sums; they weight estimates, and so are no prediction of the network's time.

    With ``fewest_first`` the number of transforms comes first, and time only decides between equal numbers; a
    transpose that the module itself contains counts as a transform.
    """

    target: BuildTarget
    fewest_first: bool

    def price(self, value: Value, source: Layout, target: Layout) -> TransformPrice:
        """The estimate of transforming a value from one layout to another."""
        return transform_price(self.target, value, source, target)

    def operator(self, node: Node, signature: Signature) -> float:
        """The cost of a node that runs with ``signature``."""
        transposes = self.fewest_first and node.operator == TRANSPOSE and not signature.alias
        return signature.cost + (FEWEST_FIRST_US if transposes else 0.0)

    def transform(self, value: Value, source: Layout, target: Layout) -> float:
        """The cost of transforming a value from one layout to another; 0 if nothing is moved at run time."""
        microseconds = self.price(value, source, target).microseconds
        if not microseconds:
            return 0.0
        cost = TRANSFORM_MARGIN * (microseconds + fusion_break_us(self.target, value))
        return cost + (FEWEST_FIRST_US if self.fewest_first else 0.0)
