"""What happened in a replay: when each turn was said, distilled, and gone from the host's context.

Nothing in the core reports to this. A batch reaches its extractor with its trigger's name, and the extractor that a
replay's memory is given, `Recorder`, writes it down.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.clock import iso_time
from neuralstream.errors import ExtractionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from neuralstream.extract.base import Batch, Extraction, Extractor
    from neuralstream.workbench.virtual_clock import Moment, VirtualClock

__all__ = ["Distilled", "Recorder", "Said", "Taken", "Timeline"]


@dataclass(frozen=True, slots=True)
class Said:
    """A turn that was new to memory.

    Attributes:
        user_id, session_id, turn_id: which.
        moment: when it was said; `moment.turns` counts it.
        left: when it left the host's context by a compaction or because the user began anew; None where it did not.
    """

    user_id: str
    session_id: str
    turn_id: str
    moment: Moment
    left: Moment | None = None


@dataclass(frozen=True, slots=True)
class Distilled:
    """A batch: what made it due, its turns, and what became of it.

    Attributes:
        moment: when it was due, which is when its gems could be found.
        cause: its trigger: "batch", "context", "idle", "end", "reset" or "compaction".
        user_id, session_id: whose turns.
        turn_ids: the turns, oldest first.
        gems: ids of the gems made, before equal ones were merged.
        cited: the turns that these gems come from, each once, in order.
        calls, tokens: of the language model, every try together; 0 where none was asked.
        tries: how often it was given to the extractor.
        failed: why it is a dead letter; empty where it is none.
    """

    moment: Moment
    cause: str
    user_id: str
    session_id: str
    turn_ids: tuple[str, ...]
    gems: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()
    calls: int = 0
    tokens: int = 0
    tries: int = 1
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Turns and batches of a replay, each in the order of time."""

    turns: tuple[Said, ...] = ()
    batches: tuple[Distilled, ...] = ()

    @classmethod
    def joined(cls, timelines: Iterable[Timeline]) -> Timeline:
        """Several replays, such as a data set's conversations, as one; users keep to themselves in every measure."""
        every = list(timelines)
        return cls(
            tuple(turn for one in every for turn in one.turns),
            tuple(batch for one in every for batch in one.batches),
        )

    @property
    def plan_digest(self) -> str:
        """SHA-256 of which turns were distilled together, in which order: equal plans ask an extractor the same."""
        plan = [[batch.user_id, batch.session_id, *batch.turn_ids] for batch in self.batches]
        return hashlib.sha256(json.dumps(plan).encode()).hexdigest()

    def rows(self) -> list[dict[str, Any]]:
        """A batch a row, for a table: at, cause, user, session, first and last turn, counts."""
        return [
            {
                "at": batch.moment.at,
                "cause": batch.cause if not batch.failed else f"{batch.cause}: failed",
                "user": batch.user_id,
                "session": batch.session_id,
                "first": batch.turn_ids[0],
                "last": batch.turn_ids[-1],
                "turns": len(batch.turn_ids),
                "gems": len(batch.gems),
                "calls": batch.calls,
                "tokens": batch.tokens,
            }
            for batch in self.batches
        ]

    def json_lines(self) -> Iterator[str]:
        """Everything, an event a line, in the order of time: a turn said, a turn out of the context, a batch."""
        events: list[tuple[Moment, int, dict[str, Any]]] = []
        for said in self.turns:
            turn = {"user_id": said.user_id, "session_id": said.session_id, "turn_id": said.turn_id}
            events.append((said.moment, 0, {"event": "turn", **turn}))
            if said.left:
                events.append((said.left, 2, {"event": "left", **turn}))
        for batch in self.batches:
            told = {
                name: list(value) if isinstance(value, tuple) else value
                for name in Distilled.__slots__
                if name != "moment"
                for value in [getattr(batch, name)]
            }
            events.append((batch.moment, 1, {"event": "batch", **told}))
        for moment, _, event in sorted(events, key=lambda one: (one[0].at, one[0].turns, one[1])):
            yield json.dumps({"at": iso_time(moment.at), "turns_said": moment.turns, **event}, ensure_ascii=False)


class Taken(NamedTuple):
    """A batch that an extractor was given: when, its answer (None where it had none), and how many tries that took."""

    batch: Batch
    moment: Moment
    answer: Extraction | None
    cost: Mapping[str, int]
    tries: int


class Recorder:
    """An extractor that answers as another does, and remembers what it was given and when.

    Args:
        extractor: the one that answers.
        clock: tells when.

    Attributes:
        taken: by batch id, in the order in which batches were first taken.
    """

    def __init__(self, extractor: Extractor, clock: VirtualClock) -> None:
        self._extractor = extractor
        self._clock = clock
        self.taken: dict[str, Taken] = {}

    @property
    def name(self) -> str:
        """The other's name."""
        return self._extractor.name

    def extract(self, batch: Batch) -> Extraction:
        """The other's answer; raises what it raises."""
        before = self.taken.get(batch.batch_id)
        cost: dict[str, int] = defaultdict(int, before.cost if before else {})
        answer: Extraction | None = None
        spent: Mapping[str, Any] = {}
        try:
            answer = self._extractor.extract(batch)
            spent = answer.cost
        except ExtractionError as error:
            spent = error.cost
            raise
        finally:
            for name in ("calls", "tokens"):
                cost[name] += int(spent.get(name, 0))
            tries = before.tries + 1 if before else 1
            self.taken[batch.batch_id] = Taken(batch, self._clock.moment, answer, cost, tries)
        return answer

    def close(self) -> None:
        """Close the other, where it has something to let go of."""
        close = getattr(self._extractor, "close", None)
        if close is not None:
            close()
