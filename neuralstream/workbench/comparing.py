"""Two runs on the same questions: what a change of settings or of code gained, and whether that may be chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralstream.errors import InputError
from neuralstream.workbench.comment import as_code, folded, unfolding, without_constants
from neuralstream.workbench.flips import FOUND, Asked, Moved, moved, moved_rows, scores_of
from neuralstream.workbench.metrics import HEADLINE
from neuralstream.workbench.report import candidate, interval_text, markdown_table, p_text
from neuralstream.workbench.stats import ALPHA, MIN_CLUSTERS, Comparison, Verdict, compare, holm, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neuralstream.workbench.runs import QueryResult, Run

__all__ = [
    "Changed",
    "Paired",
    "as_json",
    "change_rows",
    "changes",
    "compare_runs",
    "counted",
    "flip_rows",
    "flips",
    "holm_in_two",
    "markdown",
    "moved_text",
    "paired_rows",
    "said",
]

OVERALL = "all"
SHOWN = 20
"""Questions shown of those that flipped."""

_MADE_BY = ("core_digest", "extractor", "candidate")
_NOT_COMPARED = frozenset({"home", "cache_dir", "promoted"})

Rows = list[list[Any]]


class Paired(NamedTuple):
    """One measure on one category's questions; `category` is OVERALL for all of them.

    Attributes:
        old, new: means over the questions.
        corrected_p: by Holm; for what, `compare_runs` says.
    """

    lane: str
    category: str
    measure: str
    questions: int
    old: float
    new: float
    comparison: Comparison
    corrected_p: float
    verdict: Verdict


class Changed(NamedTuple):
    """Something that differs between the runs: a setting's dotted name, or what made them."""

    name: str
    old: Any
    new: Any


def compare_runs(old: Run, new: Run) -> list[Paired]:
    """Each run's candidate on every lane that both have.

    The comparisons over all questions are what a change is judged by, and corrected for each other. Those by category
    are a search for where it lies, and corrected for all rows.

    Raises:
        InputError: the runs asked different questions, or share no lane.
    """
    found = []
    for lane in _shared(old, new):
        before, after = (_by_query(run, lane) for run in (old, new))
        if before.keys() != after.keys():
            raise InputError(
                f"{old.path} and {new.path} asked different questions on lane {lane} ({len(before)} and {len(after)}); "
                "compare runs of the same data set"
            )
        categories = sorted({one.category for one in before.values()})
        for category in (OVERALL, *(categories if len(categories) > 1 else ())):
            asked = [name for name, one in before.items() if category in {OVERALL, one.category}]
            clusters = [before[name].conversation for name in asked]
            for measure in (FOUND, HEADLINE[lane]):
                was, now = ([side[name].scores[measure] for name in asked] for side in (before, after))
                found.append((lane, category, measure, was, now, compare(now, was, clusters)))
    _refuse_other_data(old, new)
    return _judged(found)


