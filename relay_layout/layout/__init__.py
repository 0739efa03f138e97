"""The algebra of layouts; pure Python, without TVM.

A layout is a value (:mod:`.value`) with a text (:mod:`.grammar`); :mod:`.transform` goes from one to another.
"""

from relay_layout.layout.value import Axis, Layout, known_extent, layout_of_parts

__all__ = ["Axis", "Layout", "known_extent", "layout_of_parts"]
