"""Einsums of tensors become matrix products, of several two at a time."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.contraction import product_form, terms_of
from tests.layout_graphs import compiled
from tests.module_operators import canonical_operators
from tests.relax_modules import module_giving

EXTENTS = {"a": 2, "b": 3, "c": 5, "d": 4, "e": 1, "f": 7}


def einsum(subscripts: str, constants: tuple[int, ...] = (), dtype: str = "float32") -> tvm.IRModule:
    """Operands of :data:`EXTENTS`; those at the places ``constants`` are some."""
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    arrays = operands(subscripts, dtype)
    parameters = [
        relax.Var(f"x{place}", relax.TensorType([EXTENTS[letter] for letter in term], dtype))
        for place, term in enumerate(terms)
    ]
    given = [
        relax.const(arrays[place]) if place in constants else each for place, each in enumerate(parameters)
    ]
    left = [each for place, each in enumerate(parameters) if place not in constants]
    return module_giving(relax.op.einsum(given, subscripts), *left)


def operands(subscripts: str, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    return [rng.integers(-4, 5, [EXTENTS[letter] for letter in term]).astype(dtype) for term in terms]


def run(module: tvm.IRModule, arrays: Sequence[np.ndarray]) -> np.ndarray:
    machine = compiled(canonicalize(module))
    found: np.ndarray = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    return found


def check(subscripts: str, constants: tuple[int, ...] = ()) -> None:
    arrays = operands(subscripts)
    given = [array for place, array in enumerate(arrays) if place not in constants]
    found = run(einsum(subscripts, constants), given)
    np.testing.assert_array_equal(found, np.einsum(subscripts, *arrays), f"einsum {subscripts} {constants}")


def random_subscripts(seed: int) -> str:
    """Two terms, and a result of letters that at least one of them has."""
    rng = random.Random(seed)
    letters = list(EXTENTS)
    left, right = (rng.sample(letters, rng.randint(1, 4)) for _ in range(2))
    kept = [
        letter
        for letter in letters
        if letter in left + right and rng.random() < (0.4 if letter in left and letter in right else 0.9)
    ]
    rng.shuffle(kept)
    return f"{''.join(left)},{''.join(right)}->{''.join(kept)}"


@pytest.mark.parametrize("seed", range(24))
def test_random_einsums(seed: int) -> None:
    check(random_subscripts(seed), random.Random(seed).choice([(), (), (0,), (1,)]))


@pytest.mark.parametrize(
    ("subscripts", "expected"),
    [
        ("ab,bc->ac", ["matmul"]),
        ("ab,bc", ["matmul"]),
        ("abc,cd->abd", ["matmul"]),
        ("abc,dc->abd", ["permute_dims", "matmul"]),
        # Attention.
        ("abcf,abdf->abcd", ["permute_dims", "matmul"]),
        ("abcd,abdf->abcf", ["matmul"]),
        # Relative positions: matrices that all images share.
        ("abcf,bdf->abcd", ["permute_dims", "matmul"]),
        ("abcf,cdf->abcd", ["permute_dims", "permute_dims", "matmul", "permute_dims"]),
        # Columns of the result are its last axis, whichever operand has them.
        ("bc,ab->ac", ["matmul"]),
    ],
)
def test_what_products_are_made_of(subscripts: str, expected: list[str]) -> None:
    assert canonical_operators(einsum(subscripts)) == expected
    check(subscripts)


def test_a_constant_matrix_is_the_second_operand() -> None:
    assert canonical_operators(einsum("cb,ab->ca", (0,))) == ["matmul", "permute_dims"]
    assert canonical_operators(einsum("ab,cb->ac", (1,))) == ["matmul"]


@pytest.mark.parametrize(
    "subscripts",
    ["aa->a", "ab->ba", "a,b->ab", "a,b,c->abc", "ab,ab->ab", "ab,b->a", "ab,bc->a", "aab,bc->ac"],
)
def test_others_stay(subscripts: str) -> None:
    assert ("einsum" in canonical_operators(einsum(subscripts))) == (subscripts != "ab,b->a")


@pytest.mark.parametrize(
    ("subscripts", "expected"),
    [
        # 2x3 by 3x5 is the least.
        ("cd,ab,bc->ad", ["matmul", "matmul"]),
        ("bc,cd,de->be", ["matmul", "matmul"]),
        ("ab,ab,bc->ac", ["einsum", "matmul"]),
        ("ab,bc,cd,df->af", ["matmul", "matmul", "matmul"]),
    ],
)
def test_several_tensors(subscripts: str, expected: list[str]) -> None:
    assert canonical_operators(einsum(subscripts)) == expected
    check(subscripts)


def test_no_product_of_vectors_as_large_as_a_matrix() -> None:
    operators = canonical_operators(einsum("f,c,fc->"))
    assert [name for name in operators if name != "reshape"] == ["matmul", "matmul"]
    check("f,c,fc->")


@pytest.mark.parametrize("seed", range(12))
def test_random_einsums_of_three(seed: int) -> None:
    rng = random.Random(seed)
    terms = ["".join(rng.sample(list(EXTENTS), rng.randint(1, 3))) for _ in range(3)]
    result = [letter for letter in EXTENTS if letter in "".join(terms) and rng.random() < 0.5]
    rng.shuffle(result)
    check(f"{','.join(terms)}->{''.join(result)}")


def test_integers_stay() -> None:
    assert canonical_operators(einsum("ab,bc->ac", dtype="int32")) == ["einsum"]


def test_a_symbolic_batch() -> None:
    batch = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([batch, 3, 5, 8], "float32"))
    y = relax.Var("y", relax.TensorType([3, 6, 8], "float32"))
    rng = np.random.default_rng(0)
    arrays = [rng.random((2, 3, 5, 8), "float32"), rng.random((3, 6, 8), "float32")]
    found = run(module_giving(relax.op.einsum([x, y], "bhwc,hkc->bhwk"), x, y), arrays)
    np.testing.assert_allclose(found, np.einsum("bhwc,hkc->bhwk", *arrays), rtol=1e-5)


def test_a_symbolic_extent_of_three() -> None:
    batch = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([batch, 5], "float32"))
    y, z = (relax.Var(name, relax.TensorType([5, 5], "float32")) for name in "yz")
    arrays = [np.random.default_rng(0).random(shape, "float32") for shape in ((3, 5), (5, 5), (5, 5))]
    module = module_giving(relax.op.einsum([x, y, z], "ni,ij,jk->nk"), x, y, z)
    assert canonical_operators(module) == ["matmul", "matmul"]
    np.testing.assert_allclose(run(module, arrays), np.einsum("ni,ij,jk->nk", *arrays), rtol=1e-5)


def test_terms() -> None:
    assert terms_of("ij, jk") == ["ij", "jk", "ik"]
    assert terms_of("ij,ij") == ["ij", "ij", ""]
    assert terms_of("...j,jk->...k") is None
    assert terms_of("ii->i") is None


def test_a_form_has_every_letter_once() -> None:
    form = product_form("bhwc", "hkc", "bhwk")
    assert form is not None
    assert (form.batch, form.rows, form.depth, form.columns) == ("bh", ("w",), "c", "k")
