"""ARM targets by name: what they compile for, what artifacts need, and artifacts made for them elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm

import relay_layout
from relay_layout.artifact import check_runnable, read_artifact
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, TargetError
from relay_layout.models import names
from relay_layout.targets import resolve_target
from relay_layout.targets.arm import ARM_BOARDS, CHECKED_FEATURES, present_attributes
from topi_ext.machine.processor import ARM_CORES

A76 = ("dotprod", "fullfp16", "lse", "rcpc", "rdm")


def test_every_core_has_rates_and_a_scheduling_model() -> None:
    assert set(ARM_BOARDS) == set(ARM_CORES)
    assert all(core.scheduling_model for core in ARM_CORES.values())


@pytest.mark.parametrize("core", ARM_BOARDS)
def test_named_cores(core: str) -> None:
    target = resolve_target(f"aarch64-{core}")
    assert target.architecture == "aarch64"
    assert target.processor.name == f"aarch64 {core}"
    assert target.facts.gigahertz == ARM_BOARDS[core].gigahertz
    manifest = target.manifest()
    assert (manifest["mtriple"], manifest["mcpu"]) == ("aarch64-linux-gnu", core)
    assert set(manifest["features"]) <= set(CHECKED_FEATURES)


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("aarch64-cortex-a53", ()),
        ("aarch64-cortex-a72", ()),
        ("aarch64-cortex-a76", A76),
        ("aarch64-cortex-a76+i8mm", ("dotprod", "fullfp16", "i8mm", "lse", "rcpc", "rdm")),
        ("aarch64-cortex-a53+fullfp16+dotprod", ("dotprod", "fullfp16")),
    ],
)
def test_features_that_a_machine_must_have(name: str, features: tuple[str, ...]) -> None:
    assert resolve_target(name).features == features


def test_threads_are_those_of_a_usual_board(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_target("aarch64-cortex-a76", threads=2).threads == 2
    monkeypatch.setattr("relay_layout.targets.resolve.architecture", lambda: "x86_64")
    assert resolve_target("aarch64-cortex-a76").threads == 4


def test_in_order_cores_load_vectors_one_by_one() -> None:
    assert list(resolve_target("aarch64-cortex-a55").tvm_target.attrs["mattr"]) == ["+disable-ldp"]
    assert "mattr" not in resolve_target("aarch64-cortex-a76").tvm_target.attrs
    given = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53", "mattr": ["+crc"]}
    assert list(resolve_target(given).tvm_target.attrs["mattr"]) == ["+crc", "+disable-ldp"]


def test_a_target_of_tvm_is_the_named_one() -> None:
    raw = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4}
    for target in (resolve_target(tvm.target.Target(raw)), resolve_target(json.dumps(raw))):
        assert (target.processor.name, target.features, target.threads) == ("aarch64 cortex-a76", A76, 4)


def test_a_core_without_a_row_has_middling_rates() -> None:
    raw = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a73"}
    assert resolve_target(raw).processor.name == "aarch64 NEON"


CORES = (
    "aarch64-cortex-a53, aarch64-cortex-a55, aarch64-cortex-a72, aarch64-cortex-a76, aarch64-cortex-a77, "
    "aarch64-cortex-a78, aarch64-cortex-a710, aarch64-cortex-x1, aarch64-cortex-x2, aarch64-cortex-x3, "
    "aarch64-neoverse-n1, aarch64-neoverse-n2, aarch64-neoverse-v1, aarch64-neoverse-v2, aarch64-apple-a14"
)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aarch64-warp9", f"target 'aarch64-warp9' is not known; the ARM targets are {CORES}"),
        ("aarch64", f"target 'aarch64' is not known; the ARM targets are {CORES}"),
        (
            "aarch64-cortex-a76+mmx",
            "target 'aarch64-cortex-a76+mmx': no feature '+mmx'; the features are +bf16, +dotprod, +fp16fml, "
            "+fullfp16, +i8mm, +lse, +rcpc, +rdm, +sve, +sve2",
        ),
        (
            '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "warp9"}',
            'target {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "warp9"}: '
            "LLVM knows no processor 'warp9' of aarch64",
        ),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(TargetError) as raised:
        resolve_target(name)
    assert str(raised.value) == message


def test_a_board_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = "Features\t: fp asimd evtstrm crc32 atomics asimdrdm lrcpc\n"
    monkeypatch.setattr(host, "architecture", lambda: "aarch64")
    monkeypatch.setattr(host, "operating_system", lambda: "linux")
    monkeypatch.setattr(host, "cpu_features", lambda: host.parse_cpuinfo(cpuinfo, "aarch64"))
    with pytest.raises(ArtifactError) as raised:
        check_runnable(resolve_target("aarch64-cortex-a76").manifest(), name="net.rla")
    assert str(raised.value) == (
        "net.rla: needs CPU features dotprod, fullfp16 which this machine lacks; recompile with "
        "--target native here"
    )
    check_runnable(resolve_target("aarch64-cortex-a72").manifest(), name="net.rla")


@pytest.mark.parametrize(
    ("cpu", "compiled", "present", "attributes"),
    [
        ("cortex-a76", ("dotprod",), {"dotprod", "neon"}, {"mcpu": "cortex-a76"}),
        ("generic", (), {"dotprod", "sve"}, {"mcpu": "generic", "mattr": ["+dotprod"]}),
        ("neoverse-n2", ("dotprod", "sve2"), {"dotprod"}, {"mcpu": "neoverse-n2", "mattr": ["-sve2"]}),
    ],
)
def test_what_a_machine_has_is_what_code_for_it_uses(
    cpu: str, compiled: tuple[str, ...], present: set[str], attributes: dict[str, Any]
) -> None:
    assert present_attributes(cpu, compiled, present) == attributes


@pytest.fixture
def small_network() -> onnx.ModelProto:
    """A convolution, bias and ReLU of 8 to 16 channels."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(16, 8, 3, 3)), "b": rng.normal(size=16)}
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            onnx.helper.make_node("Relu", ["c"], ["y"]),
        ],
        "small",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 14, 14])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 16, 14, 14])],
        [onnx.numpy_helper.from_array(array.astype("float32"), name) for name, array in weights.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


AARCH64_ELF = (183).to_bytes(2, "little")
"""``e_machine`` of the ELF header, at byte 18."""


needs_cross_compiler = pytest.mark.skipif(
    host.architecture() == "aarch64" or shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="needs aarch64-linux-gnu-gcc on another machine than aarch64",
)


@needs_cross_compiler
@pytest.mark.slow
@pytest.mark.parametrize("layout", ["auto", "NHWC", "NCHW4c"])
@pytest.mark.parametrize("name", names())
def test_every_built_in_network_compiles(name: str, layout: str, tmp_path: Path) -> None:
    path = tmp_path / "net.rla"
    relay_layout.compile(name, target="aarch64-cortex-a76", desired_layout=layout).save(path)
    assert bytes(read_artifact(path).contents[0].library[18:20]) == AARCH64_ELF


@needs_cross_compiler
def test_an_artifact_for_a_board(small_network: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "net.rla"
    relay_layout.compile(small_network, target="aarch64-cortex-a76").save(path)
    artifact = read_artifact(path)
    assert artifact.manifest.builds[0].target["features"] == list(A76)
    assert bytes(artifact.contents[0].library[18:20]) == AARCH64_ELF
    with pytest.raises(ArtifactError) as raised:
        relay_layout.load(path)
    assert str(raised.value) == (
        f"{path}: built for aarch64 (cortex-a76), this machine is {host.architecture()}; compile it with "
        "--target native here"
    )


def test_no_cross_linker(small_network: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_layout.targets.target.architecture", lambda: "x86_64")
    monkeypatch.setattr("relay_layout.targets.resolve.architecture", lambda: "x86_64")
    monkeypatch.delenv("CROSS_CC", raising=False)
    monkeypatch.setattr("relay_layout.lower.library.link._is_packaged", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TargetError) as raised:
        relay_layout.compile(small_network, target="aarch64-cortex-a76")
    assert str(raised.value) == (
        "linking for aarch64-linux-gnu needs aarch64-linux-gnu-gcc, or clang with ld.lld, and neither is "
        "installed; install one, or pip install 'relay-layout[linker]'"
    )


def test_cross_linking_is_for_linux(small_network: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_layout.targets.target.architecture", lambda: "x86_64")
    monkeypatch.setattr("relay_layout.targets.resolve.architecture", lambda: "x86_64")
    raw = {"kind": "llvm", "mtriple": "aarch64-apple-darwin", "mcpu": "apple-a14"}
    with pytest.raises(TargetError) as raised:
        relay_layout.compile(small_network, target=raw)
    assert str(raised.value).endswith(": cross linking is for Linux alone, not for aarch64-apple-darwin")


@pytest.mark.parametrize(
    ("triple", "linked_for"),
    [
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
        ("aarch64-linux-musl", "aarch64-linux-musl"),
        ("armv7l-linux-gnueabihf", "arm-linux-gnueabihf"),
        ("aarch64-none-linux-android26", "aarch64-linux-android"),
    ],
)
def test_a_library_is_linked_for_the_system_of_its_triple(
    triple: str, linked_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_layout.targets.target.architecture", lambda: "x86_64")
    target = resolve_target({"kind": "llvm", "mtriple": triple})
    assert target.cross_triple == linked_for
