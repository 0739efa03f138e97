"""``relay.quantize``: networks of floats to networks of 8-bit integers, by ranges that a dataset shows.

>>> with relay.quantize.qconfig(calibrate_mode="kl_divergence", weight_scale="max"):
...     module = relay.quantize.quantize(module, params, dataset)
"""

from relay_layout.relay.missing import refuser
from relay_layout.relay.quantize.config import QConfig, current_qconfig, qconfig
from relay_layout.relay.quantize.quantize import prerequisite_optimize, quantize

__getattr__ = refuser(__name__)

__all__ = ["QConfig", "current_qconfig", "prerequisite_optimize", "qconfig", "quantize"]
