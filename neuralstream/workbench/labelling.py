"""Labelling one's own logs: a folder in the native format that grows by one question with every decision.

    with open_labelling([Path("logs/")], Path("my-set"), settings) as labelling:
        for card in labelling.cards():
            ...                                     # show it to a person
            labelling.accept(card, evidence=card.marked)    # or labelling.reject(card)

Evidence is chosen from a pool: the best few turns of each of several retrievers, in an order drawn for each question,
so that nothing shows which found what. A pool of one retriever would make that one look right. Questions on which the
retrievers disagree most come first: they tell most about which is better.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from neuralstream.clock import iso_time
from neuralstream.errors import InputError
from neuralstream.workbench import datasets
from neuralstream.workbench.filling import NoExtractor, filled_memory
from neuralstream.workbench.own_logs import append_line, read_lines, read_own_logs, write_set
from neuralstream.workbench.proposing import Proposal, propose
from neuralstream.workbench.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.logs.base import Conversation, Unit
    from neuralstream.stream import NeuralStream
    from neuralstream.types import Mode, Turn
    from neuralstream.workbench.filling import Progress

__all__ = ["Card", "Labelling", "open_labelling"]

_POOLED: tuple[Mode, ...] = ("bm25", "semantic", "hybrid")
_EACH = 5
"""Turns that each retriever gives to a pool."""

_MORE = 3
"""Proposals looked at for each that is asked for."""

_REJECTED = "rejected.jsonl"


@dataclass(frozen=True, slots=True)
class Card:
    """A question to judge, with the turns that may answer it.

    Attributes:
        proposal: the question.
        candidates: turns to choose the evidence from, without a sign of who found them.
        marked: ids of those that are thought to answer it.
        disagreement: 0 where the retrievers found the same turns, 1 where they shared none.
        number, total: which card it is, of how many.
    """

    proposal: Proposal
    candidates: tuple[Turn, ...]
    marked: tuple[str, ...]
    disagreement: float
    number: int
    total: int


class Labelling:
    """A labelled set in the making. Every decision is on disk when its call returns; see `open_labelling`.

    Args:
        folder: of the set.
        conversations: what is labelled.
        memory: holds the conversations.
        settings: of the extractor that finds statements.
        most: cards in all, those decided before included.
    """

    def __init__(
        self, folder: Path, conversations: Sequence[Conversation], memory: NeuralStream, settings: Settings, most: int
    ) -> None:
        self.folder = folder
        self._conversations = conversations
        self._memory = memory
        self._settings = settings
        self._most = most
        queries = sorted((folder / "queries").glob("*.jsonl"))
        self.accepted = [row["query_id"] for file in queries for row in read_lines(file)]
        self.rejected = [row["query_id"] for row in read_lines(folder / _REJECTED)]

    def cards(self, progress: Callable[[str, int, int], object] = lambda *_: None) -> Iterator[Card]:
        """What is left to judge; questions on which the retrievers disagree come first.

        Args:
            progress: told how many questions the retrievers have looked at.
        """
        decided = {*self.accepted, *self.rejected}
        left = self._most - len(decided)
        if left <= 0:
            return
        # Judged ones are ranked again, so that the others come in the order they had.
        waiting = list(islice(self._proposals(), self._most * _MORE))
        cards = []
        for done, proposal in enumerate(waiting, 1):
            cards.append(self._pool(proposal))
            progress("find evidence", done, len(waiting))
        chosen = [card for card in _best_of_each_kind(cards) if card.proposal.query_id not in decided][:left]
        for number, card in enumerate(chosen, len(decided) + 1):
            yield replace(card, number=number, total=len(decided) + len(chosen))

    def accept(
        self,
        card: Card,
        *,
        evidence: Sequence[str],
        text: str | None = None,
        category: str | None = None,
        answer: str = "",
    ) -> None:
        """Keep a question.

        Args:
            card: what was judged.
            evidence: ids of the turns that answer it; none where the conversation does not.
            text: the question in other words; None keeps the proposal's.
            category: None keeps the proposal's.
            answer: what would be right, where somebody says so.

        Raises:
            InputError: evidence is no turn of the user, or there are no words.
        """
        proposal = card.proposal
        known = {turn.turn_id for one in self._conversations if one.name == proposal.user_id for turn in one.turns}
        unknown = [turn_id for turn_id in evidence if turn_id not in known]
        words = (proposal.text if text is None else text).strip()
        if unknown or not words:
            raise InputError(f"a question has words and cites turns of its user, got {words!r} and {unknown or 'none'}")
        row = {
            "query_id": proposal.query_id,
            "text": words,
            "category": category or (proposal.category if evidence else "unanswerable"),
            "evidence": list(evidence),
            "answer": answer,
            "asked_at": iso_time(proposal.asked_at) if proposal.asked_at else None,
        }
        append_line(self.folder / "queries" / f"{proposal.user_id}.jsonl", row)
        self.accepted.append(proposal.query_id)

    def reject(self, card: Card) -> None:
        """Never propose a question again."""
        append_line(self.folder / _REJECTED, {"query_id": card.proposal.query_id, "text": card.proposal.text})
        self.rejected.append(card.proposal.query_id)

    def _proposals(self) -> Iterator[Proposal]:
        """Conversations taking turns."""
        rows = [propose(conversation, self._settings) for conversation in self._conversations]
        for n in range(max(map(len, rows), default=0)):
            yield from (row[n] for row in rows if n < len(row))

    def _pool(self, proposal: Proposal) -> Card:
        conversation = next(one for one in self._conversations if one.name == proposal.user_id)
        turns = {turn.turn_id: turn for turn in conversation.turns}
        # A user's own question is asked of what was said before it.
        now = max(turn.at() for turn in conversation.turns)
        as_of = proposal.asked_at - timedelta(microseconds=1) if proposal.asked_at else now
        found = {mode: self._found(proposal, mode, as_of) for mode in _POOLED}
        draw = random.Random(proposal.query_id)  # noqa: S311 - an order, not secrecy
        ids = list(dict.fromkeys([*(turn_id for ranking in found.values() for turn_id in ranking), *proposal.evidence]))
        draw.shuffle(ids)
        words, meaning = set(found["bm25"]), set(found["semantic"])
        either = words | meaning
        return Card(
            proposal=proposal,
            candidates=tuple(turns[turn_id] for turn_id in ids),
            marked=proposal.evidence,
            disagreement=1 - len(words & meaning) / len(either) if either else 0.0,
            number=0,
            total=0,
        )

    def _found(self, proposal: Proposal, mode: Mode, as_of: datetime) -> list[str]:
        hits = self._memory.search(
            proposal.text, mode=mode, lane="turns", k=_EACH, user_id=proposal.user_id, as_of=as_of
        )
        return [hit.id for hit in hits]


@contextmanager
def open_labelling(
    logs: Iterable[Path],
    folder: Path,
    settings: Settings,
    *,
    log_format: str = "auto",
    unit: Unit | None = None,
    by_file: bool = False,
    most: int = 60,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> Iterator[Labelling]:
    """Write logs as a native set and go on labelling it; what was decided in an earlier session stays decided.

    Secrets are masked and host texts stripped as capture does it, before anything is written.

    Args:
        logs: files, or folders of files.
        folder: of the set; made where there is none.
        settings: whose memory finds evidence, and whose turns they are where the logs name nobody.
        log_format, unit: as `read_log` takes them.
        by_file: each file is a conversation of its own, as where each is another person's.
        most: questions in all.
        embedder: instead of the one the settings name.
        progress: told the stage, what is done, and how much there is to do.

    Raises:
        DatasetError: the folder holds other logs' labels, or the logs hold no turn.
        LogFormatError: a log cannot be read.
    """
    conversations = read_own_logs(logs, settings, log_format=log_format, unit=unit, by_file=by_file)
    write_set(folder, conversations)
    dataset = datasets.load(datasets.Spec("native", folder, None, folder.name))
    with (
        tempfile.TemporaryDirectory(prefix="neuralstream-label-") as working,
        filled_memory(
            dataset,
            settings,
            Path(working),
            clock=VirtualClock(),
            embedder=embedder,
            extractor=NoExtractor(),
            progress=progress,
        ) as filled,
    ):
        yield Labelling(folder, dataset.conversations, filled.memory, settings, most)


def _best_of_each_kind(cards: Iterable[Card]) -> list[Card]:
    """Those with most disagreement first, kinds taking turns, since retrievers disagree on some kinds more."""
    seen: Counter[str] = Counter()
    ranked = []
    for card in sorted(cards, key=lambda one: -one.disagreement):
        ranked.append((seen[card.proposal.category], card))
        seen[card.proposal.category] += 1
    return [card for _, card in sorted(ranked, key=lambda pair: pair[0])]
