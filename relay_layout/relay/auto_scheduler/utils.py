"""``auto_scheduler.utils``: boards."""

from relay_layout.relay.autotvm.measure import check_remote, request_remote
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__, "tvm.auto_scheduler.utils")

__all__ = ["check_remote", "request_remote"]
