"""Tuning: records of measured kernels, the search for better knobs, and the measuring.

A record (:mod:`.record`) is one line of a log (:mod:`.log`); a database (:mod:`.database`) answers with
the best one of a workload. The tuner (:mod:`.tuner`) lets a strategy (:mod:`.search`) propose knobs and
measures them in processes of their own (:mod:`.measure`).
"""
