"""Poolings as texts."""

from topi_ext.workloads.pooling import PoolingWorkload
from topi_ext.workloads.text import operator_of


def test_round_trip_and_operator() -> None:
    workload = PoolingWorkload("max_pool2d", 64, (3, 3), (2, 2), "NCHW8c", "float32")
    assert PoolingWorkload.from_json(workload.to_json()) == workload
    assert operator_of(workload.to_json()) == "max_pool2d"
