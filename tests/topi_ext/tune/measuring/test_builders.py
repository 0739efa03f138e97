"""What measurers of CPUs and of GPUs share."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.tune.measuring.builders import built, needing_packages
from topi_ext.tune.measuring.library import Library


def test_a_package_that_is_missing_is_named_with_what_installs_it() -> None:
    with pytest.raises(RelayLayoutError) as caught, needing_packages():
        import a_package_nobody_has  # type: ignore[import-not-found]  # noqa: F401
    assert str(caught.value) == (
        "tuning needs the package a_package_nobody_has: pip install 'relay-layout[tune]'"
    )


def test_kernels_that_are_being_built_are_given_up() -> None:
    """One is built, one is being built, and one waits: neither is waited for."""
    go_on, asked = Event(), []

    def build(job: list[str]) -> Library:
        if job == ["slow"]:
            go_on.wait(60)
        return Library(job[0], [])

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 2

    with ThreadPoolExecutor(1) as pool:
        outcomes = built(pool, build, [["fast"], ["slow"], ["waits"], "schedule: wrong"], 9.0, stop)
        go_on.set()
    found = [library.path if library else error for library, error in outcomes]
    assert found == ["fast", "build: stopped", "build: stopped", "schedule: wrong"]