def changes(old: Run, new: Run) -> list[Changed]:
    """Settings and makers that differ. None is a setting that a run does not have, or that is unset."""
    before, after = ({**dict(_flat(run.manifest["settings"])), **_makers(run)} for run in (old, new))
    names = [*after, *(name for name in before if name not in after)]
    return [Changed(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def flips(old: Run, new: Run) -> dict[str, list[Moved]]:
    """By lane, the questions that were lost to, or gained for, the first five hits; the greatest loss first."""
    return {
        lane: [one for one in moved(_scores(new, lane), _scores(old, lane), HEADLINE[lane]) if one.flip]
        for lane in _shared(old, new)
    }


def said(paired: Sequence[Paired], lane: str) -> str:
    """A lane's verdict in a few sentences: how the headline measure moved, and why it may or may not be chance."""
    one = next(row for row in paired if (row.lane, row.category, row.measure) == (lane, OVERALL, HEADLINE[lane]))
    found = one.comparison
    told = [f"{lane}: {one.verdict}. {moved_text(one.measure, one.old, one.new)} over {one.questions} questions"]
    if one.verdict == "too few to tell":
        told.append(
            f"Chance is counted over conversations, and {found.clusters} are too few for a verdict or an interval "
            f"({MIN_CLUSTERS} or more are needed, and more for several lanes); over single questions p is "
            f"{p_text(found.p_questions)}, which sees a difference too easily"
        )
    else:
        interval = interval_text("95 %", found.interval)
        told.append(f"p {p_text(one.corrected_p)} over {found.clusters} conversations, {interval}")
        if (one.verdict == "no difference seen") == (found.interval.low > 0 or found.interval.high < 0):
            told.append(
                "The interval says otherwise, as may be near the border: the verdict goes by p, which is corrected for "
                f"all measures and lanes and has to be {ALPHA} or less"
            )
    return ". ".join(told) + "."


def moved_text(measure: str, old: float, new: float) -> str:
    """How a mean moved, in words."""
    if f"{old:.3f}" == f"{new:.3f}":
        return f"{measure} stayed at {new:.3f}"
    return f"{measure} {'rose' if new > old else 'fell'} from {old:.3f} to {new:.3f} ({new - old:+.3f})"


def paired_rows(paired: Sequence[Paired]) -> Rows:
    """As a table: a header, then a row per comparison; p over questions takes no account of conversations."""
    rows: Rows = [
        ["lane", "category", "questions", "measure", "old", "new", "difference", "95 % interval", "p (Holm)",
         "p over questions", "win/tie/loss", "verdict"]
    ]  # fmt: skip
    for one in paired:
        found = one.comparison
        outcomes = f"{found.wins}/{found.ties}/{found.losses}"
        rows.append(
            [one.lane, one.category, one.questions, one.measure, one.old, one.new, found.difference,
             interval_text("", found.interval), p_text(one.corrected_p), p_text(found.p_questions), outcomes,
             one.verdict]
        )  # fmt: skip
    return rows


def change_rows(changed: Sequence[Changed]) -> Rows:
    """As a table: a header, then a row per change."""
    return [["changed", "old", "new"], *([one.name, _short(one.old), _short(one.new)] for one in changed)]


def flip_rows(new: Run, flipped: Mapping[str, Sequence[Moved]], lane: str) -> Rows:
    """As a table: a header, then SHOWN questions, losses before gains, the greatest first."""
    texts = {Asked(one.conversation, one.query_id): one.text for one in new.results}
    lost, gained = ([one for one in flipped[lane] if one.flip == kind] for kind in ("lost", "gained"))
    gained.sort(key=lambda one: one.old - one.new)
    shown = lost[: max(SHOWN // 2, SHOWN - len(gained))]
    return moved_rows([*shown, *gained[: SHOWN - len(shown)]], HEADLINE[lane], texts)


def counted(lane: str, flipped: Sequence[Moved]) -> str:
    """How many questions flipped, in a sentence."""
    lost = sum(one.flip == "lost" for one in flipped)
    return f"{lane}: {lost} questions lost their evidence among the first five hits, {len(flipped) - lost} gained it."


def markdown(old: Run, new: Run) -> str:
    """The comparison as Markdown, for a pull request."""
    paired, flipped, changed = compare_runs(old, new), flips(old, new), changes(old, new)
    columns, *rows = paired_rows(paired)
    overall, by_category = ([row for row in rows if (row[1] == OVERALL) is wanted] for wanted in (True, False))
    parts = [
        f"### {new.metrics['dataset']['name']}: `{new.manifest['run']}` against `{old.manifest['run']}`",
        *(f"**{said(paired, lane)}**" for lane in flipped),
        markdown_table(without_constants([columns, *overall], "lane", "category")),
        markdown_table(as_code(change_rows(changed), "changed", "old", "new"))
        if changed
        else "Neither settings nor code nor models differ.",
    ]
    for lane in flipped:
        parts.append(counted(lane, flipped[lane]))
        if flipped[lane]:
            parts.append(folded(as_code(flip_rows(new, flipped, lane), "question", "asked")))
    if by_category:
        table = markdown_table(without_constants(as_code([columns, *by_category], "category"), "lane"))
        parts.append(unfolding("By category", table))
    return "\n\n".join(parts) + "\n"


def as_json(old: Run, new: Run) -> dict[str, Any]:
    """All of it as one JSON document; p values are numbers."""
    paired = compare_runs(old, new)
    columns, *rows = paired_rows(paired)
    return {
        "old": old.manifest["run"],
        "new": new.manifest["run"],
        "measures": [
            dict(zip(columns, row, strict=True))
            | {"p (Holm)": one.corrected_p, "p over questions": one.comparison.p_questions}
            for one, row in zip(paired, rows, strict=True)
        ],
        "changed": [one._asdict() for one in changes(old, new)],
        "flipped": {
            lane: [{**one.asked._asdict(), "flip": one.flip, "old": one.old, "new": one.new} for one in found]
            for lane, found in flips(old, new).items()
        },
    }


def holm_in_two(p_values: Sequence[float], first: Sequence[int]) -> list[float]:
    """P values by Holm, those at `first` for each other and the rest for all.

    What was decided on beforehand is not made harder to see by looking for more.
    """
    corrected = holm(p_values)
    for n, p in zip(first, holm([p_values[n] for n in first]), strict=True):
        corrected[n] = p
    return corrected


def _shared(old: Run, new: Run) -> list[str]:
    lanes = [lane for lane in old.lanes if lane in new.lanes]
    if not lanes:
        raise InputError(
            f"{old.path} has lane {', '.join(old.lanes)}, {new.path} {', '.join(new.lanes)}; evaluate the same lane"
        )
    return lanes


def _refuse_other_data(old: Run, new: Run) -> None:
    before, after = (run.manifest["dataset"]["sha256"] for run in (old, new))
    if before != after:
        raise InputError(
            f"{old.path} was made on data {before[:12]}, {new.path} on {after[:12]}; evaluate both on the same data"
        )


def _judged(found: Sequence[tuple[str, str, str, list[float], list[float], Comparison]]) -> list[Paired]:
    first = [n for n, (_, category, *_) in enumerate(found) if category == OVERALL]
    corrected = holm_in_two([comparison.p for *_, comparison in found], first)
    return [
        Paired(
            lane, category, measure, len(was), float(np.mean(was)), float(np.mean(now)), comparison, corrected[n],
            verdict(comparison, corrected[n], len(first) if n in first else len(found)),
        )
        for n, (lane, category, measure, was, now, comparison) in enumerate(found)
    ]  # fmt: skip


def _by_query(run: Run, lane: str) -> dict[tuple[str, str], QueryResult]:
    return {(one.conversation, one.query_id): one for one in run.of(lane, candidate(run, lane))}


def _scores(run: Run, lane: str) -> Mapping[Asked, Mapping[str, float]]:
    return scores_of(run, lane, candidate(run, lane))


def _makers(run: Run) -> dict[str, Any]:
    return {name: run.manifest[name] for name in _MADE_BY} | {"embedder": run.manifest["embedder"]["name"]}


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names; each weight is one."""
    for name, value in settings.items():
        if before + name in _NOT_COMPARED:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _short(value: Any) -> Any:
    text = str(value)
    return value if isinstance(value, float | int | None) or len(text) <= 60 else text[:59] + "…"
