"""Conditions on the sizes of inputs: what they say, and that they are nothing else."""

import pytest
from artifact_harness import make_manifest

from relay_layout.artifact import Condition, Manifest
from relay_layout.artifact.conditions import BROADCASTING
from relay_layout.errors import ArtifactError, InputError

RANKS = {"x": 4, "y": 1}
SHAPES = {"x": (2, 3, 48, 40), "y": (7,)}


@pytest.mark.parametrize(
    "text",
    [
        "x.shape[2] % 4 == 0",
        "2 * x.shape[0] < y.shape[0] + 1",
        "x.shape[2] // 5 >= 9",
        "-x.shape[0] != y.shape[0] - 7",
        "max(x.shape[2], x.shape[3]) == 48",
        "min(x.shape[2], 5) <= 5 and x.shape[0] > 1",
        "x.shape[0] == 1 or not x.shape[0] == 3",
        "trunc(0.45 * float(x.shape[2])) == 21",
        "ceil(x.shape[2] / 5) == 10 and floor(x.shape[2] / 5) == 9",
    ],
)
def test_what_holds(text: str) -> None:
    Condition(text, RANKS).check(SHAPES)


def test_what_does_not_hold_says_the_sizes() -> None:
    with pytest.raises(InputError) as raised:
        Condition("x.shape[2] % y.shape[0] == 0", RANKS).check(SHAPES)
    assert str(raised.value) == (
        "the model was exported for inputs of which x.shape[2] % y.shape[0] == 0, "
        "got x.shape[2] = 48, y.shape[0] = 7"
    )


def test_a_long_condition_is_cut() -> None:
    half, text = "(x.shape[2] // 2)", "y.shape[0]"
    for _ in range(20):
        text = f"max({text} - {half}, 0)"
    with pytest.raises(InputError) as raised:
        Condition(f"{half} == {text} + 1", RANKS).check(SHAPES)
    told, _, got = str(raised.value).partition(", got ")
    cut = f"max(max(max(max(...) - (...), 0) - {half}, 0) - {half}, 0) + 1"
    assert told == f"the model was exported for inputs of which {half} == {cut}"
    assert got == "x.shape[2] = 48, y.shape[0] = 7" + BROADCASTING


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("x.shape[0] - 1 == y.shape[0]", True),
        ("x.shape[2] == y.shape[0] - 6", True),
        ("x.shape[0] == y.shape[0]", False),
        ("x.shape[2] % 4 == 1", False),
        ("x.shape[0] - 1 > y.shape[0]", False),
    ],
)
def test_what_to_do_about_an_extent_of_one(text: str, is_told: bool) -> None:
    with pytest.raises(InputError) as raised:
        Condition(text, RANKS).check(SHAPES)
    assert str(raised.value).endswith(BROADCASTING) == is_told


def test_nothing_is_divided_by_a_size_of_zero() -> None:
    with pytest.raises(InputError):
        Condition("x.shape[2] % y.shape[0] == 0", RANKS).check({**SHAPES, "y": (0,)})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x.shape[4] == 1", "x.shape[4]"),
        ("x.shape[-1] == 1", "x.shape[-1]"),
        ("z.shape[0] == 1", "z.shape[0]"),
        ("x.size == 1", "x.size"),
        ("x.shape[0] ** 9 == 1", "x.shape[0] ** 9"),
        ("1 < x.shape[0] < 3", "1 < x.shape[0] < 3"),
        ("__import__('os').getcwd()", "__import__('os').getcwd()"),
        ("max() == 1", "max()"),
        ("x.shape[0] == '1'", "'1'"),
        ("trunc(x.shape[0], 2) == 1", "trunc(x.shape[0], 2)"),
    ],
)
def test_nothing_else_is_a_condition(text: str, what: str) -> None:
    with pytest.raises(ArtifactError) as raised:
        Condition(text, RANKS)
    assert str(raised.value) == f"{text!r} is no condition on the sizes of inputs: {what}"


@pytest.mark.parametrize("text", ["x.shape[0] ==", "", "(" * 400, "-" * 100000 + "1"], ids=str.__len__)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ArtifactError, match="is no condition") as raised:
        Condition(text, RANKS)
    assert len(str(raised.value)) < 300


def test_what_is_no_number_does_not_hold() -> None:
    with pytest.raises(InputError, match="exported for inputs of which"):
        Condition("ceil(1e999 - 1e999) == x.shape[0]", RANKS).check({"x": (1, 2)})


def test_a_manifest_keeps_them() -> None:
    manifest = make_manifest()
    (name,) = (spec.name for spec in manifest.inputs)
    held = Condition(f"{name}.shape[0] % 2 == 0", {name: 4})
    document = make_manifest(conditions=(held,)).to_json()
    assert document["conditions"] == [held.text]
    assert [condition.text for condition in Manifest.from_json(document).conditions] == [held.text]
    document["conditions"] = ["other.shape[0] == 1"]
    with pytest.raises(ArtifactError, match=r"^conditions\[0\]: 'other.shape\[0\] == 1' is no condition"):
        Manifest.from_json(document)
