"""Where prompts, data sets and notebooks lie: in the package that a wheel installed, or around it in a checkout."""

from pathlib import Path

__all__ = ["CHECKOUT", "SHIPPED"]

_PACKAGE = Path(__file__).parent
_INSTALLED = _PACKAGE / "_shipped"

CHECKOUT = None if _INSTALLED.is_dir() else _PACKAGE.parent
"""The source tree around the package; None where a wheel was installed."""

SHIPPED = CHECKOUT or _INSTALLED
"""The folder that holds `prompts`, `datasets` and `notebooks`."""
