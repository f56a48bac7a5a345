"""What a tuning leaves behind: a settings file that says where its weights come from, tables, a Markdown page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import ParseError

from neuralstream import __version__
from neuralstream.errors import SettingsError
from neuralstream.ranking import FEATURES
from neuralstream.workbench.report import interval_text, markdown_table, p_text
from neuralstream.workbench.runs import core_digest, write_text
from neuralstream.workbench.stats import MIN_CLUSTERS, holm, verdict
from neuralstream.workbench.tune import DEVELOPMENT, EQUAL, HEADLINE, IN_FORCE, LEFT_OUT, MEASURES, SET_LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

    from neuralstream.config import Settings
    from neuralstream.workbench.tune import Outcome, Tuning

__all__ = [
    "ablation_rows",
    "as_json",
    "category_rows",
    "markdown",
    "result_rows",
    "signal_rows",
    "verdict_rows",
    "weight_rows",
    "write_settings",
]

_ALSO_SHAPE_FEATURES = ("candidates", "shortlist", "graph_restart")
"""Settings of all kinds that other weights would have been found under; written where they are not the default."""

_DIGITS = 4

_MEANING = """\
*Development* is measured on what the weights were fitted to, *conversations left out* on conversations that strength,
features and weights were chosen without, *data set left out* by weights fitted on the other data sets of the kind.
Intervals are over conversations, of nDCG@10."""

_ABLATION = """\
All features, at the strength that was chosen, against all but the group's, both fitted without the conversation that is
ranked. A gain above 0 speaks for the group; `q` marks a p over questions, which is too optimistic, where conversations
are too few for a test."""

Rows = list[list[Any]]


def write_settings(tuning: Tuning, settings: Settings, out: Path) -> Path:
    """Write the weights into a settings file; what else an existing file says, and its comments, stay.

    `[retrieval.KIND]` gets the weights beside the k1, b and other settings of the kind that they were fitted with,
    `[retrieval.tuned]` where they come from. There is no clock in it: the same tuning gives the same bytes.

    Args:
        tuning: its weights.
        settings: that the features were computed with.
        out: the file.

    Raises:
        SettingsError: the existing file is not TOML.
    """
    try:
        document = tomlkit.parse(out.read_text(encoding="utf-8")) if out.is_file() else tomlkit.document()
    except ParseError as error:
        raise SettingsError(f"{out} is not TOML: {error}; repair it, or name another file") from error
    retrieval = _table(document, "retrieval", is_super_table=True)
    defaults = type(settings.retrieval)()
    for name in _ALSO_SHAPE_FEATURES:
        if getattr(settings.retrieval, name) != getattr(defaults, name):
            retrieval[name] = getattr(settings.retrieval, name)
    for kind, model in tuning.models.items():
        ranking, used = _table(retrieval, kind), getattr(settings.retrieval, kind)
        ranking.update(used.model_dump(exclude={"weights"}))
        ranking.pop("weights", None)
        ranking["weights"] = {name: model.weights[name] for name in tuning.features if name in model.weights}
    retrieval.pop("tuned", None)
    retrieval["tuned"] = _provenance(tuning)
    return write_text(out, tomlkit.dumps(document))


def result_rows(tuning: Tuning) -> Rows:
    """The numbers side by side: a header, then a row per kind, data set and ranking."""
    rows: Rows = [["kind", "data set", "ranking", "P@5", "of at most", "R@5", "R@10", "nDCG@10", "95 % interval"]]
    for one in tuning.outcomes:
        for label, system in _shown(one):
            numbers = [one.mean(system, measure) for measure in MEASURES]
            interval = interval_text("", one.interval(system))
            rows.append([one.kind, one.tables.name, label, *numbers, interval])
    return rows


def verdict_rows(tuning: Tuning) -> Rows:
    """The fitted weights, conversations left out, against what else there is: a header, then a row per comparison."""
    rows: Rows = [
        [
            *("kind", "data set", "fitted (left out) against", "nDCG@10 difference", "95 % interval"),
            *("p (Holm)", "p over questions", "win/tie/loss", "verdict"),
        ]
    ]
    for one in tuning.outcomes:
        for judged in one.judged:
            found = judged.comparison
            few = found.clusters < MIN_CLUSTERS
            rows.append(
                [
                    *(one.kind, one.tables.name, judged.old, found.difference, interval_text("", found.interval)),
                    *(p_text(judged.corrected_p), p_text(found.p_questions) if few else None),
                    *(f"{found.wins}/{found.ties}/{found.losses}", judged.verdict),
                ]
            )
    return rows


def weight_rows(tuning: Tuning) -> Rows:
    """Each feature's weight by kind: a header, then a row per feature that has one; None where it was dropped."""
    rows: Rows = [["feature", *tuning.models]]
    for name in tuning.features:
        weights = [model.weights.get(name) for model in tuning.models.values()]
        if any(weights):
            rows.append([name, *weights])
    return rows


