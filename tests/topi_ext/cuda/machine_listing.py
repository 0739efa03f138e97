"""Where NVIDIA's disassembler is."""

import importlib.util
import shutil
from functools import lru_cache
from pathlib import Path


@lru_cache
def find_nvdisasm() -> str | None:
    """On the path, or that of the wheel nvidia-cuda-nvdisasm."""
    on_path = shutil.which("nvdisasm")
    if on_path is not None:
        return on_path
    found = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []
    return next((str(path) for folder in folders for path in folder.glob("*/bin/nvdisasm")), None)
