"""What ``relay.build`` and its executors share: targets, logs of tuning, bound parameters, boards."""
