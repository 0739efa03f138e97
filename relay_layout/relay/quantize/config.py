"""How networks are quantized: Relay's ``qconfig``."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.entered import Entered

CALIBRATIONS = ("global_scale", "kl_divergence")
WEIGHT_SCALES = ("power2", "max")


@dataclass(frozen=True)
class QConfig(Entered):
    """A configuration, which holds within ``with``; see :func:`qconfig` for what it may say."""

    nbit_input: int = 8
    nbit_weight: int = 8
    nbit_activation: int = 32
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    weight_scale: str = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: Sequence[int] | None = (0,)
    do_simulation: bool = False
    round_for_shift: bool = True
    debug_enabled_ops: Collection[str] | None = None
    rounding: str = "UPWARD"
    calibrate_chunk_by: int = -1
    partition_conversions: str = "disabled"

    def __post_init__(self) -> None:
        _one_of("dtype_input", self.dtype_input, ("int8",))
        _one_of("dtype_weight", self.dtype_weight, ("int8",))
        _one_of("dtype_activation", self.dtype_activation, ("int32",))
        _one_of("nbit_activation", self.nbit_activation, (32,))
        _one_of("nbit_input", self.nbit_input, range(2, 9))
        _one_of("nbit_weight", self.nbit_weight, range(2, 9))
        _one_of("calibrate_mode", self.calibrate_mode, CALIBRATIONS)
        _one_of("weight_scale", self.weight_scale, WEIGHT_SCALES)
        _one_of("rounding", self.rounding, ("UPWARD", "TONEAREST"))
        _one_of("partition_conversions", self.partition_conversions, ("disabled",))
        if not 0 < float(self.global_scale) < float("inf"):
            raise ModelError(f"qconfig: global_scale is a number above 0, not {self.global_scale!r}")
        for layer in self.skip_conv_layers or ():
            if not isinstance(layer, int) or layer < 0:
                raise ModelError(f"qconfig: skip_conv_layers are positions from 0 on, and {layer!r} is none")

    def guard(self, operator: str) -> bool:
        """Whether ``debug_enabled_ops`` leaves an operator to be quantized."""
        return self.debug_enabled_ops is None or operator in self.debug_enabled_ops


def qconfig(**options: Any) -> QConfig:
    """A configuration by Relay's names.

    ``calibrate_mode`` "global_scale": data from ``-global_scale`` to ``global_scale``; "kl_divergence": each
    tensor in the range that loses least on the dataset. ``weight_scale``: the largest weight of each output
    channel ("max"), or the next power of two ("power2"). ``skip_conv_layers`` are positions of nn.conv2d,
    in the order in which they run; ``skip_dense_layer`` leaves out nn.dense. ``nbit_input`` and
    ``nbit_weight`` are 2 to 8. ``do_simulation`` rounds in float32 instead. ``debug_enabled_ops``, of
    "nn.conv2d" and "nn.dense", leaves out the other. ``rounding``, ``round_for_shift`` and
    ``calibrate_chunk_by`` have no meaning here: products of scales are not shifts, and rounded to nearest.

    ModelError for other names, and for values that would be other numbers than those computed here.
    """
    known = {field.name for field in fields(QConfig)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ModelError(f"qconfig: there is no option '{unknown[0]}'; known are {', '.join(sorted(known))}")
    return QConfig(**options)


def current_qconfig() -> QConfig:
    """The configuration that holds here; without one, the defaults."""
    return QConfig.current()


def _one_of(name: str, value: object, known: Collection[object]) -> None:
    if value not in known:
        raise ModelError(f"qconfig: {name} is {' or '.join(map(str, known))}, not {value!r}")
