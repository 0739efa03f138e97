"""What a caller may ask of layouts, checked before any work is done.

The options of the API and of the command line become one :class:`LayoutRequest`, which all stages read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

from relay_layout.errors import LayoutError
from relay_layout.layout import Layout
from relay_layout.relay.callbacks.conventions import check_desired
from relay_layout.targets.backend import LayoutBackend, check_backend


@dataclass(frozen=True)
class LayoutRequest:
    """What the caller wants of layouts."""

    desired_layouts: Mapping[str, Sequence[str]] | None = None
    """Relay's dictionary of operator name to layouts; None leaves the choice to the solver, ``{}`` converts
    nothing."""

    for_all: str | None = None
    """A layout for every convolution that has its axes, in place of ``desired_layouts``."""

    skip_layers: frozenset[int] = frozenset()
    """Convolutions to leave alone, counted from 0 in the order in which they run."""

    for_any_module: bool = False
    """May ``skip_layers`` name convolutions that a module does not have? Relay's LayoutConfig holds for
    whatever is converted within it."""

    alter: bool = False
    """Call the callbacks of ``register_alter_op_layout``?"""

    input_layouts: Mapping[str, str] = field(default_factory=dict)
    """Layouts of inputs, by name; other inputs stay as the module has them."""

    output_layouts: Mapping[str, str] = field(default_factory=dict)
    """Layouts of outputs, by name; other outputs stay as the module has them."""

    backend: LayoutBackend | None = None
    """Asked for each operator which layouts it accepts."""

    input_dim_orders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The order in which dimensions of inputs lie in memory, by name. Shapes stay as the module has them, and
    what the module declares itself is overridden."""

    output_dim_orders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """As ``input_dim_orders``, for outputs."""

    @property
    def is_choice(self) -> bool:
        """Whether the solver chooses the layouts of all operators, as the target runs them fastest."""
        return self.desired_layouts is None and self.for_all is None

    def inside(self) -> "LayoutRequest":
        """The request for a body, a function that "main" runs: its inputs and outputs stay as they are."""
        return replace(
            self,
            skip_layers=frozenset(),
            input_layouts={},
            output_layouts={},
            input_dim_orders={},
            output_dim_orders={},
        )

    @staticmethod
    def parse(
        desired_layout: str = "auto",
        desired_layout_ops: Sequence[str] | None = None,
        desired_layouts: Mapping[str, Sequence[str]] | None = None,
        skip_layers: Sequence[int] = (),
        *,
        input_layouts: Mapping[str, str] | None = None,
        output_layouts: Mapping[str, str] | None = None,
        backend: LayoutBackend | None = None,
        input_dim_orders: Mapping[str, Sequence[int]] | None = None,
        output_dim_orders: Mapping[str, Sequence[int]] | None = None,
    ) -> "LayoutRequest":
        """The request for the command line's options: ``auto``, ``none``, a layout's name, or a dictionary.

        Raises LayoutError for text that is not a layout, a dictionary that no operator can follow, and
        options that contradict one another.
        """
        _check(desired_layout, desired_layout_ops, desired_layouts, skip_layers)
        _check_names("input_layouts", input_layouts, "layouts", "NHWC", str)
        _check_names("output_layouts", output_layouts, "layouts", "NHWC", str)
        _check_names("input_dim_orders", input_dim_orders, "orders of dimensions", (0, 2, 3, 1), Iterable)
        _check_names("output_dim_orders", output_dim_orders, "orders of dimensions", (0, 2, 3, 1), Iterable)
        if backend is not None:
            check_backend(backend)
        named, for_all = desired_layouts, None
        if named is None and desired_layout not in ("auto", "none"):
            Layout.parse(desired_layout)
            if desired_layout_ops is None:
                for_all = desired_layout
            else:
                named = {name: [desired_layout, "default"] for name in desired_layout_ops}
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


def _check(
    desired_layout: str,
    operators: Sequence[str] | None,
    desired_layouts: Mapping[str, Sequence[str]] | None,
    skip_layers: Sequence[int],
) -> None:
    if not isinstance(desired_layout, str):
        raise LayoutError(f"desired_layout is one name, such as 'NHWC', not {desired_layout!r}")
    if operators is not None and not (operators and _is_list(operators, str)):
        raise LayoutError(f"desired_layout_ops is a list of operators, not {operators!r}")
    if desired_layouts is not None:
        if not isinstance(desired_layouts, Mapping) or not _is_list(list(desired_layouts), str):
            raise LayoutError(f"desired_layouts maps operators to layouts, but is {desired_layouts!r}")
        if operators is not None or desired_layout != "auto":
            raise LayoutError(
                "desired_layouts cannot be combined with desired_layout or desired_layout_ops; "
                "give one of them"
            )
    if operators is not None and desired_layout in ("auto", "none"):
        raise LayoutError(
            f"desired_layout_ops needs a layout for them, but desired_layout is '{desired_layout}'; name one"
        )
    if not _is_list(skip_layers, Integral):
        raise LayoutError(f"skip_layers is a list of positions of convolutions, not {skip_layers!r}")


def _check_names(option: str, given: object, of: str, example: object, kind: type) -> None:
    """Raises LayoutError for what is no dictionary from names to what ``kind`` of entries they have."""
    if given is None:
        return
    told = f"{option} maps names to {of}, such as {{'input': {example!r}}}, but is {given!r}"
    if not isinstance(given, Mapping) or not _is_list(list(given), str):
        raise LayoutError(told)
    for entry in given.values():
        if not isinstance(entry, kind) or (kind is not str and not _is_list(entry, Integral)):
            raise LayoutError(told)


def _is_list(given: object, kind: type) -> bool:
    """Whether something holds any number of entries of one kind, and is no text."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return False
    return all(isinstance(entry, kind) for entry in given)
