"""Schedules for CUDA, one kernel family per file."""
