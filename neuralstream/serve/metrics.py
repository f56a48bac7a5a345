"""What the service counts, for Prometheus. Totals over all users: no names, no texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from neuralstream.errors import ExtractionError, NeuralStreamError
from neuralstream.extract import make_extractor
from neuralstream.stream import NeuralStream

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Batch, Extraction, Extractor

__all__ = ["Metrics", "open_memory"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""


class Metrics:
    """Counters of one service since it started, beside what is in memory now."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.turns = Counter(
            "neuralstream_turns_captured",
            "Turns sent; new ones, and those known or empty.",
            ["result"],
            registry=registry,
        )
        self.capture_seconds = Histogram(
            "neuralstream_capture_seconds", "Time of a capture request.", buckets=_BUCKETS, registry=registry
        )
        self.query_seconds = Histogram(
            "neuralstream_query_seconds", "Time of a search, by its mode, or of a context block.", ["mode"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self.tool_seconds = Histogram(
            "neuralstream_tool_seconds", "Time of an MCP tool, or of the prompt, over HTTP.", ["tool"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self.requests = Counter(
            "neuralstream_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._batches = Counter(
            "neuralstream_batches", "Batches that were distilled, or could not be, by what made them due.",
            ["trigger", "result"], registry=registry,
        )  # fmt: skip
        self._gems = Counter("neuralstream_gems_distilled", "Gems that distilling answered.", registry=registry)
        self._calls = Counter("neuralstream_model_calls", "Calls of the gem model.", registry=registry)
        self._tokens = Counter(
            "neuralstream_model_tokens", "Tokens of prompts and answers of the gem model.", ["kind"], registry=registry
        )
        self._model_seconds = Counter("neuralstream_model_seconds", "Time of the gem model.", registry=registry)

    def watch(self, memory: NeuralStream) -> None:
        """Tell how much is in a memory each time somebody asks."""
        self.registry.register(_Held(memory))

    def render(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    @contextmanager
    def timed(self, histogram: Histogram) -> Iterator[None]:
        """Note how long something took, also where it failed."""
        began = time.perf_counter()
        try:
            yield
        finally:
            histogram.observe(time.perf_counter() - began)

    def distilled(self, trigger: str, result: str, gems: int, cost: dict[str, Any]) -> None:
        """Note a batch; `cost` is named as in `Extraction.cost`."""
        self._batches.labels(trigger, result).inc()
        self._gems.inc(gems)
        self._calls.inc(cost.get("calls", 0))
        self._tokens.labels("prompt").inc(cost.get("prompt_tokens", 0))
        self._tokens.labels("answer").inc(cost.get("answer_tokens", 0))
        self._model_seconds.inc(cost.get("seconds", 0) if cost.get("calls") else 0)


@contextmanager
def open_memory(
    settings: Settings,
    metrics: Metrics,
    *,
    clock: Callable[[], datetime] | None = None,
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
) -> Iterator[NeuralStream]:
    """A memory whose distilling is counted, closed at the end; arguments and errors are those of `NeuralStream`."""
    with ExitStack() as opened:
        if extractor is None:
            extractor = make_extractor(settings)
            opened.callback(getattr(extractor, "close", lambda: None))
        counted = _CountedExtractor(extractor, metrics)
        yield opened.enter_context(NeuralStream(settings, clock=clock, embedder=embedder, extractor=counted))


class _CountedExtractor:
    """An extractor whose batches are counted."""

    def __init__(self, extractor: Extractor, metrics: Metrics) -> None:
        self._extractor = extractor
        self._metrics = metrics

    @property
    def name(self) -> str:
        """The extractor's name."""
        return self._extractor.name

    def extract(self, batch: Batch) -> Extraction:
        """The extractor's answer; raises what it raises."""
        try:
            extraction = self._extractor.extract(batch)
        except Exception as error:  # whatever foreign code raises is counted, and raised again
            cost = error.cost if isinstance(error, ExtractionError) else {}
            self._metrics.distilled(batch.trigger, "failed", 0, cost)
            raise
        self._metrics.distilled(batch.trigger, "distilled", len(extraction.gems), extraction.cost)
        return extraction


class _Held:
    """How much is in memory and how much waits, asked when it is collected."""

    def __init__(self, memory: NeuralStream) -> None:
        self._memory = memory

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: what is registered need not be asked at once."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The numbers of `Status`, where the parts answer."""
        try:
            status = self._memory.status()
        except NeuralStreamError:
            status = None
        meaning = "1 where buffer and store answer, 0 where one is down."
        yield GaugeMetricFamily("neuralstream_ready", meaning, value=float(status is not None))
        if status is None:
            return
        stored = GaugeMetricFamily("neuralstream_stored", "Turns and gems in the store.", labels=["kind"])
        stored.add_metric(["turns"], status.turns)
        stored.add_metric(["gems"], status.gems)
        yield stored
        lag = GaugeMetricFamily("neuralstream_lag_turns", "Turns that wait, by what for.", labels=["stage"])
        lag.add_metric(["index"], status.unindexed)
        lag.add_metric(["distil"], status.undistilled)
        yield lag
        for name, value, meaning in (
            ("sessions", status.sessions, "Sessions with a turn that is not forgotten."),
            ("batches_waiting", status.batches_waiting, "Batches that are due and not distilled yet."),
            ("batches_done", status.batches_done, "Batches distilled since the buffer was made, restarts included."),
            ("dead_letters", status.dead_letters, "Batches that were given up."),
        ):
            yield GaugeMetricFamily(f"neuralstream_{name}", meaning, value=value)
