"""Schedules: one kernel family per file; :mod:`topi_ext.rules.cpu` lists the rules of CPU targets."""
