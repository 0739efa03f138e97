"""``relay.op.contrib``: the same as ``relay.contrib``."""

from relay_layout.relay.functions.namespaces import namespace

__getattr__, __dir__ = namespace(__name__, "contrib.")
