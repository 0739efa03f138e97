"""Tuning for several targets at once, on all machines that a tracker lends under several keys.

A process (:mod:`.worker`) tunes for one key and target as ``relay-layout tune`` does; the coordinator
(:mod:`.coordinator`) starts them, hears what they do, and keeps the picture of it (:mod:`.status`).
"""
