"""Einsums of tensors as matrix products, which have kernels; of several tensors two at a time.

Subscripts of two are of four kinds: those that both operands and the result have (a batch), those that both
operands have alone (what is summed over), and those of the result and one operand, which are rows or columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Constant, Expression, Extent, dtype_of, operator_name, rebuild_functions, shape_of

OPERANDS = 2
"""Operands of an einsum that is a matrix product."""

_USUAL_EXTENT = 256
"""That is assumed where it is not known."""


def contractions_as_products(module: tvm.IRModule) -> tvm.IRModule:
    """The module with matmuls of permuted tensors in the place of einsums that are such products.

    Others stay: of one tensor, of other numbers than floats, with diagonals, with "...", with subscripts that
    one operand alone has, and those that sum nothing.
    """
    return rebuild_functions(module, lambda function: _Products().visit_expr(function))


@mutator
class _Products(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) != "einsum":
            return call
        operands = list(call.args[0]) if isinstance(call.args[0], relax.Tuple) else []
        if len(operands) < OPERANDS or not dtype_of(call).startswith("float"):
            return call
        if any(shape_of(operand) is None for operand in operands):
            return call
        terms = terms_of(str(call.attrs.subscripts))
        if terms is None or len(terms) != len(operands) + 1:
            return call
        if len(operands) > OPERANDS:
            return self._in_pairs(operands, terms) if set("".join(terms)) > set(terms[-1]) else call
        product = self._of_two(operands, terms)
        return call if product is None else product

    def _of_two(self, operands: Sequence[Expression], terms: Sequence[str]) -> Expression | None:
        """A product; None where it is none."""
        left, right, result = terms
        if _columns_are_first(operands, left, right, result):
            operands, left, right = operands[::-1], right, left
        form = product_form(left, right, result)
        return None if form is None else self._product(operands, (left, right), form)

    def _in_pairs(self, operands: Sequence[Expression], terms: Sequence[str]) -> Expression:
        """Of the two that take the fewest multiplications first."""
        *left, result = terms
        given = list(operands)
        extents = _extents(given, left)

        def size(letters: Iterable[str]) -> int:
            known = (extents[letter] for letter in letters)
            return prod(extent if isinstance(extent, int) else _USUAL_EXTENT for extent in known)

        def cost(pair: tuple[int, ...]) -> tuple[int, int]:
            one, other = (left[place] for place in pair)
            return size({*one, *other}), size(_kept(left, pair, result))

        while len(given) > 1:
            pair = min(combinations(range(len(given)), OPERANDS), key=cost)
            kept = _kept(left, pair, result) if len(given) > OPERANDS else result
            each = [left[place] for place in pair] + [kept]
            chosen = [given[place] for place in pair]
            found = self._of_two(chosen, each)
            if found is None:
                found = relax.op.einsum(chosen, f"{each[0]},{each[1]}->{kept}")
            for place in reversed(pair):
                del given[place], left[place]
            given.insert(pair[0], self.builder_.emit(found))
            left.insert(pair[0], kept)
        return given[0]

    def _product(self, operands: Sequence[Expression], terms: Sequence[str], form: "Form") -> Expression:
        emit = self.builder_.emit
        extents = _extents(operands, terms)

        def arranged(operand: Expression, term: str, axes: Sequence[str]) -> Expression:
            """``operand`` with an axis for each of ``axes``: the product of its letters' extents, or one."""
            order = [term.index(letter) for letter in "".join(axes) if letter in term]
            if order != sorted(order):
                operand = emit(relax.op.permute_dims(operand, order))
            if [len(axis) for axis in axes] == [1] * len(term):
                return operand
            shape = [prod(extents[letter] for letter in axis if letter in term) for axis in axes]
            return emit(relax.op.reshape(operand, shape))

        left = arranged(operands[0], terms[0], [*form.batch, *form.rows, form.depth])
        # Of what both have in front, the second operand has less: what is missing there is one.
        shared = [letter if letter in terms[1] else "" for letter in form.batch]
        while shared and not shared[0]:
            shared.pop(0)
        right = arranged(operands[1], terms[1], [*shared, form.depth, form.columns])
        found = emit(relax.op.matmul(left, right))
        letters = form.batch + "".join(form.rows) + form.columns
        if [*form.rows, form.columns] != list(letters[len(form.batch) :]):
            found = emit(relax.op.reshape(found, [extents[letter] for letter in letters]))
        if letters == form.result:
            return found
        return relax.op.permute_dims(found, [letters.index(letter) for letter in form.result])


@dataclass(frozen=True)
class Form:
    """The letters of a product ``[*batch, *rows, depth] x [*batch, depth, columns]``, and of the result.

    Each letter of the batch is an axis, of which the second operand may have one element. So is each of
    ``rows``, an empty one where there are none; ``depth`` and ``columns`` are one axis each.
    """

    batch: str
    rows: tuple[str, ...]
    depth: str
    columns: str
    result: str


def _extents(operands: Sequence[Expression], terms: Sequence[str]) -> dict[str, Extent]:
    """By letter."""
    return {
        letter: extent
        for operand, term in zip(operands, terms, strict=True)
        for letter, extent in zip(term, shape_of(operand) or (), strict=True)
    }


def _kept(terms: Sequence[str], pair: Sequence[int], result: str) -> str:
    """The letters of two terms that the others or the result have, in their order."""
    others = result + "".join(term for place, term in enumerate(terms) if place not in pair)
    both = dict.fromkeys(terms[pair[0]] + terms[pair[1]])
    return "".join(letter for letter in both if letter in others)


def terms_of(subscripts: str) -> list[str] | None:
    """The letters of each operand and of the result; None where a term is no list of different letters."""
    before, arrow, after = subscripts.replace(" ", "").partition("->")
    if not arrow:
        after = "".join(sorted(letter for letter in set(before) - {","} if before.count(letter) == 1))
    terms = [*before.split(","), after]
    if any(len(set(term)) != len(term) or not (term.isalpha() or not term) for term in terms):
        return None
    return terms


def product_form(left: str, right: str, result: str) -> Form | None:
    """How an einsum of two terms is a product of matrices; None where it is none."""
    shared = set(left) & set(right)
    depth = "".join(letter for letter in left if letter in shared and letter not in result)
    if not depth or (set(left) | set(right)) - set(depth) != set(result):
        return None
    columns = "".join(letter for letter in result if letter in right and letter not in left)
    if not shared & set(result):
        rows = tuple(letter for letter in result if letter in left)
        return Form("", rows or ("",), depth, columns, result)
    # The last of the rows is that of matrices; of others each index has matrices, by the same second operand.
    kept = "".join(letter for letter in result if letter in left)
    row = next((letter for letter in reversed(kept) if letter not in right), "")
    return Form(kept.replace(row, "") if row else kept, (row,), depth, columns, result)


def _columns_are_first(operands: Sequence[Expression], left: str, right: str, result: str) -> bool:
    """Whether to exchange the operands: the first one is a constant matrix, or has the result's last axis."""
    constant = [isinstance(operand, Constant) for operand in operands]
    if constant[0] != constant[1] and not set(left) & set(right) & set(result):
        return constant[0]
    return bool(result) and result[-1] in left and result[-1] not in right
