"""Descriptors of operands, and what no simulation sees: the inside of the device functions."""

import re

import pytest

from topi_ext.cuda.codegen.wgmma import LOADED, WGMMA_DTYPES, fence, layout_word, multiply, row_bytes_of


@pytest.mark.parametrize(
    ("row_bytes", "word"),
    [(128, 1 << 30 | 64), (64, (2 << 30 | 32) - (1 << 32)), (32, (3 << 30 | 16) - (1 << 32))],
)
def test_the_upper_half_of_a_descriptor(row_bytes: int, word: int) -> None:
    """Eight rows over 16 in bits 32 to 45, the permutation in 62 and 63, as a signed number."""
    assert layout_word(row_bytes) == word
    assert row_bytes_of(word) == row_bytes


@pytest.mark.parametrize("dtype", WGMMA_DTYPES)
def test_operands_have_their_places_in_the_instruction(dtype: str) -> None:
    """No simulation sees what is inside the device function: sums, left, right."""
    left = (0, 0) if dtype in LOADED else (0,)
    source = str(multiply(dtype, 16, (0, 0), 0, layout_word(128), left).args[-1].value)
    named = re.findall(r'"\+?[frl]"\((?:upper \| static_cast<unsigned>\(|__float_as_uint\()?(\w+)', source)
    (text,) = re.findall(r'"({%0.*), add', source)
    places = [int(number) for number in re.findall(r"%(\d+)", text)]
    loaded = 4 if dtype in LOADED else 1
    assert [named[place] for place in places] == ["sums"] * 8 + ["left"] * loaded + ["right"]
    assert sorted(places) == list(range(len(named)))


def test_left_operands_in_registers_are_fenced_as_the_words_that_products_take() -> None:
    """A float that became a word behind the fence would be another register."""
    product = multiply("tf32", 16, (0, 0), 0, layout_word(128), (0, 4))
    source = str(fence(product, 8).args[-1].value)
    assert [f'"+r"(word{place})' in source for place in range(9)] == [True] * 8 + [False]
    assert source.count('"+f"(sums[') == 8
    assert source.index("__float_as_uint(left[7])") < source.index("wgmma.fence") < source.index("left[0] =")
