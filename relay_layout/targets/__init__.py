"""Targets: facts as data, resolution of names, and the layouts each target offers."""

from relay_layout.targets.offers import CONVOLUTION_AXES, DesiredOffers, TargetOffers
from relay_layout.targets.target import BuildTarget, resolve_target

__all__ = ["CONVOLUTION_AXES", "BuildTarget", "DesiredOffers", "TargetOffers", "resolve_target"]
