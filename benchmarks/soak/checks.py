"""What must hold at the end of a soak. Pure functions over what the host was promised and what it was told.

Memory is *flat* where, in a phase in which as much is stored at the end as at the beginning, after a first third that
warms up, the slope of the process's own memory (`RssAnon`) over the requests it answered is below `FLAT_KB` kB for
each. Of every `_WINDOW_SECONDS` the sample with the least memory counts: freed memory is given back every 15 s, and
what has not been given back yet is no leak. Asking only begins after everything was found once, since what is
remembered of turns is bounded by what is stored. Own memory, because mapped files are the store's data, which the
system takes back when it needs the room. The slope is Theil's and Sen's, the median of the slopes between all pairs of
samples, which single steps move little. Where its 95 % interval holds `FLAT_KB`, nothing is concluded: too few
requests were answered. Open files and threads are flat where their median in the last third is at most `FLAT_FILES`
above that of the middle third.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from scipy.stats import theilslopes

from benchmarks.soak.service import Sample, Tally

__all__ = [
    "FLAT_FILES",
    "FLAT_KB",
    "Check",
    "Known",
    "Promised",
    "Slope",
    "as_metrics",
    "check_memory",
    "check_what_is_known",
    "metrics_differences",
    "slope_of",
]

FLAT_KB = 1.0
"""kB per request: an agent that asks a thousand times a day would see a megabyte of it."""

FLAT_FILES = 3

_WINDOW_SECONDS = 16.0
_FEWEST_WINDOWS = 5
_FEWEST_SAMPLES = 40
"""After warming up; of fewer, nothing is concluded."""

_SHOWN = 5

_ANSWERED = re.compile(r'neuralstream_requests_total\{method="(?P<method>\w+)",.*,status="(?P<status>\d+)"\}')


class Slope(NamedTuple):
    """How a process's own memory grew, kB per request, with the 95 % interval of Sen's method."""

    kb: float
    low: float
    high: float


@dataclass(frozen=True)
class Check:
    """A line of the verdict; `passed` is None where there was too little to tell."""

    name: str
    passed: bool | None
    told: str

    @classmethod
    def that(cls, name: str, wrong: Sequence[str], told: str) -> Check:
        """Passed where nothing is wrong; else the first things that are."""
        if not wrong:
            return cls(name, passed=True, told=told)
        rest = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        return cls(name, passed=False, told="; ".join(wrong[:_SHOWN]) + rest)


class Promised(NamedTuple):
    """What a user was promised; see `host.Ledger`."""

    sessions: Mapping[str, Sequence[str]]
    forgotten: Mapping[str, Sequence[str]]
    planted: Collection[str]
    uncited: Collection[str]


class Known(NamedTuple):
    """What the service knows of a user.

    Attributes:
        sessions: ids of turns by session, in order.
        gems: every gem, as JSON, those that were replaced included.
        dead_letters: ids of turns of each.
        found_again: what of forgotten sessions was still found.
    """

    sessions: Mapping[str, Sequence[str]]
    gems: Sequence[Mapping[str, Any]]
    dead_letters: Sequence[Sequence[str]]
    found_again: Sequence[str]


def check_what_is_known(promised: Mapping[str, Promised], known: Mapping[str, Known]) -> list[Check]:
    """Hold what every user was promised against what the service knows after everything was distilled."""
    pairs = [(user, promised[user], known[user]) for user in promised]
    turns = sum(len(session) for _, one, _ in pairs for session in one.sessions.values())
    sessions = sum(len(one.sessions) for _, one, _ in pairs)
    gems = sum(len(one.gems) for _, _, one in pairs)
    planted = sum(len(one.planted) for _, one, _ in pairs)
    gone = [session for _, one, _ in pairs for session in one.forgotten.values()]
    return [
        Check.that(
            "every acknowledged turn is there once, in order",
            [line for _, one, other in pairs for line in _not_as_sent(one, other)],
            f"{turns:,} turns of {sessions:,} sessions",
        ),
        Check.that(
            "every gem cites turns of its own session",
            [line for user, one, other in pairs for line in _badly_cited(user, one, other)],
            f"{gems:,} gems",
        ),
        Check.that(
            "every turn was distilled once",
            [line for _, one, other in pairs for line in _not_distilled_once(one, other)],
            f"{turns - planted:,} turns, though the model never says the same twice",
        ),
        Check.that(
            "dead letters are those that were planted",
            [line for _, one, other in pairs for line in _not_planted(one, other)],
            f"{planted} planted",
        ),
        Check.that(
            "what was forgotten is gone",
            [line for _, _, other in pairs for line in other.found_again],
            f"{sum(map(len, gone)):,} turns of {len(gone):,} sessions",
        ),
    ]


def metrics_differences(samples: Mapping[str, float], tally: Tally, held: Mapping[str, int]) -> list[str]:
    """What `/metrics` counts otherwise than the host did in the same life.

    Args:
        samples: by name and labels, read while the host rested.
        tally: what the host counted before it read them.
        held: what must be in memory by sample.
    """
    requests: Counter[tuple[str, int]] = Counter()
    for name, value in samples.items():
        if answered := _ANSWERED.fullmatch(name):
            requests[answered["method"], int(answered["status"])] += int(value)
    expected = {
        'neuralstream_turns_captured_total{result="new"}': tally.new,
        'neuralstream_turns_captured_total{result="known"}': tally.captures - tally.new,
        "neuralstream_capture_seconds_count": tally.captures,
        "neuralstream_query_seconds_count": tally.queries,
        **held,
    }
    queries = sum(value for name, value in samples.items() if name.startswith("neuralstream_query_seconds_count{"))
    found = {**samples, "neuralstream_query_seconds_count": queries}
    differences = [
        f"{method} answered with {status}: {requests[method, status]} instead of {tally.answers[method, status]}"
        for method, status in sorted(requests.keys() | tally.answers.keys())
        if requests[method, status] != tally.answers[method, status]
    ]
    differences += [
        f"{name}: {found.get(name, 0):g} instead of {value}"
        for name, value in expected.items()
        if found.get(name, 0) != value
    ]
    return differences


def as_metrics(text: str) -> dict[str, float]:
    """Samples of Prometheus' text format, by name and labels."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def slope_of(samples: Sequence[Sample], *, valkey: bool = False) -> Slope | None:
    """How own memory grew with the requests answered, the first third left out; None of too few samples."""
    kept = samples[len(samples) // 3 :]
    windows: dict[int, tuple[int, int]] = {}
    for sample in kept:
        window = int((sample.seconds - kept[0].seconds) / _WINDOW_SECONDS)
        own = (sample.valkey if valkey else sample.service).anonymous
        windows[window] = min(windows.get(window, (own, sample.answers)), (own, sample.answers))
    memory, answers = zip(*windows.values(), strict=True) if windows else ((), ())
    if len(windows) < _FEWEST_WINDOWS or answers[0] == answers[-1]:
        return None
    if len(set(memory)) == 1:  # the interval's formula has no answer then
        return Slope(0.0, 0.0, 0.0)
    slope, _, low, high = theilslopes(memory, answers)
    return Slope(float(slope), float(low), float(high))


def check_memory(phase: str, samples: Sequence[Sample]) -> list[Check]:
    """Whether memory, open files and threads were flat in a phase that leaves as much stored as it found."""
    checks = []
    for who, valkey in (("the service", False), ("its Valkey", True)):
        slope = slope_of(samples, valkey=valkey)
        name = f"{phase}: memory of {who} is flat"
        if slope is None:
            checks.append(Check(name, passed=None, told=f"too few samples: {len(samples)}"))
        else:
            told = f"{slope.kb:+.3f} kB a request ({slope.low:+.3f} to {slope.high:+.3f}), at most {FLAT_KB:g} allowed"
            passed = None if slope.low <= FLAT_KB <= slope.high else slope.kb < FLAT_KB
            checks.append(Check(name, passed=passed, told=told))
    middle, last = (samples[len(samples) * third // 3 : len(samples) * (third + 1) // 3] for third in (1, 2))
    for what in ("files", "threads"):
        name = f"{phase}: {'open files' if what == 'files' else what} are flat"
        if len(middle) < _FEWEST_SAMPLES // 2:
            checks.append(Check(name, passed=None, told=f"too few samples: {len(samples)}"))
            continue
        before, after = (median(getattr(sample.service, what) for sample in third) for third in (middle, last))
        checks.append(Check(name, passed=after <= before + FLAT_FILES, told=f"{before:g}, then {after:g}"))
    return checks


def _not_as_sent(promised: Promised, known: Known) -> list[str]:
    sent, found = promised.sessions, known.sessions
    wrong = [f"session {session} is there, and was not sent" for session in found.keys() - sent.keys()]
    for session, turns in sent.items():
        have = list(found.get(session, ()))
        if have != list(turns):
            lost, more = (list((one - other).elements()) for one, other in _both_ways(turns, have))
            what = f"lacks {lost}" if lost else f"has too much: {more}" if more else "is in another order"
            wrong.append(f"session {session} {what}")
    return wrong


def _badly_cited(user: str, promised: Promised, known: Known) -> list[str]:
    wrong = []
    for gem in known.gems:
        session = gem["source"]["session_id"]
        outside = set(gem["source_turns"]) - set(promised.sessions.get(session, ()))
        if gem["user_id"] != user or outside or not gem["source_turns"]:
            wrong.append(f"gem {gem['gem_id']} of {gem['user_id']}, session {session}, cites {gem['source_turns']}")
    return wrong


def _not_distilled_once(promised: Promised, known: Known) -> list[str]:
    """A gem that was corrected by hand cites the turns of the one that it replaces, which is on record."""
    cited = Counter(turn for gem in known.gems if gem["model"] != "correct" for turn in gem["source_turns"])
    excused = {*promised.planted, *promised.uncited}
    turns = (turn for session in promised.sessions.values() for turn in session)
    return [
        f"turn {turn} is cited by {cited[turn]} gems"
        for turn in turns
        if cited[turn] > 1 or (cited[turn] == 0 and turn not in excused)
    ]


def _not_planted(promised: Promised, known: Known) -> list[str]:
    dead = Counter(turn for letter in known.dead_letters for turn in letter)
    return [
        f"turn {turn}: {what}"
        for one, other, what in (
            (dead, Counter(promised.planted), "a dead letter that was not planted, or is there twice"),
            (Counter(promised.planted), dead, "planted, and no dead letter"),
        )
        for turn in (one - other).elements()
    ]


def _both_ways(one: Iterable[str], other: Iterable[str]) -> list[tuple[Counter[str], Counter[str]]]:
    first, second = Counter(one), Counter(other)
    return [(first, second), (second, first)]
