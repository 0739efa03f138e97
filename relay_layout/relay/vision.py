"""Operators of object detection: ``relay.vision``."""

from relay_layout.relay.functions.namespaces import namespace

__getattr__, __dir__ = namespace(__name__, "vision.")
