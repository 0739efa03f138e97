"""Compiled models on disk: one file with a library, its weights and a manifest, all under checksums.

Needs numpy alone, so an artifact can be inspected where no TVM is installed.
"""

from relay_layout.artifact.container import Artifact, read_artifact, write_artifact
from relay_layout.artifact.manifest import Manifest, Producer, Section, WeightEntry
from relay_layout.artifact.target import check_runnable, host_features
from relay_layout.artifact.tensors import TensorSpec, check_inputs

__all__ = [
    "Artifact",
    "Manifest",
    "Producer",
    "Section",
    "TensorSpec",
    "WeightEntry",
    "check_inputs",
    "check_runnable",
    "host_features",
    "read_artifact",
    "write_artifact",
]
