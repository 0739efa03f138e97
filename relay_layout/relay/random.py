"""Random numbers: ``relay.random``."""

from relay_layout.relay.functions.namespaces import namespace

__getattr__, __dir__ = namespace(__name__, "random.")
