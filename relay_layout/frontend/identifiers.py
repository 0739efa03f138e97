"""Names of a model as names of variables and functions."""

import re


def identifier(name: str) -> str:
    """A name with underscores for other characters than letters and digits, and before a leading digit."""
    safe = re.sub(r"\W", "_", name)
    return f"_{safe}" if safe[:1].isdigit() else safe
