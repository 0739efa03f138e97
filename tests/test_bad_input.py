"""The command line on bad input: one line that says what and where, exit status 2, nothing left behind."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import relay_layout
import tuning_logs
from relay_layout.artifact import read_artifact, write_artifact
from relay_layout.cli.main import main

onnx = pytest.importorskip("onnx")

DIGITS = Path(__file__).parent / "data" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "digits.rla"
    relay_layout.compile(DIGITS, input_shapes={"input": (2, 1, 8, 8)}).save(path)
    return path


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that ``main`` prints for ``words``, after checking how it ended and what it left."""
    before = sorted(os.listdir("."))
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert sorted(os.listdir(".")) == before
    return lines[0].removeprefix("relay-layout: error: ")


def conv1d_model() -> "onnx.ModelProto":
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = helper.make_tensor("w", kind, [4, 3, 3], [1.0] * 36)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="c")],
        "one_dimension",
        [helper.make_tensor_value_info("x", kind, [1, 3, 8])],
        [helper.make_tensor_value_info("y", kind, [1, 4, 6])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def unknown_operator_model() -> "onnx.ModelProto":
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("FancyOp", ["x"], ["y"], name="fancy", domain="my.domain")],
        "unknown",
        [helper.make_tensor_value_info("x", kind, [1, 3])],
        [helper.make_tensor_value_info("y", kind, [1, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def test_missing_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["compile", "nothere.onnx", "-o", "a.rla"], capsys) == (
        "model 'nothere.onnx': no such file; "
        "built-in models are convnext_tiny, densenet121, efficientnet_b0, inception_v3, mobilenet_v2, "
        "mobilenet_v3_large, resnet18, resnet50, squeezenet1_1, unet, vgg16, yolo"
    )


def test_truncated_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cut.onnx").write_bytes(DIGITS.read_bytes()[:5000])
    assert refused(["compile", "cut.onnx", "-o", "a.rla"], capsys) == (
        "model 'cut.onnx' is not a readable ONNX file (5000 bytes): truncated, damaged or of another format"
    )


def test_unknown_operator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(unknown_operator_model(), "unknown.onnx")
    assert refused(["compile", "unknown.onnx", "-o", "a.rla"], capsys) == (
        "model 'unknown.onnx': these operators are not supported: my.domain.FancyOp (node 'fancy'): "
        "export the model without them, or say what they are with "
        "relay_layout.frontend.onnx.register_converter"
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("input:1,4,224,224", "model 'resnet18': input 'input' is N,3,H,W, not 1,4,224,224"),
        ("image:1,3,224,224", "model 'resnet18' has no input 'image'; its inputs are input"),
        (
            "input:1,3,x",
            "compile: argument --input-shape: expected NAME:1,3,224,224 with numbers from 1 on, "
            "got 'input:1,3,x'; see relay-layout compile --help",
        ),
    ],
)
def test_wrong_input_shape(
    folder: Path, capsys: pytest.CaptureFixture[str], shape: str, message: str
) -> None:
    assert refused(["compile", "resnet18", "-o", "a.rla", "--input-shape", shape], capsys) == message


def test_unknown_layout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["compile", "resnet18", "-o", "a.rla", "--desired-layout", "NCWH!"], capsys) == (
        "layout 'NCWH!': unexpected character '!' at position 4; write axes as capital letters and blocks "
        "as a number and a small letter, e.g. 'NCHW16c'"
    )


def test_layout_that_does_not_fit_the_operator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(conv1d_model(), "conv1d.onnx")
    assert refused(["compile", "conv1d.onnx", "-o", "a.rla", "--desired-layout", "NCHW16c"], capsys) == (
        "layout 'NCHW16c' does not fit nn.conv1d 'y', whose data has the axes N, C and W; use e.g. 'NCW16c'"
    )


def test_unknown_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["compile", "resnet18", "-o", "a.rla", "--target", "warp9"], capsys) == (
        "target 'warp9' is not known; use 'native', one of x86-64-v2, x86-64-v3, x86-64-v4, "
        "an ARM core such as aarch64-cortex-a76, cuda-sm_90, a processor name that LLVM knows, or "
        "TVM's target JSON"
    )


