"""Relay's files as models: text, JSON, params, given shapes."""

import json
from pathlib import Path

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.frontend import from_relay, load_model
from relay_layout.relay.syntax import write_params

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(3,), float32]) { add(%x, %w) }"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file with Relay text."""
    path = tmp_path / "net.relay"
    path.write_text(TEXT)
    return path


def test_text_is_a_model(text: Path) -> None:
    module = load_model(text)
    assert [parameter.name for parameter in module["main"].params] == ["x", "w"]


def test_text_may_be_in_a_txt_file(text: Path) -> None:
    path = text.rename(text.with_suffix(".txt"))
    assert len(load_model(path)["main"].params) == 2


def test_json_is_a_model() -> None:
    path = Path(__file__).parents[2] / "data" / "relay" / "conv_relu.json"
    assert len(load_model(path)["main"].params) == 2


def test_params_may_be_arrays(text: Path) -> None:
    module = load_model(text, params={"w": np.ones(3, "float32")})
    assert [parameter.name for parameter in module["main"].params] == ["x"]


def test_params_may_be_a_file(text: Path) -> None:
    params = text.with_suffix(".params")
    params.write_bytes(write_params({"w": np.ones(3, "float32")}))
    assert [parameter.name for parameter in from_relay(text, params=params)["main"].params] == ["x"]


def test_given_shapes_fill_in_unknown_dimensions(text: Path) -> None:
    module = load_model(text, input_shapes={"x": (2, 3)})
    assert [int(extent) for extent in module["main"].params[0].ty.shape.values] == [2, 3]


def test_given_shapes_reach_what_main_computes(text: Path) -> None:
    module = load_model(text, input_shapes={"x": (2, 3)})
    assert [int(extent) for extent in module["main"].ret_ty.shape.values] == [2, 3]


def error(path: Path, **options: object) -> str:
    """The message of the error, with the folder taken out."""
    with pytest.raises(ModelError) as raised:
        load_model(path, **options)  # type: ignore[arg-type]
    return str(raised.value).replace(f"{path.parent}/", "")


def test_shapes_must_fit_the_file(text: Path) -> None:
    assert error(text, input_shapes={"x": (2, 4)}) == (
        "model 'net.relay': input 'x' has the shape ?,3 in the file, not 2,4"
    )


def test_shapes_are_for_inputs(text: Path) -> None:
    assert error(text, input_shapes={"y": (2, 4)}) == (
        "model 'net.relay' has no input 'y'; its inputs are x, w"
    )


def test_a_place_in_the_text_is_named(text: Path) -> None:
    text.write_text(TEXT.replace("add", "ad"))
    assert error(text) == "net.relay:2:69: there is no operator 'ad'; did you mean add?"


def test_a_params_file_must_be_one(text: Path) -> None:
    assert error(text, params=text) == (
        "net.relay: byte 0: expected a file written by relay.save_param_dict, found other data"
    )


def test_a_params_file_must_exist(text: Path) -> None:
    assert error(text, params=text.parent / "none.params") == "params 'none.params': no such file"


def test_params_are_for_relay_files() -> None:
    with pytest.raises(
        ModelError, match="model 'resnet18' is built in and has weights; params go with Relay's"
    ):
        load_model("resnet18", params={})


def test_json_must_be_json(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"a": 1}))
    assert error(path).startswith("net.json: ")
