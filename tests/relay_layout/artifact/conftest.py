"""Makes the helpers beside the tests importable, and a small artifact."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from artifact_harness import LIBRARY, make_manifest

from relay_layout.artifact import write_artifact


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "model.rla"
    write_artifact(
        path, make_manifest(), LIBRARY, {"w": np.arange(7, dtype="int8"), "b": np.ones(3, "float32")}
    )
    return path
