"""Makes the helpers beside this file importable."""

import sys
from pathlib import Path

# With --import-mode=importlib no folder of tests is on the path.
sys.path.insert(0, str(Path(__file__).parent))
