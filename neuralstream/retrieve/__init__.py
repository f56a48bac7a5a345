"""Search: signals, their fusion, and what a question may find."""

from __future__ import annotations

from neuralstream.retrieve.features import FEATURES
from neuralstream.retrieve.query import GraphSignal, Query
from neuralstream.retrieve.search import Retriever

__all__ = ["FEATURES", "GraphSignal", "Query", "Retriever"]
