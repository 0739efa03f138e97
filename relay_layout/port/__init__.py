"""Python scripts written for Relay (TVM up to 0.18), rewritten for today's TVM and this package.

Needs nothing of TVM but the list of its names, and works on the text: whatever is not Relay's stays as it
is, byte for byte.
"""

from relay_layout.port.porting import Ported, port_source
from relay_layout.port.script import NotCarried

__all__ = ["NotCarried", "Ported", "port_source"]
