"""The order in which tensors lie in memory, said in the module itself.

``annotate_dim_orders`` says it of every value, ``explicit_dim_orders`` makes shapes and transforms of it, and
``implicit_dim_orders`` turns that back.
"""

from relay_layout.dim_order_marker import order_asked, to_dim_order, without_markers
from relay_layout.dim_orders.annotate import annotate_dim_orders
from relay_layout.dim_orders.storing import explicit_dim_orders, implicit_dim_orders

__all__ = [
    "annotate_dim_orders",
    "explicit_dim_orders",
    "implicit_dim_orders",
    "order_asked",
    "to_dim_order",
    "without_markers",
]
