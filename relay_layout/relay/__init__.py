"""Relay's file formats and names, on top of the layout engine."""
