"""Exported folders: a C++ program gives what a session gives, and says what is wrong in one line."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx.parser
import pytest
from tvm import relax, tirx

import relay_layout
from relay_layout import relay
from relay_layout.artifact import Condition, Quantization, read_artifact, write_artifact
from relay_layout.deployment import export_folder
from relay_layout.deployment.description import sealed
from relay_layout.errors import ArtifactError, InputError
from topi_ext.files.whole_file import replaced

STATIC = """def @main(%x: Tensor[(2, 3, 9, 7), float32], %w: Tensor[(5, 3, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
  (nn.relu(%0), argmax(%0, axis=[1]))
}"""

Example = Callable[..., "subprocess.CompletedProcess[str]"]


def compiled(text: str, path: Path, **options: object) -> Path:
    """An artifact of Relay text whose parameter ``w`` is a constant."""
    module = relay.fromtext(text)
    (parameter,) = (parameter for parameter in module["main"].params if parameter.name == "w")
    shape = [int(extent) for extent in parameter.ty.shape.values]
    weight = np.random.default_rng(1).standard_normal(shape).astype("float32")
    module, _ = relay.build_module.bind_params(module, {"w": weight})
    relay_layout.compile(module, threads=1, **options).save(path)  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def static(work: Path) -> Path:
    return compiled(STATIC, work / "static.rla")


@pytest.fixture(scope="module")
def opened(work: Path) -> Path:
    """A convolution of x, and y turned around in sign, for any batch and any number of rows."""
    batch, rows = tirx.Var("n", "int64"), tirx.Var("h", "int64")
    x = relax.Var("x", relax.TensorType((batch, 3, rows, 8), "float32"))
    y = relax.Var("y", relax.TensorType((batch, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        weight = relax.const(np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype("float32"))
        convolved = builder.emit(relax.op.nn.conv2d(x, weight))
        builder.emit_func_output(relax.Tuple([convolved, builder.emit(relax.op.negative(y))]))
    relay_layout.compile(builder.get(), threads=1).save(work / "open.rla")
    return work / "open.rla"


@pytest.fixture(scope="module")
def program(work: Path, static: Path) -> Path:
    """The example, built as a user would, but without optimization, which takes twice as long."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ is installed")
    export_folder(static, work / "built")
    sources = work / "built" / "cpp"
    warnings = ["-Wall", "-Wextra", "-Werror", "-isystem", "include"]
    libraries = [
        "-Llib",
        "-Wl,--no-as-needed",
        "-ltvm_runtime_extra",
        "-ltvm_runtime",
        "-ltvm_ffi",
        "-pthread",
    ]
    found = ["-o", "example", f"-Wl,-rpath,{sources / 'lib'}"]
    command = [compiler, "-std=c++17", "-O0", *warnings, "example.cpp", *libraries, *found]
    subprocess.run(command, cwd=sources, check=True)
    return sources / "example"


@pytest.fixture
def example(program: Path, tmp_path: Path) -> Example:
    """Runs the program once on a folder and arrays, in a folder of the test's own."""

    def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        words = [str(program), str(folder), "1", "9", *arguments]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def given(tmp_path: Path, arrays: Sequence[np.ndarray]) -> list[str]:
    """The arguments that give arrays, as they lie in memory, to the program."""
    words = []
    for place, array in enumerate(arrays):
        path = tmp_path / f"input{place}.bin"
        array.tofile(path)
        words.append(f"{path}:{','.join(map(str, array.shape))}")
    return words


def same_outputs(tmp_path: Path, expected: Mapping[str, np.ndarray]) -> bool:
    found = [(tmp_path / f"output{place}.bin").read_bytes() for place in range(len(expected))]
    return found == [np.ascontiguousarray(array).tobytes() for array in expected.values()]


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype("float32")


def test_outputs_are_a_sessions_to_the_bit(static: Path, example: Example, tmp_path: Path) -> None:
    export_folder(static, tmp_path / "net")
    image = images(2, 3, 9, 7)
    done = example(tmp_path / "net", *given(tmp_path, [image]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "output 'output_0': float32 [2, 5, 9, 7]"
    assert same_outputs(tmp_path, relay_layout.load(static, threads=1).run({"x": image}))


@pytest.mark.parametrize(("batch", "rows"), [(1, 5), (3, 12)])
def test_open_sizes(batch: int, rows: int, opened: Path, example: Example, tmp_path: Path) -> None:
    export_folder(opened, tmp_path / "net")
    arrays = [images(batch, 3, rows, 8), images(batch, 4)]
    done = example(tmp_path / "net", *given(tmp_path, arrays))
    assert (done.returncode, done.stderr) == (0, "")
    session = relay_layout.load(opened, threads=1)
    assert same_outputs(tmp_path, session.run(dict(zip(("x", "y"), arrays, strict=True))))


LOOP = """<ir_version: 9, opset_import: ["" : 18]> counted
(float[2,3] x, int64 n) => (float[A,B] y, float[C,D,E] z) {
    y, z = Loop <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e, float[2,3] r) {
        d = Identity(c)  e = Tanh(a)  r = Neg(e) }> (n, , x) }"""


@pytest.mark.parametrize("trips", [0, 5])
def test_a_loop_whose_trips_a_tensor_counts(trips: int, example: Example, tmp_path: Path) -> None:
    relay_layout.compile(onnx.parser.parse_model(LOOP), threads=1).save(tmp_path / "loop.rla")
    export_folder(tmp_path / "loop.rla", tmp_path / "net")
    arrays = [images(2, 3), np.array(trips)]
    done = example(tmp_path / "net", *given(tmp_path, arrays))
    assert (done.returncode, done.stderr) == (0, "")
    session = relay_layout.load(tmp_path / "loop.rla", threads=1)
    assert same_outputs(tmp_path, session.run(dict(zip(("x", "n"), arrays, strict=True))))


def test_declared_orders_are_those_in_memory(work: Path, example: Example, tmp_path: Path) -> None:
    order = (0, 2, 3, 1)
    artifact = compiled(STATIC, work / "nhwc.rla", input_dim_orders={"x": order})
    export_folder(artifact, tmp_path / "net")
    image = images(2, 9, 7, 3)
    done = example(tmp_path / "net", *given(tmp_path, [image]))
    assert (done.returncode, done.stderr) == (0, "")
    session = relay_layout.load(artifact, threads=1)
    assert same_outputs(tmp_path, session.run({"x": image.transpose(0, 3, 1, 2)}))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 3, 9, 6), (2, 4)], "input 'x': expected float32 [n, 3, h, 8], got [2, 3, 9, 6]"),
        ([(2, 3, 9, 8), (3, 4)], "input 'y': expected float32 [n, 4], got [3, 4]"),
        ([(2, 3, 9, 8), (2, 4, 1)], "input 'y': expected float32 [n, 4], got [2, 4, 1]"),
    ],
)
def test_other_shapes_are_refused(
    shapes: Sequence[tuple[int, ...]], message: str, opened: Path, example: Example, tmp_path: Path
) -> None:
    export_folder(opened, tmp_path / "net")
    done = example(tmp_path / "net", *given(tmp_path, [images(*shape) for shape in shapes]))
    assert (done.returncode, done.stderr) == (2, f"error: {message}\n")


