"""Relay's configuration of quantization."""

from typing import Any

import pytest

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.relay.quantize import current_qconfig, qconfig


def test_configurations_nest() -> None:
    assert current_qconfig() == qconfig()
    with relay.quantize.qconfig(skip_conv_layers=None):
        with qconfig(global_scale=4.0, skip_dense_layer=False) as inner:
            assert current_qconfig() is inner
        assert current_qconfig().skip_conv_layers is None
    assert current_qconfig().skip_conv_layers == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nbit_inputs": 8}, "no option 'nbit_inputs'; known are calibrate_chunk_by, "),
        ({"nbit_input": 16}, "nbit_input is 2 or 3 or 4 or 5 or 6 or 7 or 8, not 16"),
        ({"dtype_activation": "int16"}, "dtype_activation is int32, not 'int16'"),
        ({"dtype_input": "uint8"}, "dtype_input is int8, not 'uint8'"),
        (
            {"calibrate_mode": "percentile"},
            "calibrate_mode is global_scale or kl_divergence, not 'percentile'",
        ),
        ({"weight_scale": "mean"}, "weight_scale is power2 or max, not 'mean'"),
        ({"partition_conversions": "enabled"}, "partition_conversions is disabled, not 'enabled'"),
        ({"rounding": "DOWN"}, "rounding is UPWARD or TONEAREST, not 'DOWN'"),
        ({"global_scale": 0}, "global_scale is a number above 0, not 0"),
        ({"skip_conv_layers": [-1]}, "skip_conv_layers are positions from 0 on, and -1 is none"),
    ],
)
def test_what_would_be_other_numbers_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"^qconfig: .*{message}"):
        qconfig(**options)
