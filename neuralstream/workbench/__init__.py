"""The workbench: labelled conversation logs, measures, statistics, evaluation through the served code, reports.

It imports the core; the core never imports it. What it needs beyond the core comes with `neuralstream[workbench]`.
"""

from __future__ import annotations

import importlib
from typing import Any

from neuralstream.errors import MissingPartError

__all__ = ["require"]


def require(module: str) -> Any:
    """A module of the workbench extra, imported on first use.

    Raises:
        MissingPartError: it is not installed; the message names the pip line.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPartError(
            f"the workbench needs {error.name or module}: pip install 'neuralstream[workbench]'"
        ) from error
