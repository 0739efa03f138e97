"""What a caller may ask of layouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relay_layout.layout import Layout
from relay_layout.relay.conventions import check_desired
from relay_layout.targets.backend import LayoutBackend


@dataclass(frozen=True)
class LayoutRequest:
    """What the caller wants of layouts.

    ``desired_layouts`` is None for the solver's own choice, ``{}`` for none, or Relay's dictionary of
    operator name to layouts. ``for_all`` is a layout for every convolution with its axes instead.
    ``skip_layers`` counts convolutions from 0 in the order they run. With ``alter`` the callbacks of
    ``register_alter_op_layout`` are asked. ``input_layouts`` and ``output_layouts`` are layouts that inputs
    come in and outputs leave in, by name; others stay as the module has them. A ``backend`` is asked per
    operator what layouts it accepts.
    """

    desired_layouts: Mapping[str, Sequence[str]] | None = None
    for_all: str | None = None
    skip_layers: frozenset[int] = frozenset()
    alter: bool = False
    input_layouts: Mapping[str, str] = field(default_factory=dict)
    output_layouts: Mapping[str, str] = field(default_factory=dict)
    backend: LayoutBackend | None = None

    @staticmethod
    def parse(
        desired_layout: str = "auto",
        operators: Sequence[str] | None = None,
        desired_layouts: Mapping[str, Sequence[str]] | None = None,
        skip_layers: Sequence[int] = (),
    ) -> "LayoutRequest":
        """From the command line's options: ``auto``, ``none``, a layout name, or a dictionary."""
        skipped = frozenset(skip_layers)
        if desired_layouts is not None:
            desired = {name.removeprefix("relax."): value for name, value in desired_layouts.items()}
            return LayoutRequest(check_desired(desired), skip_layers=skipped)
        if desired_layout == "auto":
            return LayoutRequest(None, skip_layers=skipped)
        if desired_layout == "none":
            return LayoutRequest({}, skip_layers=skipped)
        Layout.parse(desired_layout)
        if operators is None:
            return LayoutRequest({}, for_all=desired_layout, skip_layers=skipped)
        return LayoutRequest.parse(
            desired_layouts={name: [desired_layout, "default"] for name in operators}, skip_layers=skip_layers
        )
