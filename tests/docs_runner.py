"""The documentation as scripts: its fenced blocks, run in order in one folder."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper

from relay_layout.cli.main import main
from relay_layout.errors import RelayLayoutError, TargetError
from relay_layout.lower.library.link import link_command
from relay_layout.models import names
from topi_ext.tune.measuring.tracker import machines

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

ELSEWHERE = {
    "make demo": ".ci/run",
    "make test": ".ci/run",
    "pip install '.[demo,tune]'": "tests/test_package.py",
}
"""Commands that other tests run, and where."""

SWEPT = ("analyse", "bench", "fleet", "tune")
"""Verbs that measure, or need LLVM's analyser: the sweep runs their commands, else they are only read."""

SERVER_SECONDS = 120.0

SHAPE = (1, 8, 12, 12)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, and its lines from ``line`` of the page on."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that can be run."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start()) + 2
        if found[1] in ("sh", "python"):
            yield Block(page, line, found[1], found[2])


def needs_torch(block: Block) -> bool:
    """Does a snippet import torch, which is no package that tests may take for given?"""
    return block.language == "python" and "import torch" in block.text.splitlines()


def run_snippet(block: Block, names: dict[str, Any]) -> None:
    """Run a block of Python, in which ``names`` are known and added to."""
    exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), names)


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Every command of a block of shell, without its comment, and its place."""
    for offset, line in enumerate(block.text.splitlines()):
        words = re.sub(r"\s+#\s.*$", "", line).strip()
        if words:
            yield words, f"{block.page.name}:{block.line + offset}"


def inline(page: Path) -> list[str]:
    """Commands of relay-layout that stand in a sentence, without placeholders."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = [" ".join(code.split()) for code in re.findall(r"`(relay-layout [^`]+)`", text)]
    whole = [code for code in found if len(code.split()) > 2 and code.split()[2:] != ["--help"]]
    return [code for code in whole if not re.search(r"\b[A-Z]{3,}\b(?![\d:])", code)]


def prepare(folder: Path) -> dict[str, Any]:
    """The files and names that pages take for given."""
    _write_model(folder / "model.onnx", SHAPE)
    _write_model(folder / "image.onnx", (1, 3, 224, 224))
    image = np.random.default_rng(0).standard_normal(SHAPE, dtype="float32")
    np.savez(folder / "in.npz", input=image)
    (folder / "net.relay").write_text(
        '#[version = "0.0.5"]\n'
        "def @main(%data: Tensor[(?, 3, ?, ?), float32], %w: Tensor[(8, 3, 3, 3), float32]) {\n"
        "  nn.conv2d(%data, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])\n}\n"
    )
    from relay_layout.relay import save_param_dict

    weight = np.ones((8, 3, 3, 3), "float32")
    (folder / "net.params").write_bytes(save_param_dict({"w": weight}))
    shutil.copy(ROOT / "tests/data/autotvm/x86.log", folder / "autotvm.log")
    shipped = next((ROOT / "tuning_logs").glob("*.jsonl")).read_text().splitlines()
    for name in ("other.jsonl", "records.jsonl"):
        (folder / name).write_text("\n".join(shipped[:3]) + "\n")
    from relay_layout.frontend import load_model

    return {
        "image": image,
        "onnx_model": onnx.load(folder / "image.onnx"),
        "module": load_model(str(folder / "model.onnx")),
        "target": tvm.target.Target({"kind": "llvm", "num-cores": 1}),
    }


def small(words: list[str]) -> list[str]:
    """A command line that does the same with a model of two convolutions."""
    verb, *rest = words
    found: list[str] = []
    for word in rest:
        if word in names():
            word = "model.onnx"
            if word in found:
                continue
        found.append(word)
    if verb == "run":
        found = _with(found, {"--repeat": "2"})
    return [verb, *found]


def run_small(command: str, place: str) -> None:
    """Run one command as :func:`small` makes it, in this process."""
    if command in ELSEWHERE:
        assert (ROOT / ELSEWHERE[command]).is_file()
        return
    program, *words = shlex.split(command)
    assert program == "relay-layout", f"{place}: no test runs '{command}'"
    is_of_board = "aarch64" in command or "board.rla" in words
    if words[0] in SWEPT or (is_of_board and not _links_for_arm()):
        parse(command)
        return
    status = main(small(words))
    assert status == 0, f"{place}: {command}: exit status {status}"


def _links_for_arm() -> bool:
    try:
        return bool(link_command("aarch64-linux-gnu"))
    except TargetError:
        return False


def run_whole(command: str, place: str, started: list[subprocess.Popen[str]]) -> None:
    """Run one command as it stands; one that ends with & goes on beside the others, in ``started``."""
    if command in ELSEWHERE:
        return
    program, *words = shlex.split(command.removesuffix("&"))
    start = [sys.executable, "-m", "relay_layout"] if program == "relay-layout" else [sys.executable]
    if command.endswith("&"):
        started.append(subprocess.Popen([*start, *words], text=True, start_new_session=True))
        _wait_for_server(words)
        return
    if words[:1] == ["tune"]:
        words = ["tune", *_with(words[1:], {"--trials": "2", "--time-limit": "60"})]
    done = subprocess.run([*start, *words], capture_output=True, text=True, timeout=1800)
    # What changed beyond the noise is no failure of the documentation.
    allowed = (0, 1) if "--against" in words else (0,)
    assert done.returncode in allowed, f"{place}: {command}\n{done.stdout}\n{done.stderr}"


def _wait_for_server(words: list[str]) -> None:
    """Until a tracker answers, or knows the server that was started."""
    options = dict(pairwise(words))
    host, port = options.get("--tracker", f"{options['--host']}:{options['--port']}").split(":")
    limit = time.monotonic() + SERVER_SECONDS
    while True:
        with suppress(RelayLayoutError):
            keys = machines(host, int(port)).values()
            if options.get("--key") in (None, *keys):
                return
        assert time.monotonic() < limit, f"no answer after {SERVER_SECONDS:.0f} s: {words}"
        time.sleep(0.5)


def parse(command: str) -> None:
    """InputError unless the verb takes the command's words."""
    import importlib

    from relay_layout.cli.options import Parser

    verb, *words = shlex.split(command)[1:]
    module = importlib.import_module(f"relay_layout.cli.{verb.replace('-', '_')}")
    parser = Parser(verb, verb)
    module.add_arguments(parser)
    parser.parse_args(words)


def _with(words: list[str], values: dict[str, str]) -> list[str]:
    """The words with these options instead of what they say of them."""
    kept = [
        word
        for place, word in enumerate(words)
        if word not in values and (place == 0 or words[place - 1] not in values)
    ]
    return [*kept, *(part for pair in values.items() for part in pair)]


def _write_model(path: Path, shape: tuple[int, ...]) -> None:
    """Two convolutions, with the names that pages ask for."""
    random = np.random.default_rng(0)
    channels = shape[1]
    weights = {"w0": (16, channels, 3, 3), "w1": (channels, 16, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["input", "w0"], ["conv_7"], "conv_7", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv_7"], ["active"], "active"),
        helper.make_node("Conv", ["active", "w1"], ["layer1_0_relu1"], "layer1_0_relu1", pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["layer1_0_relu1"], ["output"], "output", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
        [
            onnx.numpy_helper.from_array(random.standard_normal(extents, dtype="float32"), name)
            for name, extents in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
