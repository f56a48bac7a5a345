"""Questions that a log itself suggests, for a person to judge.

Two kinds. What a user asked in a later session and what an earlier one has words of: real questions, in real words, and
asked at a real moment. And what somebody stated (a decision, a preference, something to do, a fact with names, numbers
or code in it), turned into a question by a template, which a person should put into words of their own: a question in
the words of its answer only shows that words are found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from neuralstream.analysis import analyse
from neuralstream.extract.base import Batch
from neuralstream.extract.extractive import ExtractiveExtractor
from neuralstream.extract.kinds import is_question
from neuralstream.extract.sentences import split_text
from neuralstream.logs.base import stable_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from neuralstream.config import Settings
    from neuralstream.logs.base import Conversation
    from neuralstream.types import Gem, Turn

__all__ = ["RECALL", "Proposal", "propose"]

RECALL = "recall"
"""Category of the questions that users asked themselves."""

_TEMPLATES = {
    "decision": "What was decided about {}?",
    "preference": "What is preferred when it comes to {}?",
    "todo": "What is still to be done about {}?",
    "code": "Which command or code was used for {}?",
    "fact": "What do we know about {}?",
}
_LEAST_WORDS = 3
_RARE_SHARE = 0.05
"""A word that more of the turns hold says little about where it was said before."""

_AT_ONCE = 5
"""Turns the extractor is given together."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question to judge.

    Attributes:
        query_id: made of the user, the turn and the question, so that proposing again gives the same.
        user_id: whose conversation it is about.
        text: the question.
        category: what kind of question.
        made_from: the turn it was asked in, or made from.
        statement: the words it was made from; empty for a user's own question.
        evidence: the turns that are thought to answer it.
        asked_at: when it was asked; None is after the last turn.
    """

    query_id: str
    user_id: str
    text: str
    category: str
    made_from: str
    statement: str = ""
    evidence: tuple[str, ...] = ()
    asked_at: datetime | None = None


def propose(conversation: Conversation, settings: Settings) -> list[Proposal]:
    """What a conversation suggests, kinds taking turns, each spread over the whole of the conversation."""
    by_kind: dict[str, list[Proposal]] = defaultdict(list)
    texts = set()
    for proposal in chain(_asked(conversation), _stated(conversation, settings)):
        if proposal.text.casefold() not in texts:
            texts.add(proposal.text.casefold())
            by_kind[proposal.category].append(proposal)
    rounds = zip_longest(*(_spread(members) for _, members in sorted(by_kind.items())))
    return [proposal for members in rounds for proposal in members if proposal]


def _asked(conversation: Conversation) -> Iterator[Proposal]:
    """Users' questions of later sessions that share a rare word with an earlier one."""
    stems = [frozenset(analyse(turn.text)) for turn in conversation.turns]
    held_by = Counter(stem for held in stems for stem in held)
    rare = {stem for stem, count in held_by.items() if count <= max(2, _RARE_SHARE * len(stems))}
    said_in: dict[str, str] = {}  # the first session that has a word
    for turn, held in zip(conversation.turns, stems, strict=True):
        for part in turn.parts:
            if part.role in {"user", "person"}:
                for sentence in filter(is_question, split_text(part.text).sentences):
                    words = set(analyse(sentence))
                    known = [said_in[word] for word in words & rare if word in said_in]
                    if len(words) >= _LEAST_WORDS and any(session != turn.session_id for session in known):
                        query_id = _query_id(turn, sentence)
                        yield Proposal(query_id, turn.user_id, sentence, RECALL, turn.turn_id, asked_at=turn.created_at)
        for stem in held:
            said_in.setdefault(stem, turn.session_id)


def _stated(conversation: Conversation, settings: Settings) -> Iterator[Proposal]:
    """Questions about what the extractor takes for worth remembering."""
    extractor = ExtractiveExtractor(settings.extract)
    held_by = Counter(stem for turn in conversation.turns for stem in set(analyse(turn.text)))
    by_session: dict[str, list[Turn]] = defaultdict(list)
    for turn in conversation.turns:
        by_session[turn.session_id].append(turn)
    for turns in by_session.values():
        known = {turn.turn_id: turn for turn in turns}
        for first in range(0, len(turns), _AT_ONCE):
            batch = Batch(turns[first].turn_id, tuple(turns[first : first + _AT_ONCE]))
            for gem in extractor.extract(batch).gems:
                kind = next(tag for tag in _TEMPLATES if tag in gem.tags)
                if subject := _subject(gem, held_by):
                    text = _TEMPLATES[kind].format(subject)
                    turn = known[gem.source_turns[0]]
                    yield Proposal(
                        _query_id(turn, text), turn.user_id, text, kind, turn.turn_id, gem.content, gem.source_turns
                    )


def _query_id(turn: Turn, text: str) -> str:
    return f"q-{stable_id(turn.user_id, turn.turn_id, text)[:12]}"


def _subject(gem: Gem, held_by: Mapping[str, int]) -> str:
    """What a gem is about: its rarest names and topics, two where neither holds the other."""

    def rarity(term: str) -> int:
        return min(held_by.get(stem, 0) for stem in analyse(term))

    terms = [term for term in dict.fromkeys((*gem.entities, *gem.topics)) if not term.isdecimal() and analyse(term)]
    first, *others = sorted(terms, key=rarity) or [""]
    second = next((term for term in others if term not in first and first not in term), None)
    return f"{first} and {second}" if second else first


def _spread(proposals: Sequence[Proposal]) -> list[Proposal]:
    """In an order of which every beginning is spread evenly: the first, the middle, the quarters, and so on."""
    order = sorted(range(len(proposals)), key=lambda n: int(f"{n:032b}"[::-1], 2))
    return [proposals[n] for n in order]
