"""The ``#[metadata]`` section of Relay text: the JSON that ``meta[relay.Constant][0]`` refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from relay_layout.errors import ModelError
from relay_layout.relay.syntax.attribute_table import is_attributes
from relay_layout.relay.syntax.json_nodes import NodeTable
from relay_layout.relay.syntax.json_reader import Builder
from relay_layout.relay.syntax.json_view import Attributes
from relay_layout.relay.syntax.source import shorten
from relay_layout.relay.syntax.tree import AttributeValue, Constant

ErrorAt = Callable[[str], ModelError]
"""Makes the error for the place in the text that refers to the section."""


class MetadataSection:
    """What a section holds: for each type, a list of nodes."""

    def __init__(self, table: NodeTable | None) -> None:
        self._builder = Builder(table) if table is not None else None
        self._lists: dict[str, list[int]] = {}
        if table is not None:
            for key, index in zip(table.keys(table.root) or [], table.data(table.root), strict=False):
                self._lists[key] = table.data(index)

    @staticmethod
    def absent() -> MetadataSection:
        """The section of a text that has none."""
        return MetadataSection(None)

    @staticmethod
    def read(text: str, name: str, first_line: int) -> MetadataSection:
        """Read a section, which starts on the given line of the file.

        Raises ModelError when it is not of this form.
        """
        return MetadataSection(NodeTable(text, name, "metadata", first_line))

    def constant(self, reference: str, error: ErrorAt) -> Constant:
        """The constant that ``meta[relay.Constant][0]`` refers to; one object for one node."""
        builder, node = self._find(reference, error)
        value = builder.build(node)
        if not isinstance(value, Constant):
            raise error(f"expected a constant, found {shorten(reference)}")
        return value

    def attribute(self, reference: str, error: ErrorAt) -> AttributeValue:
        """The value of an attribute."""
        builder, node = self._find(reference, error)
        return builder.build_value(node)

    def call_attributes(self, reference: str, error: ErrorAt) -> Mapping[str, AttributeValue]:
        """All attributes of a call at once."""
        builder, node = self._find(reference, error)
        value = builder.build(node)
        if not isinstance(value, Attributes):
            raise error(f"expected the attributes of a call, found {shorten(reference)}")
        return value.values

    def _find(self, reference: str, error: ErrorAt) -> tuple[Builder, int]:
        key, index = split_reference(reference)
        if self._builder is None:
            raise error(
                f"{shorten(reference)} is not in the file, which has no #[metadata] section; "
                "print the module with astext(show_meta_data=True)"
            )
        nodes = self._lists.get(key, [])
        if len(index) > 9 or int(index) >= len(nodes):
            raise error(
                f"{shorten(reference)} is not in the #[metadata] section, which has {len(nodes)} of its type"
            )
        return self._builder, nodes[int(index)]


def split_reference(reference: str) -> tuple[str, str]:
    """The type and the index in ``meta[type][index]``."""
    key, _, index = reference.removeprefix("meta[").removesuffix("]").partition("][")
    return key, index


def refers_to_attributes(reference: str) -> bool:
    """Whether a reference is to the attributes of a call."""
    return is_attributes(split_reference(reference)[0])
