"""Elements that are picked along axes of any size, or as many as the data say, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from relay_layout.errors import InputError
from relay_layout.frontend import load_model
from tests.relay_layout.frontend.onnx.test_counted import Array, check, model_of

RANDOM = np.random.default_rng(5)


def rows(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype("float32")


SHAPES = [(2, 3, 4), (0, 2, 3), (2, 0, 3), (1, 1, 1)]

NONE = {
    "constant": "v, i = TopK <axis={axis}> (x, z)",
    "computed": "n = Shape <start={axis}, end=3> (x)  n0 = Slice (n, z, o)  k = Sub (n0, n0) "
    "v, i = TopK <axis={axis}> (x, k)",
    "for some sizes": "n = Shape <start={axis}, end=3> (x)  n0 = Slice (n, z, o)  k = Div (n0, nine) "
    "v, i = TopK <axis={axis}> (x, k)",
}


@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("kind", NONE)
@pytest.mark.parametrize(
    "after",
    [
        "y = Transpose (v)",
        "y = Reshape (v, m)",
        "u = Unsqueeze (v, z)  y = Squeeze (u, z)",
        "y = Flatten (i)",
    ],
)
def test_none_of_the_best(kind: str, axis: int, after: str, tmp_path: Path) -> None:
    nodes = f"{NONE[kind].format(axis=axis)}  {after}"
    constants = {"z": [0], "o": [1], "nine": [9], "m": [-1]}
    used = {
        name: np.array(value)
        for name, value in constants.items()
        if f" {name})" in nodes or f", {name}," in nodes
    }
    model = model_of(nodes, "float[n,c,h] x", f"{'int64' if '(i)' in after else 'float'} y", used)
    check(model, [{"x": rows(*shape)} for shape in SHAPES], tmp_path)


@pytest.mark.parametrize("axis", [0, 1])
def test_as_many_of_the_best_as_another_input_says(axis: int, tmp_path: Path) -> None:
    nodes = f"v, i = TopK <axis={axis}> (x, k)  y = Transpose (v)"
    model = model_of(nodes, "float[n,c] x, int64[1] k", "float[a,b] y, int64[a,b] i")
    feeds = [{"x": rows(3, 4), "k": np.array([number])} for number in (0, 1, 3)]
    check(model, [*feeds, {"x": rows(0, 0), "k": np.array([0])}], tmp_path)


def test_no_more_of_the_best_than_there_are(tmp_path: Path) -> None:
    model = model_of("v, i = TopK (x, k)", "float[n,c] x", "float[n,k] v, int64[n,k] i", {"k": np.array([3])})
    session = check(model, [{"x": rows(2, 3)}, {"x": rows(0, 5)}], tmp_path)
    with pytest.raises(InputError) as error:
        session.run({"x": rows(2, 2)})
    expected = "the model was exported for inputs of which 3 <= x.shape[1], got x.shape[1] = 2"
    assert str(error.value) == expected


def test_no_more_of_the_best_than_the_data_say(tmp_path: Path) -> None:
    nodes = "p = NonZero (x)  t = Transpose (p)  r = GatherND (x, t)  v, i = TopK (r, k)"
    model = model_of(nodes, "float[n] x", "float[3] v, int64[3] i", {"k": np.array([3])})
    feeds = [{"x": np.array([0, 1, 3, 0, 2], "float32")}, {"x": np.array([1, 7, 3, 5, 2], "float32")}]
    session = check(model, feeds, tmp_path)
    with pytest.raises(InputError) as error:
        session.run({"x": np.array([0, 5, 3], "float32")})
    assert str(error.value) == "inputs: of their data the model makes a tensor [2], which it reads as [3]"


def test_elements_at_no_places(tmp_path: Path) -> None:
    constants = {"p": np.zeros((0, 2), "int64")}
    model = model_of("y = GatherElements <axis=0> (x, p)", "float[n,c] x", "float[a,b] y", constants)
    check(model, [{"x": rows(*shape)} for shape in ((3, 2), (0, 4))], tmp_path)


@pytest.mark.parametrize("fill", [1, 0])
def test_places_of_a_repeated_number_are_as_many_as_it(fill: int, tmp_path: Path) -> None:
    nodes = f"n = Shape (x)  c = ConstantOfShape <value = int64[1] {{{fill}}}> (n)  y = NonZero (c)"
    model = model_of(nodes, "float[n] x", "int64[a,b] y")
    assert ("places_of_nonzero" in str(load_model(model).script())) == (fill == 0)
    check(model, [{"x": rows(length)} for length in (5, 1, 0)], tmp_path)
