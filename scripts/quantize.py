"""Make a quantized network of a built-in one, as ONNX, by ONNX Runtime's quantization.

``python -m scripts.quantize resnet18 -o resnet18_int8.onnx``. Calibration data are random, so that the
network's answers mean as little as those of the float32 one; its shapes and its arithmetic are a real one's.
``--form`` is how integers are written: "qdq", quantize and dequantize between operators on real numbers;
"qoperator", operators on integers; "dynamic", operators on integers whose scales the data give.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from relay_layout import models
from relay_layout.cli.main import Printed, guarded
from relay_layout.cli.options import check_writable

_STATIC = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}
_TYPES = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}


class _Random(CalibrationDataReader):
    """A few batches of normal numbers."""

    def __init__(self, shape: Sequence[int], batches: int) -> None:
        generator = np.random.default_rng(0)
        self._batches: Iterator[np.ndarray] = iter(
            [generator.standard_normal(shape).astype("float32") for _ in range(batches)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch}


def quantize(
    network: models.Network,
    path: Path,
    *,
    per_channel: bool = True,
    activations: str = "uint8",
    batches: int = 3,
    form: str = "qdq",
    reduce_range: bool = False,
) -> Path:
    """Write a network, whose input is "input", to ``path`` with 8-bit activations and weights.

    Weights are int8; uint8 where the ``form`` is "dynamic", of which ONNX Runtime has no fast convolutions
    otherwise, and per tensor. With ``reduce_range`` weights have seven bits, as ONNX Runtime wants them on
    x86 without VNNI.
    """
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        plain, prepared = Path(directory) / "plain.onnx", Path(directory) / "prepared.onnx"
        models.export_onnx(network, plain)
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        if form == "dynamic":
            quantize_dynamic(str(prepared), str(path), weight_type=QuantType.QUInt8)
            return path
        quantize_static(
            str(prepared),
            str(path),
            _Random([int(extent) for extent in network.inputs[0].shape], batches),
            quant_format=_STATIC[form],
            per_channel=per_channel,
            activation_type=_TYPES[activations],
            weight_type=QuantType.QInt8,
            reduce_range=reduce_range,
            extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
        )
    return path


def main() -> int:
    """Quantize one built-in network; bad input is one line."""
    return guarded(quantize_built_in, with_traceback=False)


def quantize_built_in() -> Printed:
    """The name of the file that was written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", choices=models.names())
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--activations", choices=list(_TYPES), default="uint8")
    parser.add_argument("--per-tensor", action="store_true", help="one scale for each weight")
    parser.add_argument("--form", choices=[*_STATIC, "dynamic"], default="qdq")
    parser.add_argument("--reduce-range", action="store_true", help="weights of seven bits")
    arguments = parser.parse_args()
    check_writable("-o", str(arguments.output))
    quantize(
        models.build(arguments.network),
        arguments.output,
        per_channel=not arguments.per_tensor,
        activations=arguments.activations,
        form=arguments.form,
        reduce_range=arguments.reduce_range,
    )
    return Printed(str(arguments.output))


if __name__ == "__main__":
    sys.exit(main())
