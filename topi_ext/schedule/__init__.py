"""Schedules: one kernel family per file; :mod:`topi_ext.schedule.rules` lists the rules of CPU targets."""