def signal_rows(tuning: Tuning) -> Rows:
    """Every signal by itself: a header, then a row per signal with its nDCG@10 on each data set."""
    rows: Rows = [["signal alone", *(f"{one.tables.name} ({one.kind})" for one in tuning.outcomes)]]
    for name in tuning.features:
        if name in tuning.signals:
            rows.append([name, *(one.mean(name) for one in tuning.outcomes)])
    return rows


def ablation_rows(tuning: Tuning) -> Rows:
    """What each group of features adds: a header, then a row per kind, data set and group.

    p is corrected over a data set's groups; where conversations are too few for a test, it is that over questions, not
    corrected, with a `q` behind it. The verdict is on nDCG@10.
    """
    rows: Rows = [
        ["kind", "data set", "group", "features", "nDCG@10 gain", "p of nDCG@10", "R@5 gain", "p of R@5", "verdict"]
    ]
    for one in tuning.outcomes:
        corrected = {
            measure: holm([ablation.overall[measure].p for ablation in one.ablations]) for measure in (HEADLINE, "R@5")
        }
        for n, ablation in enumerate(one.ablations):
            cells: list[Any] = []
            for measure, ps in corrected.items():
                found = ablation.overall[measure]
                few = found.clusters < MIN_CLUSTERS
                cells += [found.difference, f"{p_text(found.p_questions)} q" if few else p_text(ps[n])]
            said = verdict(ablation.overall[HEADLINE], corrected[HEADLINE][n], len(one.ablations))
            members = ", ".join(ablation.features)
            rows.append([one.kind, one.tables.name, ablation.group, members, *cells, said])
    return rows


def category_rows(outcome: Outcome) -> Rows:
    """R@5 gained by each group of features within each category, with the uncorrected p over questions."""
    categories = list(outcome.ablations[0].by_category) if outcome.ablations else []
    rows: Rows = [["group", *(f"{name} ({_count(outcome, name)})" for name in categories)]]
    for ablation in outcome.ablations:
        found = [ablation.by_category[name] for name in categories]
        rows.append([ablation.group, *(f"{one.difference:+.3f} (p {p_text(one.p_questions)})" for one in found)])
    return rows


def markdown(tuning: Tuning) -> str:
    """The tuning as a page for `reports/`."""
    parts = ["# The weights of hybrid retrieval", *_about(tuning)]
    for title, lines in (("Refused", tuning.refusals), ("Warnings", tuning.warnings)):
        if lines:
            parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    parts += [
        "## What the weights are worth",
        _MEANING,
        markdown_table(result_rows(tuning)),
        "## Is the difference real?",
        markdown_table(verdict_rows(tuning)),
        "## Weights",
        "The largest of a kind is 1. A feature without a weight was dropped.",
        markdown_table(weight_rows(tuning)),
        "## Signals alone, nDCG@10",
        markdown_table(signal_rows(tuning)),
    ]
    if any(one.ablations for one in tuning.outcomes):
        parts += [
            "## What each group of features adds",
            _ABLATION,
            markdown_table(ablation_rows(tuning)),
            "R@5 gained by category (number of questions), p over questions, not corrected:",
        ]
        for one in tuning.outcomes:
            parts += [f"### {one.tables.name} ({one.kind})", markdown_table(category_rows(one))]
    return "\n\n".join(parts) + "\n"


