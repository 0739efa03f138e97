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
    ``skip_layers`` counts convolutions from 0 in the order they run. There must be as many, but not where a
    request is ``for_any_module``: Relay's LayoutConfig holds for whatever is converted within it. With
    ``alter`` the callbacks of ``register_alter_op_layout`` are asked. ``input_layouts`` and
    ``output_layouts`` are layouts that inputs come in and outputs leave in, by name; others stay as the
    module has them. ``input_dim_orders`` and ``output_dim_orders`` say in which order dimensions lie in
    memory while shapes stay as the module has them, and go before what the module itself declares. A
    ``backend`` is asked per operator what layouts it accepts.
    """

    desired_layouts: Mapping[str, Sequence[str]] | None = None
    for_all: str | None = None
    skip_layers: frozenset[int] = frozenset()
    for_any_module: bool = False
    alter: bool = False
    input_layouts: Mapping[str, str] = field(default_factory=dict)
    output_layouts: Mapping[str, str] = field(default_factory=dict)
    backend: LayoutBackend | None = None
    input_dim_orders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    output_dim_orders: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @staticmethod
    def parse(
        desired_layout: str = "auto",
        operators: Sequence[str] | None = None,
        desired_layouts: Mapping[str, Sequence[str]] | None = None,
        skip_layers: Sequence[int] = (),
        *,
        input_layouts: Mapping[str, str] | None = None,
        output_layouts: Mapping[str, str] | None = None,
        backend: LayoutBackend | None = None,
        input_dim_orders: Mapping[str, Sequence[int]] | None = None,
        output_dim_orders: Mapping[str, Sequence[int]] | None = None,
    ) -> "LayoutRequest":
        """From the command line's options: ``auto``, ``none``, a layout name, or a dictionary.

        Raises LayoutError for what is no layout, and for a dictionary that no operator can follow.
        """
        named, for_all = desired_layouts, None
        if named is None and desired_layout not in ("auto", "none"):
            Layout.parse(desired_layout)
            if operators is None:
                for_all = desired_layout
            else:
                named = {name: [desired_layout, "default"] for name in operators}
        desired: Mapping[str, Sequence[str]] | None = None if desired_layout == "auto" else {}
        if named is not None:
            desired = check_desired({name.removeprefix("relax."): value for name, value in named.items()})
        return LayoutRequest(
            desired,
            for_all,
            frozenset(skip_layers),
            input_layouts=input_layouts or {},
            output_layouts=output_layouts or {},
            backend=backend,
            input_dim_orders=input_dim_orders or {},
            output_dim_orders=output_dim_orders or {},
        )