def test_a_report_in_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", "resnet18", "-o", "a.rla", "--report", "nowhere/a.html"]
    assert refused(words, capsys) == f"--report: the folder {os.path.realpath(folder)}/nowhere does not exist"


def test_a_report_in_place_of_the_artifact(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", "resnet18", "-o", "a.html", "--report", "./a.html"]
    assert refused(words, capsys) == "--report: ./a.html is what -o writes; give each a file of its own"


def test_lines_of_a_log_that_are_skipped_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tuning_logs.paths()[0].read_text().partition("\n")[0]
    Path("log.jsonl").write_text(f"garbage\n{record}\n")
    words = ["explain", "squeezenet1_1", "--input-shape", "input:1,3,32,32", "--tuning-records", "log.jsonl"]
    assert main(words) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "relay-layout: tuning records: lines skipped: log.jsonl:1: not JSON: Expecting value at column 1"
    )


@pytest.mark.parametrize("option", ["--tuning-records", "-o"])
def test_what_is_no_log_is_neither_read_nor_written_to(
    option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("page.html").write_text("<html>\n</html>\n")
    words = ["tune", str(DIGITS), "--input-shape", "input:2,1,8,8", option, "page.html"]
    if option != "-o":
        words += ["-o", "log.jsonl"]
    told = refused(words, capsys)
    assert told == (
        "tuning records: page.html is no tuning log: not one of its lines is a record; line 1: not JSON: "
        "Expecting value at column 1"
    )
    assert Path("page.html").read_text() == "<html>\n</html>\n"


def test_flipped_byte(folder: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(artifact.read_bytes())
    (weights,) = [each for each in read_artifact(artifact).manifest.sections if each.name == "weights"]
    content[weights.offset + weights.size // 2] ^= 1
    Path("flipped.rla").write_bytes(content)
    assert refused(["run", "flipped.rla"], capsys) == (
        "flipped.rla: damaged in section weights: checksum mismatch; build or copy the artifact again"
    )


def test_artifact_for_another_machine(
    folder: Path, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = read_artifact(artifact)
    foreign = dict(loaded.manifest.builds[0].target) | {
        "mtriple": "aarch64-linux-gnu",
        "mcpu": "cortex-a76",
        "features": [],
    }
    manifest = json.loads(json.dumps(loaded.manifest.to_json()))
    manifest["builds"][0]["target"] = foreign
    write_artifact(Path("arm.rla"), type(loaded.manifest).from_json(manifest), loaded.contents)
    message = refused(["run", "arm.rla"], capsys)
    assert message.startswith("arm.rla: built for aarch64 (cortex-a76), this machine is ")
    assert message.endswith("; compile it with --target native here")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"input": np.zeros((3, 1, 8, 8), "float32")},
            "input 'input': expected float32 [2, 1, 8, 8], got float32 [3, 1, 8, 8]",
        ),
        (
            {"input": np.zeros((2, 1, 8, 8), "float64")},
            "input 'input': expected float32 [2, 1, 8, 8], got float64 [2, 1, 8, 8]; "
            "convert with .astype('float32')",
        ),
        (
            {"image": np.zeros((2, 1, 8, 8), "float32")},
            "missing input 'input' and unexpected input 'image'; "
            "the model takes 'input' (float32 [2, 1, 8, 8])",
        ),
    ],
)
def test_wrong_arrays(
    folder: Path,
    artifact: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, np.ndarray],
    message: str,
) -> None:
    np.savez("inputs.npz", **arrays)
    assert refused(["run", str(artifact), "--inputs", "inputs.npz"], capsys) == f"inputs.npz: {message}"


def test_array_that_is_not_contiguous_works(artifact: Path) -> None:
    image = np.random.default_rng(0).standard_normal((2, 1, 8, 8), dtype="float32")
    session = relay_layout.load(artifact)
    (expected,) = session.run({"input": image}).values()
    (output,) = session.run({"input": np.asfortranarray(image)}).values()
    np.testing.assert_array_equal(output, expected)
    (output,) = session.run({"input": image[:, :, :, ::-1][:, :, :, ::-1]}).values()
    np.testing.assert_array_equal(output, expected)
