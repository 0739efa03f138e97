"""Compiled models on disk: one file with a library and weights per target, and a manifest, under checksums.

Needs numpy alone, so an artifact can be inspected where no TVM is installed.
"""

from relay_layout.artifact.conditions import Condition
from relay_layout.artifact.container import Artifact, is_artifact, read_artifact, write_artifact
from relay_layout.artifact.manifest import Build, Manifest, Producer, WeightEntry, joined
from relay_layout.artifact.placement import Content
from relay_layout.artifact.quantization import Quantization
from relay_layout.artifact.target import check_runnable, choose_target, obstacle_here
from relay_layout.artifact.tensors import TensorSpec, check_inputs

__all__ = [
    "Artifact",
    "Build",
    "Condition",
    "Content",
    "Manifest",
    "Producer",
    "Quantization",
    "TensorSpec",
    "WeightEntry",
    "check_inputs",
    "check_runnable",
    "choose_target",
    "is_artifact",
    "joined",
    "obstacle_here",
    "read_artifact",
    "write_artifact",
]
