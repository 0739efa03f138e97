"""Computes for CUDA alone, as its schedules need them: of NHWC data, and of rows."""
