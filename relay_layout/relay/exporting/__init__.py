"""Relax modules to Relay's syntax tree."""
