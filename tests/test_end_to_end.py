"""Networks from file to answer: every layout agrees with ONNX Runtime on the same file."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout import models

ort = pytest.importorskip("onnxruntime")

LAYOUTS = ("auto", "NCHW", "NHWC", "NCHW8c", "NCHW16c")
NETWORKS = ("mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1", "vgg16")
TOLERANCE = 1e-3
"""Largest difference allowed, as a share of the largest output."""


def is_quick(name: str, batch: int, layout: str) -> bool:
    """Every network, every layout and several images, but not all of them with all others."""
    if batch > 1:
        return (name, layout) == ("resnet18", "auto")
    return layout == "auto" or name in ("mobilenet_v2", "resnet18")


def relative_error(reference: np.ndarray, output: np.ndarray) -> float:
    return float(np.abs(reference - output).max() / np.abs(reference).max())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """Small copies of the built-in networks as ONNX files, with ONNX Runtime's answers, made once."""
    folder = tmp_path_factory.mktemp("networks")
    made: dict[tuple[str, int], tuple[Path, np.ndarray, np.ndarray]] = {}

    def export(
        name: str, batch: int, image_size: int, width: float = 1.0
    ) -> tuple[Path, np.ndarray, np.ndarray]:
        key = (name, batch)
        if key not in made:
            path = folder / f"{name}_{batch}.onnx"
            network = models.build(name, batch=batch, image_size=image_size, width=width)
            models.export_onnx(network, path)
            image = np.random.default_rng(7).standard_normal(
                (batch, 3, image_size, image_size), dtype="float32"
            )
            session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            made[key] = (path, image, session.run(None, {"input": image})[0])
        return made[key]

    return export


@pytest.mark.parametrize(
    ("name", "batch", "layout"),
    [
        pytest.param(*case, marks=[] if is_quick(*case) else [pytest.mark.slow])
        for case in product(NETWORKS, (1, 3), LAYOUTS)
    ],
)
def test_every_layout_agrees_with_onnx_runtime(
    exported, tmp_path: Path, name: str, batch: int, layout: str
) -> None:
    # A quarter of vgg16's channels: its 138 million weights would take most of the suite's time.
    width = 0.25 if name == "vgg16" else 1.0
    path, image, reference = exported(name, batch, 64, width)
    compiled = relay_layout.compile(path, desired_layout=layout)
    artifact = tmp_path / "network.rla"
    compiled.save(artifact)
    output = relay_layout.load(artifact).run({"input": image})["output"]
    assert relative_error(reference, output) < TOLERANCE
    assert compiled.report["layout_transforms"] <= 2
    assert compiled.report["layout_transforms_weights"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_full_size_agrees_with_onnx_runtime(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, name: str, batch: int, layout: str
) -> None:
    path = tmp_path / "network.onnx"
    models.export_onnx(models.build(name, batch=batch), path)
    image = np.random.default_rng(7).standard_normal((batch, 3, 224, 224), dtype="float32")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    reference = session.run(None, {"input": image})[0]
    compiled = relay_layout.compile(path, desired_layout=layout)
    compiled.save(tmp_path / "network.rla")
    output = relay_layout.load(tmp_path / "network.rla").run({"input": image})["output"]
    assert relative_error(reference, output) < TOLERANCE
    assert compiled.report["conversion_seconds"] < 0.2 * compiled.report["compile_seconds"]
    assert compiled.report["layout_transforms"] <= 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_trained_digits_are_classified_as_onnx_runtime_does(tmp_path: Path, layout: str) -> None:
    data = Path(__file__).parent / "data" / "digits"
    split = np.load(data / "test_split.npz")
    images, labels = split["images"], split["labels"]
    session = ort.InferenceSession(str(data / "digits.onnx"), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    reference = session.run(None, {name: images})[0].argmax(axis=1)
    compiled = relay_layout.compile(
        data / "digits.onnx", desired_layout=layout, input_shapes={name: images.shape}
    )
    compiled.save(tmp_path / "digits.rla")
    session = relay_layout.load(tmp_path / "digits.rla")
    output = next(iter(session.run({name: images}).values())).argmax(axis=1)
    assert (output == reference).all()
    assert (output == labels).mean() > 0.98


def test_digits_with_symbolic_batch(tmp_path: Path) -> None:
    data = Path(__file__).parent / "data" / "digits"
    split = np.load(data / "test_split.npz")
    compiled = relay_layout.compile(data / "digits.onnx")
    compiled.save(tmp_path / "digits.rla")
    session = relay_layout.load(tmp_path / "digits.rla")
    name = session.inputs[0].name
    everything = next(iter(session.run({name: split["images"]}).values()))
    for batch in (1, 7):
        output = next(iter(session.run({name: split["images"][:batch]}).values()))
        np.testing.assert_allclose(output, everything[:batch], rtol=1e-4, atol=1e-4)


def test_stock_tvm_takes_the_pass_and_the_pipeline() -> None:
    import tvm
    from tvm import relax

    network = models.build("resnet18", image_size=32, width=0.25)
    module = models.to_relax(network)
    converted = relay_layout.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module)
    assert 'data_layout="NHWC"' in converted.script(show_meta=False)
    image = np.random.default_rng(0).standard_normal((1, 3, 32, 32), dtype="float32")
    outputs = []
    target = tvm.target.Target({"kind": "llvm", "num-cores": 2})
    for pipeline in (relay_layout.pipeline("native"), "default"):
        machine = relax.VirtualMachine(tvm.compile(module, target, relax_pipeline=pipeline), tvm.cpu())
        outputs.append(machine["main"](tvm.runtime.tensor(image)).numpy())
    assert relative_error(outputs[1], outputs[0]) < TOLERANCE


def test_report_is_json(tmp_path: Path) -> None:
    compiled = relay_layout.compile("squeezenet1_1", input_shapes={"input": (1, 3, 64, 64)})
    report = json.loads(json.dumps(compiled.report))
    assert {
        "ops",
        "layout_transforms",
        "layout_transform_bytes",
        "solver",
        "kernels",
        "compile_seconds",
    } <= set(report)
    assert report["kernels"]["fallback"] == 0
    assert report["solver"]["status"] == "optimal"