CONDITIONS = [
    "x.shape[2] % 4 == 0",
    "x.shape[2] // 5 >= 2 and not x.shape[0] == 3",
    "trunc(0.45 * float(x.shape[2])) == 5 or y.shape[0] > 7",
    "max(x.shape[0], x.shape[2], 3) - min(2, x.shape[0]) != 10",
    "ceil(x.shape[2] / 5) == floor(x.shape[2] / 5) + 1",
    "-x.shape[2] + 2 * 6 < 1",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_hold_as_they_do_for_a_session(
    text: str, opened: Path, example: Example, tmp_path: Path
) -> None:
    artifact = read_artifact(opened)
    condition = Condition(text, {"x": 4, "y": 2})
    manifest = replace(artifact.manifest, conditions=(condition,))
    write_artifact(tmp_path / "net.rla", manifest, artifact.contents)
    export_folder(tmp_path / "net.rla", tmp_path / "net")
    session, held = relay_layout.load(tmp_path / "net.rla", threads=1), []
    for rows in (12, 10, 11):
        arrays = [images(2, 3, rows, 8), images(2, 4)]
        done = example(tmp_path / "net", *given(tmp_path, arrays))
        try:
            session.run({"x": arrays[0], "y": arrays[1]})
            held.append(done.returncode == 0)
        except InputError:
            held.append(done.stderr == f"error: the model was exported for inputs of which {text}\n")
    assert held == [True, True, True]


def test_another_machine_is_refused(static: Path, example: Example, tmp_path: Path) -> None:
    export_folder(static, tmp_path / "net")
    description = tmp_path / "net" / "network.txt"
    lines = description.read_text(encoding="utf-8").splitlines()
    name = lines[1].rpartition(" ")[0]
    others = "\n".join(lines[2:-1])
    description.write_text(sealed(f"{lines[0]}\n{name} riscv64\n{others}\n"), encoding="utf-8")
    assert "the network was built for riscv64, this machine is" in example(tmp_path / "net").stderr
    description.write_text(sealed(f"{lines[0]}\n{lines[1]}\nflags avx99 avx99\n{others}\n"), encoding="utf-8")
    assert "needs the CPU feature avx99, which this machine lacks" in example(tmp_path / "net").stderr


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "relay-layout-network 9\n" + text.partition("\n")[2], "is of another version"),
        (lambda text: text.replace("weight float32 0 ", "weight float32 64 "), "is damaged or ends early"),
        (lambda text: text.rpartition("sum")[0], "is damaged or ends early"),
        (lambda text: text[:-2], "is damaged or ends early"),
        (lambda text: text[: text.index("\n")], "is damaged or ends early"),
        (lambda text: "", "network.txt: cannot be read; export the network again"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    damage: Callable[[str], str], message: str, static: Path, example: Example, tmp_path: Path
) -> None:
    export_folder(static, tmp_path / "net")
    description = tmp_path / "net" / "network.txt"
    description.write_text(damage(description.read_text(encoding="utf-8")), encoding="utf-8")
    done = example(tmp_path / "net")
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("pattern", ["network-*.so", "weights-*.bin"])
def test_a_file_that_was_copied_in_part_is_refused(
    pattern: str, static: Path, example: Example, tmp_path: Path
) -> None:
    export_folder(static, tmp_path / "net")
    (copied,) = (tmp_path / "net").glob(pattern)
    size = copied.stat().st_size
    copied.write_bytes(copied.read_bytes()[:100])
    done = example(tmp_path / "net")
    message = f"has 100 bytes, and had {size} when it was exported; copy or export it again"
    assert (done.returncode, done.stderr) == (2, f"error: {copied}: {message}\n")


