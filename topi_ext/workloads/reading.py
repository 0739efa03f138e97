"""Convolutions from what functions and tuning records say of them."""

import json
from collections.abc import Mapping
from typing import Any

from topi_ext.workloads.convolution import ConvolutionWorkload, VolumeWorkload
from topi_ext.workloads.separable import SEPARABLE, SeparableWorkload
from topi_ext.workloads.text import with_tuples


def workload_class(fields: Mapping[str, Any]) -> type[ConvolutionWorkload]:
    """The class that has these fields, by the operator among them."""
    kinds = {"conv3d": VolumeWorkload, SEPARABLE: SeparableWorkload}
    return kinds.get(str(fields.get("operator")), ConvolutionWorkload)


def convolution_from_json(text: str) -> ConvolutionWorkload:
    """The workload that :meth:`ConvolutionWorkload.to_json` wrote; symbolic extents are their names."""
    fields = with_tuples(json.loads(text))
    return workload_class(fields)(**fields)
