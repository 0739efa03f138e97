"""What classes of Relay's expressions and types are: names for nodes of the tree."""

from typing import Any


class Kind(type):
    """Classes whose calls make nodes of the tree, and whose instances are those nodes."""

    node: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)
