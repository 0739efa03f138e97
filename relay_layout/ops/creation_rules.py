"""Operators that make a tensor, or find values in one: their result lies as its readers want it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.graph import Node
from relay_layout.ir import Expression
from relay_layout.layout import Layout
from relay_layout.ops.axis_rule import Labels, axis_label, letters, outer_position, projected


def filled(node: Node) -> Labels | None:
    """One value everywhere, in any layout."""
    result = node.results[0]
    if result.shape is None or any(value.rank for value in node.operands):
        return None
    return Labels((None,) * len(node.operands), (letters(result.rank),))


def filled_arguments(node: Node, layout: Layout, operands: Sequence[Expression]) -> Sequence[Expression]:
    """The shape in memory, and the value."""
    return [_shape(node, layout), *operands]


def broadcast(node: Node) -> Labels | None:
    """Copies along dimensions that the operand lacks or has only one element of."""
    data, result = node.operands[0], node.results[0]
    if data.shape is None or result.shape is None:
        return None
    text = letters(result.rank)
    return Labels((text if data.rank else None,), (text,))


def broadcast_arguments(node: Node, layout: Layout, operands: Sequence[Expression]) -> Sequence[Expression]:
    """The operand, and the shape in memory."""
    return [operands[0], _shape(node, layout)]


def _shape(node: Node, layout: Layout) -> relax.ShapeExpr:
    result = node.results[0]
    own = projected(layout, letters(result.rank), result.shape)
    assert own is not None, "the signature was made for this shape"
    return relax.ShapeExpr(list(own.shape(result.shape or (), Layout.generic(result.rank))))


def encoded(node: Node) -> Labels | None:
    """One-hot: the classes are a new dimension along ``axis``, which stays whole."""
    indices, result = node.operands[0], node.results[0]
    if indices.shape is None or result.shape is None or len(node.operands) != 1:
        return None
    text, new = letters(result.rank), axis_label(node, result)
    return Labels((text.replace(new, ""),), (text,), frozenset(new))


def bucketed(node: Node) -> Labels | None:
    """The bucket of each element, by a vector of boundaries."""
    data = node.operands[0]
    if data.shape is None or not data.rank or len(node.operands) != 2:
        return None
    text = letters(data.rank)
    return Labels((text, None), (text,))


def contracted(node: Node) -> Labels | None:
    """An einsum without blocks: its subscripts name the dimensions in the order they have."""
    terms = _terms(node)
    if terms is None or not node.has_known_ranks:
        return None
    names = _names(terms)
    texts = ["".join(names[letter] for letter in term) for term in terms]
    if [len(text) for text in texts] != [value.rank for value in (*node.operands, *node.results)]:
        return None
    return Labels(tuple(texts[:-1]), (texts[-1],), frozenset(names.values()))


def contracted_attributes(node: Node, layout: Layout) -> Mapping[str, Any]:
    """``subscripts`` with the letters of each term in the order of the new dimensions."""
    terms = _terms(node) or []
    names = _names(terms)
    order = {letter: outer_position(layout, name) for letter, name in names.items()}
    *operands, result = ("".join(sorted(term, key=order.__getitem__)) for term in terms)
    return {"subscripts": f"{','.join(operands)}->{result}"}


def _terms(node: Node) -> list[str] | None:
    """The subscripts of operands and result; None for forms whose dimensions have no name each."""
    text = str(node.attributes.subscripts).replace(" ", "")
    if text.count("->") != 1:
        return None
    operands, result = text.split("->")
    terms = [*operands.split(","), result]
    distinct = all(term.isalpha() and len(set(term)) == len(term) for term in terms)
    return terms if distinct and len(set("".join(terms))) <= 26 else None


def _names(terms: Sequence[str]) -> dict[str, str]:
    return dict(zip(sorted(set("".join(terms))), letters(26), strict=False))
