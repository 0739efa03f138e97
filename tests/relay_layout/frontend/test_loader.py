"""Models by name and by file, and what cannot be loaded."""

from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from tvm import IRModule

from relay_layout import models
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx, load_model

BUILT_IN = (
    "convnext_tiny, densenet121, efficientnet_b0, inception_v3, mobilenet_v2, mobilenet_v3_large, resnet18, "
    "resnet50, squeezenet1_1, unet, vgg16, yolo"
)


def _shape(module: Any) -> list[int]:
    return [int(extent) for extent in module["main"].params[0].ty.shape]


def _message(model: Any, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(model, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_module_passes_through() -> None:
    module = load_model("squeezenet1_1")
    assert load_model(module) is module
    message = _message(module, input_shapes={"input": (1, 3, 64, 64)})
    assert message == "input shapes cannot be given for a module, which has its own"


def test_module_without_main() -> None:
    assert _message(IRModule({})) == "the module has no function 'main', which is what is compiled"


@pytest.mark.parametrize("model", [None, 3, ["resnet18"]], ids=["nothing", "a number", "a list"])
def test_what_is_no_model(model: Any) -> None:
    assert _message(model) == (
        f"a {type(model).__name__} is no model: give the path of a file, the name of a built-in network, "
        "a Relax module, an onnx.ModelProto or a torch.export.ExportedProgram"
    )


def test_shapes_without_names_of_inputs() -> None:
    with pytest.raises(ModelError) as raised:
        load_model("resnet18", input_shapes=[(1, 3, 64, 64)])  # type: ignore[arg-type]
    assert str(raised.value) == (
        "input_shapes maps inputs to shapes, such as {'input': (1, 3, 224, 224)}, but is [(1, 3, 64, 64)]"
    )


def test_a_torch_module_lacks_examples() -> None:
    torch = pytest.importorskip("torch")
    assert _message(torch.nn.ReLU()) == (
        "a torch module needs example inputs, in a tuple: relay_layout.from_torch(module, (example,))"
    )


def test_built_in_network() -> None:
    assert _shape(load_model("squeezenet1_1")) == [1, 3, 224, 224]
    module = load_model("squeezenet1_1", input_shapes={"input": (2, 3, 64, 48)})
    assert _shape(module) == [2, 3, 64, 48]


def test_built_in_name_comes_before_a_file(folder: Path) -> None:
    Path("resnet18").write_text("no model")
    assert _shape(load_model("resnet18")) == [1, 3, 224, 224]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"data": (1, 3, 64, 64)}, "model 'resnet18' has no input 'data'; its inputs are input"),
        ({"input": (1, 3, 64)}, "model 'resnet18': input 'input' is N,3,H,W, not 1,3,64"),
        ({"input": (1, 4, 64, 64)}, "model 'resnet18': input 'input' is N,3,H,W, not 1,4,64,64"),
        (
            {"input": (1, 3, 0, 64)},
            "model 'resnet18': input 'input': the given shape 1,3,0,64 has an extent below 1",
        ),
        (
            {"input": (1, 3, 10**9, 10**9)},
            "model 'resnet18': input 'input': the given shape 1,3,1000000000,1000000000 has more elements "
            "than any machine's memory holds",
        ),
    ],
)
def test_wrong_shape_for_a_built_in_network(shapes: Any, message: str) -> None:
    assert _message("resnet18", input_shapes=shapes) == message


def test_onnx_file_and_model_object(folder: Path) -> None:
    network = models.build("resnet18", width=0.125, batch="N", image_size=64)
    models.export_onnx(network, "small.ONNX")
    shapes = {"input": (2, 3, 64, 64)}
    assert _shape(load_model("small.ONNX", input_shapes=shapes)) == [2, 3, 64, 64]
    model = models.to_onnx(network)
    assert tvm_ffi.structural_equal(load_model(model), from_onnx(model), map_free_vars=True)


def test_no_such_model(folder: Path) -> None:
    assert _message("x.onnx") == f"model 'x.onnx': no such file; built-in models are {BUILT_IN}"
    assert _message("") == "the model's path is empty"
    assert _message("resnet19") == f"model 'resnet19': no such file; built-in models are {BUILT_IN}"
    assert _message(folder) == f"model '{folder}' is a directory, not a model file"


@pytest.mark.parametrize("ending", [".onnx", ".pt2", ".tflite", ".relay", ".json"])
def test_a_device_is_no_model(ending: str, tmp_path: Path) -> None:
    if ending == ".pt2":
        pytest.importorskip("torch")
    model = tmp_path / f"model{ending}"
    model.symlink_to("/dev/null")
    assert _message(model) == f"model '{model}': it is a device, not a file"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("m.jsonl", "a tuning log, for --tuning-records"),
        (
            "m.pte",
            "an ExecuTorch program, compiled already; torch.export.save writes its module as .pt2",
        ),
        (
            "m.pt",
            "what torch.save or torch.jit.save wrote: load it, and give relay_layout.from_torch the module "
            "with example inputs",
        ),
    ],
)
def test_files_of_other_kinds(folder: Path, name: str, what: str) -> None:
    Path(name).write_text("x")
    assert _message(name) == f"model '{name}' is no model but {what}"


@pytest.mark.parametrize("name", ["m.bin", "m"])
def test_unknown_kind(folder: Path, name: str) -> None:
    Path(name).write_text("x")
    assert _message(name) == (
        f"model '{name}': its suffix names no kind of model; "
        "supported is .onnx, .pt2, .tflite, .relay, .txt, .json"
    )
