"""Let a run's settings be served, where the evidence supports it.

The settings file then says what the run measured, setting by setting, and in `[promoted]` on what evidence. The rules,
all of which a run has to meet:

    data      it was made on the data that the incumbent was measured on; `new_data` measures the incumbent on the run's
    code      by the code that will serve it
    record    the incumbent's file is as it was promoted
    gain      it is better than the incumbent by the corrected test; of a sweep, corrected for all of its runs
    budget    latency and injected tokens stay within limits

A reason, which is recorded, waives code, record and gain; `budget` has limits that the caller sets. The incumbent's
scores are those of its own run where that still lies where it did; else it is measured anew.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from neuralstream import __version__
from neuralstream.clock import iso_time, utc_now
from neuralstream.config import Settings
from neuralstream.errors import InputError, NotFoundError, RefusedError
from neuralstream.provenance import PromotedSettings, evidence_line
from neuralstream.workbench import datasets
from neuralstream.workbench.comparing import Changed
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.flips import pairs, scores_of
from neuralstream.workbench.metrics import HEADLINE
from neuralstream.workbench.report import interval_text, judge, p_text
from neuralstream.workbench.run_folders import run_settings, spec_of, swept_with
from neuralstream.workbench.runs import core_digest, read_run
from neuralstream.workbench.settings_file import SettingsFile
from neuralstream.workbench.stats import MIN_CLUSTERS, Comparison, Verdict, compare, holm, verdict

if TYPE_CHECKING:
    from neuralstream.embed.base import Embedder
    from neuralstream.types import Lane
    from neuralstream.workbench.filling import Progress
    from neuralstream.workbench.runs import Run

__all__ = ["Limits", "Promotion", "promote"]

INCUMBENT = "incumbent"
"""Folder inside the run's where the incumbent is measured anew."""

SLOWER = 2.0
"""How many times the incumbent's latency a run may have where no limit is given: two days' clocks differ as much."""


class Limits(NamedTuple):
    """The most that a run may cost; None takes the incumbent's, latency SLOWER times."""

    latency_ms: float | None = None
    tokens: int | None = None


class Promotion(NamedTuple):
    """What was written: the record, the settings that changed in the file, and what a reader should know."""

    file: Path
    record: PromotedSettings
    changed: list[Changed]
    notes: list[str]


class _Gain(NamedTuple):
    """A run against the incumbent's run."""

    incumbent: str
    comparison: Comparison
    corrected_p: float
    compared: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Winner:
    """The run, and what of it would be served."""

    run: Run
    settings: Settings
    lane: str
    mode: str

    @property
    def measure(self) -> str:
        return HEADLINE[self.lane]

    @property
    def latency_ms(self) -> float:
        return float(self.run.timings["query_ms"][f"{self.lane}/{self.mode}"]["p95"])


