"""Recurrent layers over sequences as one operator of Relax, and as operators for each step."""

from relay_layout.recurrent.operator import RECURRENT, optional_of, recurrence_of, recurrent

__all__ = ["RECURRENT", "optional_of", "recurrence_of", "recurrent"]
