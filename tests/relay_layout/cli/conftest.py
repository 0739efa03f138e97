"""A work interface that remembers how it was called, in place of the real one."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import relay_layout
from relay_layout.artifact import Manifest, TensorSpec
from relay_layout.artifact.tensors import check_inputs

REPORT = {
    "ops": 69,
    "layout_transforms": 1,
    "layout_transform_bytes": 602112,
    "solver": {"status": "optimal", "objective_us": 312.54},
    "kernels": {"tuned": 40, "default": 12, "fallback": 1},
    "layouts": {"conv0": "NCHW->NCHW16c", "conv1": "NCHW16c->NCHW16c", "conv2": "NCHW16c->NCHW16c"},
    "not_converted": {},
}


class FakeModule:
    def script(self) -> str:
        return "# module\nclass Module: ..."


@dataclass
class FakeConversion:
    module: FakeModule = field(default_factory=FakeModule)
    report: dict[str, Any] = field(
        default_factory=lambda: {"layout_transforms": 2, "layout_transforms_weights": 53, "verified": True}
    )


class FakeBuild:
    target: ClassVar = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512"}
    num_threads_hint = 2
    report: ClassVar = REPORT
    times: ClassVar = {"solver": {"seconds": 0.042}, "compile_seconds": 12.34}

    def __init__(self, name: str) -> None:
        self.name = name


class FakeManifest:
    def __init__(self, targets: list[str]) -> None:
        self.builds = [FakeBuild(name) for name in targets]

    report = Manifest.report


@dataclass
class FakeCompiled:
    targets: list[str]

    @property
    def manifest(self) -> FakeManifest:
        return FakeManifest(self.targets)

    @property
    def report(self) -> dict[str, Any]:
        return self.manifest.report

    def save(self, path: Any) -> None:
        Path(path).write_bytes(b"x" * 1234)


class FakeSession:
    """Doubles its input, and adds the batch's number of elements as a scalar."""

    def __init__(self) -> None:
        self.inputs = (TensorSpec("data", ("n", 3), "float32"),)
        self.target = "wide"
        self.runs = 0

    def run(self, inputs: Any) -> dict[str, Any]:
        self.runs += 1
        data = check_inputs(self.inputs, inputs)["data"]
        return {"doubled": data * 2, "file": np.array(data.size, dtype=np.int64)}


class Work:
    """What was asked of the work interface; ``raises`` makes every function of it fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.raises: BaseException | None = None
        self.session = FakeSession()

    def _called(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.calls.append((name, arguments, keywords))
        if self.raises is not None:
            raise self.raises

    def compile(self, *arguments: Any, **keywords: Any) -> FakeCompiled:
        self._called("compile", arguments, keywords)
        print("a library prints")
        target = keywords.get("target", "native")
        return FakeCompiled(target if isinstance(target, list) else [target])

    def convert(self, *arguments: Any, **keywords: Any) -> FakeConversion:
        self._called("convert", arguments, keywords)
        return FakeConversion()

    def load(self, *arguments: Any, **keywords: Any) -> FakeSession:
        self._called("load", arguments, keywords)
        return self.session

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of the only call."""
        ((_, _, keywords),) = self.calls
        return keywords


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    fake = Work()
    for name in ("compile", "convert", "load"):
        # Not setattr, which would ask for the real one first and so load TVM.
        monkeypatch.setitem(vars(relay_layout), name, getattr(fake, name))
    return fake


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