def promote(
    run: Run,
    to: Path,
    *,
    lane: str | None = None,
    new_data: bool = False,
    why: str | None = None,
    limits: Limits | None = None,
    by: str | None = None,
    machine: Settings | None = None,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> Promotion:
    """Write a run's settings into a settings file; what it says of other settings, and its comments, stay.

    Args:
        run: that measured them.
        to: the file; it need not exist.
        lane: what is served; None takes the lane that the settings name, else the run's only one.
        new_data: measure the incumbent on the run's data, which are others than it was promoted on.
        why: promote although a rule refuses.
        limits: of latency and injected tokens.
        by: who promotes; None takes the user of the process.
        machine: where the incumbent's parts are reached if it is measured; None takes the file's addresses and folders.
        embedder: used instead of what the settings name where the incumbent is measured.
        progress: of that measuring.

    Raises:
        RefusedError: rules are broken; names all of them.
        InputError: the run is on other data than the incumbent, or did not measure what its settings serve.
        SettingsError: the file is not TOML, or its settings are wrong.
    """
    winner = _winner(run, lane)
    file = SettingsFile(to)
    incumbent = file.settings.promoted
    if incumbent and incumbent.data_sha256 != run.manifest["dataset"]["sha256"] and not new_data:
        raise InputError(
            f"the run is on {run.manifest['dataset']['name']} ({run.manifest['dataset']['sha256'][:12]}), and what "
            f"{to} serves was promoted on {incumbent.data} ({incumbent.data_sha256[:12]}); evaluate on that, or give "
            "--new-data, which measures what is served on the run's data first"
        )
    notes, gain = [], None
    broken = [*_other_code(run), *_edited(file)]
    if incumbent is None:
        notes.append(f"nothing was promoted to {to} before: there is no incumbent to be better than")
        broken += _beaten_by_baseline(winner)
    elif why or not broken:
        gain = _gain(winner, _incumbent_run(winner, file.settings, machine, embedder, progress))
        notes.append(_said(winner, gain))
        broken += _unsupported(winner, gain)
    overrun = _overrun(winner, limits or Limits(), incumbent)
    if overrun or (broken and not why):
        raise RefusedError("\n".join([*broken, *overrun, f"nothing was written to {to}"]))
    if winner.settings.retrieval.lane != run_settings(run).retrieval.lane:
        notes.append(
            f"searches look at {winner.lane} from now on, where a call names no lane: that is what was measured"
        )
    record = _record(winner, gain, why if broken else None, by)
    changes = file.serve(winner.settings, record)
    notes.append(evidence_line(record))
    return Promotion(to, record, changes, notes)


def _winner(run: Run, lane: str | None) -> _Winner:
    settings = run_settings(run)
    lanes = run.lanes
    if lane is None:
        lane = settings.retrieval.lane if settings.retrieval.lane in lanes else lanes[0] if len(lanes) == 1 else None
    if lane not in lanes:
        raise InputError(f"which lane is to be served? Give --lane, one of {', '.join(lanes)}, which the run measured")
    mode = settings.retrieval.mode
    if mode not in run.metrics["lanes"][lane]:
        raise InputError(
            f"its settings serve mode {mode}, and the run measured {', '.join(run.metrics['lanes'][lane])}; evaluate "
            "what is to be served: `neuralstream eval … --set retrieval.mode=MODE`"
        )
    retrieval = settings.retrieval.model_copy(update={"lane": lane})
    return _Winner(run, settings.model_copy(update={"retrieval": retrieval}), lane, mode)


def _other_code(run: Run) -> list[str]:
    made_by, here = run.manifest["core_digest"], core_digest()
    if made_by == here:
        return []
    return [f"code: the run was made by other code ({made_by}) than will serve it ({here}); evaluate again"]


def _edited(file: SettingsFile) -> list[str]:
    changed = file.settings.doubt()
    return [f"record: {file.path}: {changed}"] if changed else []


def _beaten_by_baseline(winner: _Winner) -> list[str]:
    """Where nothing was promoted before, the other rankings of the same run are what there is to lose against."""
    return [
        f"gain: {one.old} ranks better than {one.new} in the run itself ({one.measure} "
        f"{one.comparison.difference:+.3f}, p {p_text(one.corrected_p)})"
        for one in judge(winner.run)
        if (one.lane, one.new, one.verdict) == (winner.lane, winner.mode, "worse")
    ]


def _incumbent_run(
    winner: _Winner,
    served: Settings,
    machine: Settings | None,
    embedder: Embedder | None,
    progress: Progress | None,
) -> Run:
    """What the file serves, measured on the winner's data by the present code."""
    record = cast("PromotedSettings", served.promoted)
    data = winner.run.manifest["dataset"]["sha256"]
    try:
        kept = read_run(record.folder)
    except (NotFoundError, OSError, ValueError):
        kept = None
    if kept and not served.doubt():
        made = kept.manifest
        if (made["run"], made["dataset"]["sha256"], made["core_digest"]) == (record.run, data, core_digest()):
            return kept
    dataset = datasets.load(spec_of(winner.run))
    if dataset.sha256 != data:
        raise InputError(f"{dataset.spec.path} was changed since {winner.run.path} was made; evaluate again")
    answers = winner.settings.llm.model_dump(include={"mode", "cassette"})
    deciding = {name: getattr(served, name) for name in served.deciding()}
    return evaluate(
        dataset,
        (machine or served).model_copy(update=deciding | {"llm": served.llm.model_copy(update=answers)}),
        modes=(served.retrieval.mode,),
        lanes=(cast("Lane", winner.lane),),
        out=winner.run.path / INCUMBENT,
        embedder=embedder,
        progress=progress,
    )


def _gain(winner: _Winner, before: Run) -> _Gain:
    """The test, corrected for every run of the winner's sweep: a winner of many is the best by chance, too."""
    old = scores_of(before, winner.lane, before.manifest["candidate"])
    ours = scores_of(winner.run, winner.lane, winner.mode)
    others = [
        scores_of(other, winner.lane, other.manifest["candidate"])
        for other in swept_with(winner.run)
        if winner.lane in other.lanes
    ]
    # Runs that rank alike are one candidate.
    tested = {tuple(pairs(new, old, winner.measure).new): pairs(new, old, winner.measure) for new in (*others, ours)}
    comparisons = [compare(*one) for one in tested.values()]
    position = [*tested].index(tuple(pairs(ours, old, winner.measure).new))
    p = holm([one.p for one in comparisons])[position]
    found = comparisons[position]
    return _Gain(before.manifest["run"], found, p, len(tested), verdict(found, p, len(tested)))


def _said(winner: _Winner, gain: _Gain) -> str:
    found = gain.comparison
    of_many = f", corrected for {gain.compared} candidates" if gain.compared > 1 else ""
    return (
        f"{winner.lane}/{winner.mode}: {winner.measure} {found.difference:+.3f} on the incumbent ("
        f"95 % {interval_text('', found.interval) or 'unknown'}; p {p_text(gain.corrected_p)}{of_many}; "
        f"over questions alone p {p_text(found.p_questions)}): {gain.verdict}"
    )


def _unsupported(winner: _Winner, gain: _Gain) -> list[str]:
    if gain.verdict == "better":
        return []
    if gain.verdict == "too few to tell" and gain.comparison.difference > 0:
        people = f"{gain.comparison.clusters} {winner.run.manifest['dataset']['cluster']}"
        tried = f"{gain.compared} candidates" if gain.compared > 1 else "it"
        cure = (
            f"{people}{'s are' if gain.comparison.clusters > 1 else ' is'} too few for a verdict on {tried}: evaluate "
            f"this one on data that it was not chosen on, of {MIN_CLUSTERS} or more, and promote that run"
        )
    else:
        cure = "what is served now stays"
    return [f"gain: {_said(winner, gain)}; {cure}. --force --why TEXT promotes it all the same"]


def _overrun(winner: _Winner, limits: Limits, incumbent: PromotedSettings | None) -> list[str]:
    latency, tokens = limits.latency_ms, limits.tokens
    if incumbent:
        latency = SLOWER * incumbent.latency_ms if latency is None else latency
        tokens = incumbent.tokens if tokens is None else tokens
    overrun = []
    if latency is not None and winner.latency_ms > latency:
        overrun.append(
            f"budget: 95 % of its questions take up to {winner.latency_ms:.1f} ms, and the limit is {latency:.1f} ms; "
            "--max-latency-ms sets another"
        )
    if tokens is not None and winner.settings.context_budget > tokens:
        overrun.append(
            f"budget: context_budget injects up to {winner.settings.context_budget} tokens, and the limit is {tokens}; "
            "--max-tokens sets another"
        )
    return overrun


def _record(winner: _Winner, gain: _Gain | None, forced: str | None, by: str | None) -> PromotedSettings:
    manifest = winner.run.manifest
    means = winner.run.metrics["lanes"][winner.lane][winner.mode]
    compared: dict[str, Any] = {}
    if gain:
        interval = gain.comparison.interval
        compared = {
            "incumbent": gain.incumbent,
            "difference": round(gain.comparison.difference, 6),
            "difference_interval": None if interval.low != interval.low else [round(end, 6) for end in interval],
            "p": round(gain.corrected_p, 6),
            "compared": gain.compared,
            "verdict": gain.verdict,
        }
    return PromotedSettings(
        settings=winner.settings.digest(),
        version=__version__,
        run=manifest["run"],
        folder=str(winner.run.path.absolute()),
        core_digest=manifest["core_digest"],
        embedder=manifest["embedder"]["name"],
        embedder_digest=manifest["embedder"]["digest"],
        extractor=manifest["extractor"],
        data=manifest["dataset"]["name"],
        data_sha256=manifest["dataset"]["sha256"],
        lane=winner.lane,
        mode=winner.mode,
        measure=winner.measure,
        value=means["overall"][winner.measure],
        interval=means["ci"].get(winner.measure),
        measures={name: value for name, value in means["overall"].items() if isinstance(value, float | int)},
        latency_ms=winner.latency_ms,
        tokens=winner.settings.context_budget,
        **compared,
        forced=forced or None,
        by=by or _user(),
        at=iso_time(utc_now().replace(microsecond=0)),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
