"""Makes the ``kernel_*`` helpers beside this file importable from every test module below it."""

import os
import sys
from pathlib import Path

# Before TVM is loaded: its thread pool would otherwise take half of the processors.
os.environ.setdefault("TVM_NUM_THREADS", "2")

# With --import-mode=importlib no folder of tests is on the path.
sys.path.insert(0, str(Path(__file__).parent))