def test_a_folder_without_a_network_is_refused(example: Example, tmp_path: Path) -> None:
    (tmp_path / "net" / "network.txt").mkdir(parents=True)
    message = f"error: {tmp_path}/net/network.txt: cannot be read; export the network again\n"
    assert example(tmp_path / "net").stderr == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1", "1", "none.bin"], "none.bin: cannot be read, or is empty"),
        (["1", "1", "."], ".: cannot be read, or is empty"),
        (["many"], "THREADS: expected a whole number from 0 on, got 'many'"),
        (["99999999999"], "THREADS: at most 65536"),
        (["1", "-1"], "RUNS: expected a whole number from 0 on, got '-1'"),
        (["1", "1", "x.bin:2,3,9,a"], "x.bin:2,3,9,a: expected a whole number from 0 on, got 'a'"),
        (["1", "1", "x.bin:2,,9,7"], "x.bin:2,,9,7: expected a whole number from 0 on, got ''"),
        (["1", "1", "x.bin", "y.bin"], "the network takes 1 inputs, and 2 are given"),
    ],
)
def test_what_the_example_cannot_use_is_named(
    words: list[str], message: str, static: Path, program: Path, tmp_path: Path
) -> None:
    export_folder(static, tmp_path / "net")
    command = [str(program), str(tmp_path / "net"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: {message}\n")


def test_outputs_that_cannot_be_written_are_told(static: Path, example: Example, tmp_path: Path) -> None:
    export_folder(static, tmp_path / "net")
    (tmp_path / "output0.bin").symlink_to("/dev/full")
    done = example(tmp_path / "net")
    assert (done.returncode, done.stderr) == (2, "error: output0.bin: cannot be written\n")


def test_what_inputs_stand_for_is_told(static: Path, tmp_path: Path) -> None:
    artifact = read_artifact(static)
    (spec,) = artifact.manifest.inputs
    told = replace(spec, name='a "b"\n c\\', quantization=Quantization((0.5, 0.25, 1.0), (1, 0, -3), 1))
    manifest = replace(artifact.manifest, inputs=(told,))
    write_artifact(tmp_path / "net.rla", manifest, artifact.contents)
    export_folder(tmp_path / "net.rla", tmp_path / "net")
    lines = (tmp_path / "net" / "network.txt").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("input "))
    assert line.startswith(r'input "a \"b\" c\\" float32 ') and line.endswith(" 3 0.5 1 0.25 0 1.0 -3")


def test_what_a_user_changed_is_left(static: Path, tmp_path: Path) -> None:
    export_folder(static, tmp_path / "net")
    changed = tmp_path / "net" / "cpp" / "example.cpp"
    changed.write_text("int main() {}\n", encoding="utf-8")
    export_folder(static, tmp_path / "net")
    assert changed.read_text(encoding="utf-8") == "int main() {}\n"


def test_a_target_is_named_where_there_are_several(static: Path, tmp_path: Path) -> None:
    artifact = read_artifact(static)
    (build,), (content,) = artifact.manifest.builds, artifact.contents
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "features": ["dotprod"]}
    builds = replace(build, name="here"), replace(build, name="board", target=target)
    write_artifact(tmp_path / "net.rla", replace(artifact.manifest, builds=builds), [content, content])
    with pytest.raises(InputError, match="--target says which one to export; it was built for here, board"):
        export_folder(tmp_path / "net.rla", tmp_path / "net")
    exported = export_folder(tmp_path / "net.rla", tmp_path / "net", "board")
    assert not exported.has_runtime and not (tmp_path / "net" / "cpp" / "lib").exists()
    text = (tmp_path / "net" / "network.txt").read_text(encoding="utf-8")
    assert 'machine "board" aarch64\n' in text and "capability dotprod 16 20\n" in text


