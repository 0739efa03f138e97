"""Tuning: records of measured kernels, the search for better knobs, and the measuring.

A record (:mod:`.record`) is one line of a log (:mod:`.log`); a database (:mod:`.database`) answers with
the best one of a workload. The tuner (:mod:`.tuner`) lets a strategy (:mod:`.search`) propose knobs and
measures them in processes of their own (:mod:`.measure`), and compares the result of what wins
(:mod:`.agreement`). Layout transforms have records in the same logs (:mod:`.transform_tuner`), which tell
what others take (:mod:`.transforms`).
"""
