"""Settings for all tests."""

from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("relay_layout", deadline=None, print_blob=True)
settings.load_profile("relay_layout")
