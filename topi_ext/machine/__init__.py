"""What code runs on: a CPU core as data, and what a machine tells of its extensions."""
