"""On what evidence settings are served: the record that `neuralstream promote` writes into a settings file.

The record holds a digest of the file's settings and one of itself, so that a file that was changed by hand afterwards,
in its settings or in its numbers, is noticed wherever it is loaded.
"""

from __future__ import annotations

import hashlib
import json

from pydantic import Field

from neuralstream.sections import Table

__all__ = ["PromotedSettings", "doubt", "evidence_line", "seal"]


class PromotedSettings(Table):
    """What was promoted, measured on what, and how it did against what was served before."""

    digest: str = Field("", description="of this record")
    settings: str = Field(description="digest of the file's settings, as they were promoted")
    version: str = Field(description="of neuralstream")
    run: str = Field(description="names the run that measured them")
    folder: str = Field(description="where the run lay")
    core_digest: str = Field(description="of the code that was measured")
    embedder: str = Field(description="the model that made the vectors")
    embedder_digest: str = Field(description="identifies its weights")
    extractor: str = Field(description="what distilled")
    data: str = Field(description="the data set")
    data_sha256: str = Field(description="its hash")
    lane: str = Field(description="what was searched")
    mode: str = Field(description="the ranking")
    measure: str = Field(description="what runs are compared by")
    value: float = Field(description="mean of the measure over all questions")
    interval: list[float] | None = Field(None, description="its 95 % interval; unset: too few clusters for one")
    measures: dict[str, float] = Field(description="the other means")
    latency_ms: float = Field(description="95th percentile of a question's time, milliseconds")
    tokens: int = Field(description="most tokens of a context block")
    incumbent: str | None = Field(None, description="run that it was compared with; unset: nothing was promoted before")
    difference: float | None = Field(None, description="from the incumbent's mean")
    difference_interval: list[float] | None = Field(None, description="95 % interval of the difference")
    p: float | None = Field(None, description="of the difference, corrected for all that was compared")
    compared: int | None = Field(None, description="how many candidates p is corrected for")
    verdict: str | None = Field(None, description="the difference in words")
    forced: str | None = Field(None, description="why it was promoted against a refusal")
    by: str = Field(description="who promoted it")
    at: str = Field(description="when, ISO 8601, UTC")


def seal(record: PromotedSettings) -> PromotedSettings:
    """The record with its own digest."""
    return record.model_copy(update={"digest": _digest(record)})


def doubt(record: PromotedSettings, settings: str) -> str | None:
    """Why a record is no evidence for settings of this digest; None where it is."""
    if record.digest != _digest(record):
        return "the record [promoted] was changed after it was written; promote the run again"
    if record.settings == settings:
        return None
    return (
        f"the settings are not those that run {record.run} measured (digest {settings}, promoted {record.settings}): "
        f"they were changed since, or defaults are others than in neuralstream {record.version}; measure them with "
        "`neuralstream eval` and promote that run"
    )


def evidence_line(record: PromotedSettings) -> str:
    """The evidence in one line, for people."""
    said = f"{record.lane}/{record.mode} has {record.measure} {record.value:.3f}"
    if record.interval:
        said += f" ({record.interval[0]:.3f} to {record.interval[1]:.3f})"
    said += f" on {record.data}"
    if record.difference is not None:
        said += f", {record.difference:+.3f} on what was served before: {record.verdict}"
    if record.forced:
        said += f"; forced: {record.forced}"
    return f"{said}; run {record.run}, promoted by {record.by} at {record.at}"


def _digest(record: PromotedSettings) -> str:
    """SHA-256 of all fields but the digest, 16 hex digits."""
    said = json.dumps(record.model_dump(mode="json", exclude={"digest"}), sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]
