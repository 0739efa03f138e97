"""``relay.op.transform``: the operators without a prefix."""

from relay_layout.relay.functions.namespaces import namespace

__getattr__, __dir__ = namespace(__name__, "")
