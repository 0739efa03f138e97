"""Functions of unknown extents, built and run as scripts of the Relay VM did."""

from typing import Any

import numpy as np

from relay_layout import relay


def computed(expression: Any, **inputs: np.ndarray) -> list[np.ndarray]:
    """The results for inputs by name."""
    function = relay.Function(relay.analysis.free_vars(expression), expression)
    results = relay.create_executor("vm").evaluate(function)(**inputs)
    return [result.numpy() for result in (results if isinstance(results, list) else [results])]
