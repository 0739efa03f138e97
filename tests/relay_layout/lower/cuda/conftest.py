"""Makes the simulated GPU and the quantized graphs importable."""

import sys
from pathlib import Path

# With --import-mode=importlib no folder of tests is on the path.
TESTS = Path(__file__).parents[3]
for folder in ("topi_ext/cuda", "relay_layout/quantization"):
    sys.path.insert(0, str(TESTS / folder))
sys.path.insert(0, str(Path(__file__).parent))
