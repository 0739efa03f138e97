"""The transforms that a choice of signatures leaves to run, without building the converted function."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relay_layout.choice.memory import same_memory
from relay_layout.choice.plan import LayoutPlan
from relay_layout.graph import Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import Signature
from relay_layout.targets.transform_cost import TransformPrice

Signatures = Mapping[Node, Signature]


@dataclass
class Transform:
    """One tensor brought from the layout it is written in to one that readers share.

    ``readers`` are the nodes that read the new form; ``is_output`` says that the function returns it too.
    """

    value: Value
    source: Layout
    target: Layout
    price: TransformPrice
    readers: list[Node] = field(default_factory=list)
    is_output: bool = False


def transforms_of(plan: LayoutPlan, chosen: Signatures) -> list[Transform]:
    """Every transform of a computed tensor or parameter; constants are transformed at compile time."""
    found: list[Transform] = []
    for value in plan.graph.values():
        if value.shape is not None:
            found += of_value(plan, chosen, value)
    return found


def of_value(plan: LayoutPlan, chosen: Signatures, value: Value) -> list[Transform]:
    """The transforms of one tensor, each shared by all who read the new form."""
    source = value.identity
    if value.producer is not None:
        source = chosen[value.producer].results[value.producer.results.index(value)]
    wanted: list[tuple[Layout, Node | None]] = [
        (chosen[reader].operands[position], reader) for reader, position in value.consumers
    ]
    if value in plan.outputs:
        wanted.append((plan.outputs[value], None))
    found: list[Transform] = []
    for target, reader in wanted:
        if same_memory(value, source, target):
            continue
        shared = next((known for known in found if same_memory(value, known.target, target)), None)
        if shared is None:
            shared = Transform(value, source, target, plan.price(value, source, target))
            found.append(shared)
        if reader is None:
            shared.is_output = True
        elif reader not in shared.readers:
            shared.readers.append(reader)
    return found
