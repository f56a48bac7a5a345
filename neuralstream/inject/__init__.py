"""Injection: what of memory goes back into a model's context, and how it is written there."""

from __future__ import annotations

from neuralstream.inject.block import CANDIDATES, render_context
from neuralstream.inject.entry import render_entry

__all__ = ["CANDIDATES", "render_context", "render_entry"]
