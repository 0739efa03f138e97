"""Makes the helpers beside these tests, and those for damaged files, importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "syntax")]