def as_json(tuning: Tuning) -> dict[str, Any]:
    """Weights, numbers, comparisons, refusals and warnings as one document."""
    return {
        "models": {
            kind: {"weights": dict(model.weights), "strength": model.strength} for kind, model in tuning.models.items()
        },
        "results": [
            {
                "kind": one.kind,
                "dataset": one.tables.name,
                "queries": len(one.questions),
                "best_signal": one.best_signal,
                "rankings": {name: _means(one, name) for name in one.systems},
                "intervals": {name: _ends(one, name) for name in one.systems},
            }
            for one in tuning.outcomes
        ],
        "comparisons": _objects(verdict_rows(tuning)),
        "ablation": _objects(ablation_rows(tuning)),
        "refusals": tuning.refusals,
        "warnings": tuning.warnings,
    }


def _provenance(tuning: Tuning) -> dict[str, Any]:
    first = tuning.tables[0]
    return {
        "version": __version__,
        "command": _command(tuning),
        "embedder": first.embedder,
        "embedder_digest": first.embedder_digest,
        "analyser": first.analyser,
        "seed": tuning.seed,
        "features": list(tuning.features),
        "regularisation": {kind: model.strength for kind, model in tuning.models.items()},
        "datasets": [
            {
                "name": one.tables.name,
                "sha256": one.tables.sha256,
                "split": one.tables.split,
                "kind": one.kind,
                "lent": one.tables.name in tuning.also.get(one.kind, ()),
                "queries": len(one.questions),
                "development": _means(one, DEVELOPMENT),
                "left_out": _means(one, LEFT_OUT),
                "set_left_out": _means(one, SET_LEFT_OUT) if SET_LEFT_OUT in one.systems else {},
            }
            for one in tuning.outcomes
        ],
    }


def _table(parent: MutableMapping[str, Any], name: str, *, is_super_table: bool = False) -> MutableMapping[str, Any]:
    """A table of a TOML document, made where it is missing."""
    if name not in parent:
        parent[name] = tomlkit.table(is_super_table)
    found: MutableMapping[str, Any] = parent[name]
    return found


def _shown(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The rankings to show, each after its label."""
    yield f"best single signal: {outcome.best_signal}", outcome.best_signal
    for system in (EQUAL, IN_FORCE, DEVELOPMENT, LEFT_OUT, *outcome.travelled):
        yield system, system


def _about(tuning: Tuning) -> Iterator[str]:
    first = tuning.tables[0]
    yield (
        f"Made by `{_command(tuning)}` with NeuralStream {__version__}, core `{core_digest()}`, embedder "
        f"{first.embedder} (`{first.embedder_digest}`), analyser {first.analyser}; seed {tuning.seed}."
    )
    yield markdown_table(
        [["data set", "questions scored", "a conversation is a", "SHA-256"]]
        + [[one.name, len(one.questions), one.cluster, f"`{one.sha256}`"] for one in tuning.tables]
    )


def _command(tuning: Tuning) -> str:
    data = "".join(f" --dataset {one.spec}" for one in tuning.tables)
    spec_of = {one.name: one.spec for one in tuning.tables}
    also = "".join(f" --also {kind}={spec_of[name]}" for kind, names in tuning.also.items() for name in names)
    without = "".join(f" --without {name}" for name in FEATURES if name not in tuning.features)
    return f"neuralstream tune{data}{also}{without} --seed {tuning.seed} --out FILE"


def _means(outcome: Outcome, system: str) -> dict[str, float]:
    return {name: round(outcome.mean(system, name), _DIGITS) for name in MEASURES if name != "ceiling_P@5"}


def _ends(outcome: Outcome, system: str) -> list[float] | None:
    ends = [round(end, _DIGITS) for end in outcome.interval(system)]
    return None if math.isnan(ends[0]) else ends


def _count(outcome: Outcome, category: str) -> int:
    return sum(one.category == category for one in outcome.questions)


def _objects(rows: Rows) -> list[dict[str, Any]]:
    head, *lines = rows
    return [dict(zip(head, line, strict=True)) for line in lines]
