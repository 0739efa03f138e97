"""Makes the helpers beside the tests importable, and small artifacts."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from artifact_harness import LIBRARY, make_build, make_manifest, write

from relay_layout.artifact import Content, write_artifact


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "model.rla"
    write(path, make_manifest(), LIBRARY, {"w": np.arange(7, dtype="int8"), "b": np.ones(3, "float32")})
    return path


@pytest.fixture
def double(tmp_path: Path) -> Path:
    """Two builds: of their weights "b" is the same, "w" differs."""
    path = tmp_path / "double.rla"
    contents = [
        Content(LIBRARY, {"w": np.arange(7, dtype="int8"), "b": np.ones(3, "float32")}),
        Content(LIBRARY[::-1], {"w": np.arange(9, dtype="int8"), "b": np.ones(3, "float32")}),
    ]
    builds = (make_build(name="narrow"), make_build())
    write_artifact(path, make_manifest(builds=builds), contents)
    return path
