"""Tuning: records of measured kernels, the search for better knobs, and the measuring.

A record (:mod:`.records.record`) is one line of a log (:mod:`.records.log`); a database
(:mod:`.records.database`) answers with the best one of a workload. The tuner (:mod:`.tuner`) lets a strategy
(:mod:`.search`) propose knobs, which :mod:`.models` rank, and measures them in processes of their own
(:mod:`.measuring.cpu_measure`), and compares the result of what wins (:mod:`.measuring.agreement`). Layout
transforms have records in the same logs (:mod:`.transform_tuner`), which tell what others take
(:mod:`.records.transforms`).
"""
