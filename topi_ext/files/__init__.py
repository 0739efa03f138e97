"""Temporary folders, and files that are written whole; a process that is killed leaves neither for long."""
