"""What a board is not sent, by boards that are made up; tests/board runs what it is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relay_layout.artifact import (
    Build,
    Content,
    Manifest,
    Producer,
    TensorSpec,
    read_artifact,
    write_artifact,
)
from relay_layout.errors import ArtifactError
from relay_layout.runtime.remote import RemoteSession

X86 = "x86_64-unknown-linux-gnu"
BUILDS = {
    "aarch64-cortex-a76": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"},
    "cuda-sm_90": {"kind": "cuda", "mtriple": X86, "arch": "sm_90"},
}


@dataclass
class Board:
    """As far as it is asked; one without a triple has a TVM without LLVM."""

    triple: str

    def cpu(self, index: int) -> str:
        return f"cpu({index})"

    def get_function(self, name: str) -> Callable[[], str]:
        if not self.triple:
            raise AttributeError(name)
        return lambda: self.triple


@pytest.mark.parametrize(
    ("names", "triple", "board", "built_for"),
    [
        (["aarch64-cortex-a76"], X86, "x86_64", "aarch64-cortex-a76 (aarch64)"),
        (["cuda-sm_90"], X86, "x86_64", "cuda-sm_90 (a GPU)"),
        (["cuda-sm_90"], "", "not told", "cuda-sm_90 (a GPU)"),
        (list(BUILDS), X86, "x86_64", "aarch64-cortex-a76 (aarch64), cuda-sm_90 (a GPU)"),
    ],
)
def test_no_code_for_the_board(
    tmp_path: Path, names: list[str], triple: str, board: str, built_for: str
) -> None:
    path = tmp_path / "network.rla"
    tensor = TensorSpec("data", (1,), "float32")
    builds = tuple(Build(name, BUILDS[name]) for name in names)
    manifest = Manifest(Producer("0.1.0", "0.27.0"), (tensor,), (tensor,), builds)
    write_artifact(path, manifest, [Content(b"library", {})] * len(builds))
    connection: Any = Board(triple)
    with pytest.raises(ArtifactError) as caught:
        RemoteSession(read_artifact(path), connection)
    assert str(caught.value) == (
        f"{path}: holds no code for the board, which is {board}; it was built for {built_for}"
    )
