"""A baseline: what a run scored on each question, kept beside the code so that a later run can be paired with it.

One small JSON file: the data's hash, floors, and for each lane the ranking that is served, its means and its scores.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.errors import InputError, NotFoundError
from neuralstream.workbench.flips import FOUND, Asked, Scores, scores_of
from neuralstream.workbench.metrics import HEADLINE
from neuralstream.workbench.report import candidate
from neuralstream.workbench.run_folders import spec_of
from neuralstream.workbench.runs import pretty, write_text

if TYPE_CHECKING:
    from neuralstream.workbench.runs import Run

__all__ = ["Baseline", "Floors", "baseline_of", "gated_measures", "read_baseline", "rounded", "write_baseline"]

_DIGITS = 4
_ALSO = (FOUND, "evidence@1000")
_FIELDS = ("dataset", "run", "config_digest", "core_digest", "embedder", "extractor", "floors", "lanes")

Floors = Mapping[str, Mapping[str, float]]
"""The least that a mean may be: by lane and measure."""


class Baseline(NamedTuple):
    """What a baseline file says.

    Attributes:
        about: data set, run, digests and models.
        floors: by lane and measure.
        modes: the ranking of each lane.
        scores: of each lane.
    """

    about: Mapping[str, Any]
    floors: Floors
    modes: Mapping[str, str]
    scores: Mapping[str, Scores]

    def means(self, lane: str) -> dict[str, float]:
        """A lane's measures, each over all questions."""
        scores = self.scores[lane].values()
        return {name: round(sum(one[name] for one in scores) / len(scores), _DIGITS) for name in gated_measures(lane)}


def gated_measures(lane: str) -> tuple[str, ...]:
    """What is compared on a lane, its headline first."""
    return tuple(dict.fromkeys((HEADLINE[lane], *_ALSO)))


def baseline_of(run: Run, floors: Floors) -> Baseline:
    """A run's candidates as a baseline."""
    manifest = run.manifest
    about = {name: manifest[name] for name in ("run", "config_digest", "core_digest", "extractor")}
    about["dataset"] = {name: manifest["dataset"][name] for name in ("name", "sha256", "cluster")}
    about["dataset"]["spec"] = spec_of(run)
    about["embedder"] = manifest["embedder"]["name"]
    modes = {lane: candidate(run, lane) for lane in run.lanes}
    return Baseline(about, floors, modes, {lane: rounded(run, lane, mode) for lane, mode in modes.items()})


def rounded(run: Run, lane: str, mode: str) -> dict[Asked, dict[str, float]]:
    """Scores as a baseline keeps them: a difference in a digit that it drops is none."""
    return {
        asked: {name: round(scores[name], _DIGITS) for name in gated_measures(lane)}
        for asked, scores in scores_of(run, lane, mode).items()
    }


def write_baseline(baseline: Baseline, file: Path) -> Path:
    """Write a baseline, a line a question."""
    lanes = {}
    for lane, mode in baseline.modes.items():
        measures, scores = gated_measures(lane), baseline.scores[lane]
        questions: dict[str, dict[str, list[float]]] = defaultdict(dict)
        for asked, found in scores.items():
            questions[asked.conversation][asked.query_id] = [found[name] for name in measures]
        means = baseline.means(lane)
        lanes[lane] = {"mode": mode, "measures": list(measures), "means": means, "questions": questions}
    text = pretty({**baseline.about, "floors": baseline.floors, "lanes": lanes})
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_text(file, re.sub(r"\[\s+([^][{}]*?)\s+]", lambda found: f"[{' '.join(found[1].split())}]", text))


def read_baseline(file: Path) -> Baseline:
    """Read what `write_baseline` wrote.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is no baseline.
    """
    make = f"`neuralstream gate RUN --baseline {file} --update-baseline`"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        about = {name: document[name] for name in _FIELDS}
        floors, lanes = about.pop("floors"), about.pop("lanes")
        scores = {
            lane: {
                Asked(conversation, query): dict(zip(kept["measures"], values, strict=True))
                for conversation, queries in kept["questions"].items()
                for query, values in queries.items()
            }
            for lane, kept in lanes.items()
        }
        return Baseline(about, floors, {lane: kept["mode"] for lane, kept in lanes.items()}, scores)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no baseline {file}; make one of a run of what is served now with {make}, and commit it"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file} is no baseline ({type(error).__name__}: {error}); take it from your history, or remove it and "
            f"make it anew with {make}, naming its floors again"
        ) from error
