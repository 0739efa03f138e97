"""One network emitted to Relax and to ONNX computes the same thing; files appear whole or not at all."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.models import Network, NetworkBuilder, build, export_onnx, to_onnx, to_relax


def _every_operation(batch: int | str) -> Network:
    """Each operation with attributes that differ between rows and columns."""
    builder = NetworkBuilder("every_operation", seed=3)
    data = builder.input("input", (batch, 4, 15, 12))
    left = builder.convolution(
        data, "conv.a", 8, (3, 2), strides=(2, 1), padding=(1, 0, 2, 1), groups=2, bias=True
    )
    left = builder.clip(builder.batch_normalization(left, "bn.a"), "clip.a", -0.5, 1.5)
    right = builder.convolution(data, "conv.b", 8, 3, strides=(2, 1), padding=(2, 1), dilation=(2, 1))
    right = builder.relu(right, "relu.b")
    value = builder.add(left, right, "sum")
    value = builder.max_pool(value, "pool", (2, 3), strides=2, padding=(1, 0, 0, 0), ceil_mode=True)
    value = builder.concatenate([value, value], "concat")
    value = builder.convolution(value, "depthwise", 16, 3, padding=1, groups=16)
    flat = builder.dense(builder.flatten(value, "flat"), "dense", 6)
    pooled = builder.flatten(builder.global_average_pool(value, "gap"), "pooled")
    return builder.build({"scores": flat, "features": pooled})


def _every_operation_of_newer_networks(batch: int | str) -> Network:
    """The operations that the rest of the built-in networks add."""
    builder = NetworkBuilder("newer", seed=4)
    data = builder.input("input", (batch, 4, 7, 5))
    value = builder.hard_swish(builder.scale(data, "factor", 0.5), "hard_swish")
    gate = builder.global_average_pool(value, "gap")
    value = builder.multiply(value, builder.hard_sigmoid(gate, "hard_sigmoid"), "gated")
    value = builder.transpose(value, "last", (0, 2, 3, 1))
    value = builder.layer_normalization(value, "norm", epsilon=1e-3)
    value = builder.gelu(builder.pixelwise_dense(value, "wide", 8), "gelu")
    value = builder.transpose(value, "first", (0, 3, 1, 2))
    left = builder.slice(value, "left", 0, 3)
    right = builder.silu(builder.slice(value, "right", 3, 8), "silu")
    left = builder.average_pool(left, "inside", (3, 2), strides=1, padding=1, count_include_pad=False)
    right = builder.average_pool(right, "around", (3, 2), strides=1, padding=(1, 1))
    value = builder.concatenate([left, right], "joined")
    spread = builder.transposed_convolution(
        value, "spread", 6, (3, 2), strides=(2, 1), padding=(1, 0, 0, 1), bias=True
    )
    bare = builder.transposed_convolution(value, "bare", 4, 2, strides=2)
    near = builder.resize(value, "near", 2, "nearest")
    smooth = builder.resize(builder.sigmoid(value, "sigmoid"), "smooth", 3, "linear")
    return builder.build({"spread": spread, "bare": bare, "near": near, "smooth": smooth})


def _images(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def _run_onnx(network: Network, images: np.ndarray) -> list[np.ndarray]:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = to_onnx(network)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([value.name for value in network.outputs], {"input": images})


def _run_relax(network: Network, images: np.ndarray) -> list[np.ndarray]:
    executable = tvm.compile(to_relax(network), tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(images))
    results = [result] if len(network.outputs) == 1 else list(result)
    return [tensor.numpy() for tensor in results]


def _assert_same(network: Network, images: np.ndarray) -> None:
    expected = _run_onnx(network, images)
    for value, ours, theirs in zip(network.outputs, _run_relax(network, images), expected, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=value.name)


def _operators(module: tvm.IRModule) -> list[str]:
    found: list[str] = []

    def visit(expression: relax.Expr) -> None:
        if isinstance(expression, relax.Call):
            found.append(expression.op.name)

    relax.analysis.post_order_visit(module["main"], visit)
    return sorted(found)


@pytest.mark.parametrize("batch", [2, "N"])
def test_every_operation_agrees(batch: int | str) -> None:
    _assert_same(_every_operation(batch), _images((2, 4, 15, 12)))


@pytest.mark.parametrize("batch", [2, "N"])
def test_every_operation_of_newer_networks_agrees(batch: int | str) -> None:
    _assert_same(_every_operation_of_newer_networks(batch), _images((2, 4, 7, 5)))


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1"])
def test_small_copies_of_networks_agree(name: str) -> None:
    _assert_same(build(name, image_size=(64, 32), width=0.125, classes=10), _images((1, 3, 64, 32)))


def test_relax_form() -> None:
    module = to_relax(build("mobilenet_v2", image_size=32, width=0.125))
    main = module["main"]
    assert [parameter.name for parameter in main.params] == ["input"]
    assert [type(block) for block in main.body.blocks] == [relax.DataflowBlock]
    bound = [binding.var.name for binding in main.body.blocks[0].bindings]
    assert {"features_1_conv_0_0", "features_1_conv_0_1", "features_1_conv_0_2"} <= set(bound)
    assert bound[-1] == "output"
    assert relax.analysis.check_well_formed(module)


def test_relax_operators_are_the_importers_after_folding() -> None:
    pytest.importorskip("onnx")
    from tvm.relax.frontend.onnx import from_onnx

    network = build("squeezenet1_1", image_size=32, width=0.125, classes=10)
    imported = from_onnx(to_onnx(network))
    folded = tvm.transform.Sequential([relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()])
    assert _operators(to_relax(network)) == _operators(folded(imported))


def test_onnx_keeps_names_batch_normalization_and_raw_data() -> None:
    pytest.importorskip("onnx")
    network = build("resnet18", batch="N", image_size=32, width=0.125)
    graph = to_onnx(network).graph
    assert [node.name for node in graph.node] == [node.name for node in network.nodes]
    assert sum(node.op_type == "BatchNormalization" for node in graph.node) == 20
    for tensor, parameter in zip(graph.initializer, network.parameters(), strict=True):
        assert tensor.name == parameter.name
        assert np.array_equal(np.frombuffer(tensor.raw_data, np.float32), parameter.values().ravel())
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_without_onnx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError) as caught:
        export_onnx(build("squeezenet1_1"), tmp_path / "model.onnx")
    assert str(caught.value) == "writing ONNX needs the onnx package: pip install 'relay-layout[onnx]'"
    assert list(tmp_path.iterdir()) == []


def test_export_writes_the_model_and_replaces_an_older_file(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"older")
    export_onnx("squeezenet1_1", path)
    assert onnx.load(path) == to_onnx(build("squeezenet1_1"))
    assert list(tmp_path.iterdir()) == [path]


def test_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    network = build("squeezenet1_1", width=0.125)
    missing = tmp_path / "missing" / "model.onnx"
    with pytest.raises(ModelError) as caught:
        export_onnx(network, missing)
    assert str(caught.value) == f"{missing}: cannot be written: the folder {missing.parent} does not exist"
    with pytest.raises(ModelError, match=r": cannot be written: it is a directory$"):
        export_onnx(network, tmp_path)
    with pytest.raises(ModelError, match=r"^unknown built-in network 'lenet'; available: "):
        export_onnx("lenet", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