def test_a_gpus_network_is_refused(static: Path, tmp_path: Path) -> None:
    artifact = read_artifact(static)
    (build,) = artifact.manifest.builds
    target = {"kind": "cuda", "arch": "sm_90", "mtriple": "x86_64-linux-gnu"}
    manifest = replace(artifact.manifest, builds=(replace(build, target=target, name="cuda-sm_90"),))
    write_artifact(tmp_path / "net.rla", manifest, artifact.contents)
    with pytest.raises(ArtifactError, match=r"net.rla: cuda-sm_90 is a GPU; exported networks run on CPUs"):
        export_folder(tmp_path / "net.rla", tmp_path / "net")


def test_a_folder_that_takes_no_files_is_named(static: Path, tmp_path: Path) -> None:
    (tmp_path / "net").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"net: cannot be written: Not a directory"):
        export_folder(static, tmp_path / "net")


def test_of_a_new_folder_nothing_is_left_upon_an_error(
    static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("relay_layout.deployment.folder._write_sources", full)
    with pytest.raises(InputError, match=r"net: cannot be written: No space left on device$"):
        export_folder(static, tmp_path / "net")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def other(work: Path) -> Path:
    """A network whose files are as long as those of ``static``."""
    return compiled(STATIC.replace("nn.relu(%0)", "negative(%0)"), work / "other.rla")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_network_is_replaced_with_its_files(
    static: Path, other: Path, example: Example, tmp_path: Path
) -> None:
    array = images(2, 3, 9, 7)
    export_folder(static, tmp_path / "net")
    first = names(tmp_path / "net")
    export_folder(other, tmp_path / "net")
    assert len(names(tmp_path / "net")) == len(first) and names(tmp_path / "net") != first
    assert example(tmp_path / "net", *given(tmp_path, [array])).returncode == 0
    assert same_outputs(tmp_path, relay_layout.load(other, threads=1).run({"x": array}))


@pytest.mark.parametrize("last", ["weights-", "network-", "relay_layout.hpp", "network.txt"])
def test_a_network_is_left_whole_where_another_cannot_be_written(
    last: str, static: Path, other: Path, example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = images(2, 3, 9, 7)
    export_folder(static, tmp_path / "net")
    before = names(tmp_path / "net")

    def full(path: Path) -> AbstractContextManager[BinaryIO]:
        if path.name.startswith(last):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replaced(path)

    monkeypatch.setattr("relay_layout.deployment.folder.replaced", full)
    with pytest.raises(InputError, match=r"net: cannot be written: No space left on device$"):
        export_folder(other, tmp_path / "net")
    assert names(tmp_path / "net") == before
    assert example(tmp_path / "net", *given(tmp_path, [array])).returncode == 0
    assert same_outputs(tmp_path, relay_layout.load(static, threads=1).run({"x": array}))
