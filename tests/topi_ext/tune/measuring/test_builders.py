"""What measurers of CPUs and of GPUs share."""

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.measuring.builders import needing_packages


def test_a_package_that_is_missing_is_named_with_what_installs_it() -> None:
    with pytest.raises(RelayLayoutError) as caught, needing_packages():
        import a_package_nobody_has  # type: ignore[import-not-found]  # noqa: F401
    assert str(caught.value) == (
        "tuning needs the package a_package_nobody_has: pip install 'relay-layout[tune]'"
    )
