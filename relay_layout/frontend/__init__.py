"""Models in their own formats to Relax modules.

:mod:`.loader` finds the importer of what a caller gives: :mod:`.onnx`, :mod:`.torch`, :mod:`.tflite` or
:mod:`.relay`. These have converters of operators by family, and share :mod:`.operators`, what a name stands
for while a graph is read (:mod:`.values`), arithmetic of open extents (:mod:`.extents`), and loops that run
as often as the data say (:mod:`.run_time_loops`).
"""

from relay_layout.frontend.loader import Model, Params, load_model
from relay_layout.frontend.onnx import from_onnx
from relay_layout.frontend.relay import from_relay
from relay_layout.frontend.tflite import from_tflite
from relay_layout.frontend.torch import from_torch

__all__ = ["Model", "Params", "from_onnx", "from_relay", "from_tflite", "from_torch", "load_model"]
