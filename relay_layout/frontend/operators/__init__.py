"""Operators that more than one importer has, as Relax."""
