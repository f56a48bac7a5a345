"""Gems without a model: the sentences that say something, with who said them, when, and of what kind, told by rules.

At most one gem per turn, made of that turn's most telling sentences; a short answer brings the question before it
along. Greetings, praise and bare questions give none. This is the default, and the baseline that every prompt has to
beat.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.analysis import is_stop_word, words
from neuralstream.dates import resolve_dates
from neuralstream.entities import find_entities
from neuralstream.extract.base import Extraction
from neuralstream.extract.kinds import SMALL_TALK, is_about_self, is_addressed, is_dated, is_question, tags_of
from neuralstream.extract.sentences import CodeBlock, split_text
from neuralstream.text import encodable, shortened
from neuralstream.tokens import CHARS_PER_TOKEN, count_tokens
from neuralstream.types import Gem, GemTag, Part, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neuralstream.config import ExtractSettings
    from neuralstream.extract.base import Batch
    from neuralstream.types import Turn

__all__ = ["ExtractiveExtractor"]

_TELLING = 2.0
"""Score from which a sentence is kept: three words of content, or fewer with a number, a name, a date or an "I"."""

_TOLD_TOKENS = 45
_ANSWER_TOKENS = 45
_REPLY_TOKENS = 1
_QUESTION_TOKENS = 25
"""Most tokens of a gem that come from what a person tells; from the answer to a question; from the reply to what was
told, of which one sentence is enough; from the question. The best sentence is always taken."""

_LONGEST_SENTENCE = 400
_LONGEST_CODE = 1200
_LONGEST_SHOWN_CODE = 100
_SHORT_ANSWER = 4
"""Words of content up to which an answer cannot be understood without its question."""

_REPLY_WEIGHT = 0.6
"""How much an assistant's sentence counts against a person's: what people say about themselves is told only once."""

_UNSPACED = "\u2e80"
"""First character of the scripts of East Asia."""

_ASSISTANT = "Assistant"

_NUMBER = re.compile(r"\d")
_CAPTION = re.compile(r"\[[^\]]*\]")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2060-\u2069\ufeff]")
"""Controls, direction overrides and empty spaces. Joiners stay: Persian and Hindi spell with them."""


class _Statement(NamedTuple):
    text: str
    score: float
    content: frozenset[str]
    """Its words without stop words, small talk and speakers' names."""
    facts: frozenset[str]
    """Its numbers and entities."""
    tags: tuple[GemTag, ...]
    question: bool


class _Line(NamedTuple):
    label: str
    statements: tuple[_Statement, ...]

    def __str__(self) -> str:
        *before, last = (statement.text for statement in self.statements)
        said = "".join(f"{text} " if text[-1] in ".!?…:;,。！？" else f"{text}; " for text in before)
        return f"{self.label}: {said}{last}"


@dataclass(frozen=True, slots=True)
class _Draft:
    turn: Turn
    told: tuple[_Line, ...]
    """What people or the user tell."""
    asked: _Line | None
    """What the user asked, where they told nothing."""
    reply: _Line | None
    """What the assistant says to it."""
    code: CodeBlock | None
    question: _Line | None
    """The question of the turn before, where this one answers it too shortly to be understood alone."""

    @property
    def lines(self) -> tuple[_Line, ...]:
        return (*self.told, *(line for line in (self.asked, self.reply) if line))

    @property
    def statements(self) -> list[_Statement]:
        return [statement for line in self.lines for statement in line.statements]

    @property
    def score(self) -> float:
        return _weight(self.told) + _REPLY_WEIGHT * _weight((self.reply,) if self.reply else ())

    @property
    def tags(self) -> tuple[GemTag, ...]:
        """A reply's kind counts only where nothing was told: what an assistant proposes is no decision."""
        lines = self.told or self.lines
        stated = [statement for line in lines for statement in line.statements if not statement.question]
        return tuple(dict.fromkeys(tag for statement in stated for tag in statement.tags)) or ("fact",)


class ExtractiveExtractor:
    """Distils a batch by choosing sentences; implements `extract.base.Extractor`.

    Args:
        settings: `max_gems_per_turn` bounds a session's gems: one for its first turn, this many for each later one.
    """

    name = "extractive"

    def __init__(self, settings: ExtractSettings) -> None:
        self._rate = settings.max_gems_per_turn

    def extract(self, batch: Batch) -> Extraction:
        """The gems of a batch, oldest first; the same batch always gives the same ones."""
        speakers = {word for turn in (*batch.history, *batch.turns) for name in turn.speakers for word in words(name)}
        earlier = (batch.history[-1] if batch.history else None, *batch.turns)
        pairs = zip(earlier, batch.turns, strict=False)
        drafts = [draft for before, turn in pairs if (draft := _draft(turn, before, speakers))]
        best = sorted(range(len(drafts)), key=lambda place: (-drafts[place].score, place))[: self._allowance(batch)]
        themes = Counter(word for draft in drafts for statement in draft.statements for word in statement.content)
        return Extraction(tuple(self._gem(drafts[place], batch, themes) for place in sorted(best)))

    def _allowance(self, batch: Batch) -> int:
        """Most gems of this batch, so that a session's batches together keep to the rate, however they are cut."""
        first = batch.turns[0].index
        start = len(batch.history) if first is None else first
        return self._most(start + len(batch.turns)) - self._most(start)

    def _most(self, turns: int) -> int:
        # The tiny addend keeps 0.8 * 5 from falling under 4 in binary.
        return 1 + math.floor(self._rate * (turns - 1) + 1e-9) if turns else 0

    def _gem(self, draft: _Draft, batch: Batch, themes: Counter[str]) -> Gem:
        place = batch.turns.index(draft.turn)
        asked = draft.question if place else None
        cited = batch.turns[place - 1 : place + 1] if asked else (draft.turn,)
        first, last = cited[0], cited[-1]
        said = " ".join(str(line) for line in ((asked, *draft.lines) if asked else draft.lines))
        content = said if draft.turn.time_estimated else resolve_dates(said, draft.turn.at().date())
        if draft.code and (shown := _shown_code(draft.code)):
            content = f"{content} `{shown}`"
        tags = draft.tags
        named = find_entities("\n".join(statement.text for statement in draft.statements))
        best = max(draft.statements, key=lambda statement: statement.score)
        source_turns = tuple(turn.turn_id for turn in cited)
        return Gem(
            gem_id=Gem.make_id(first.user_id, first.session_id, source_turns, content),
            content=content,
            summary=shortened(best.text, 80),
            source=Source(
                first.session_id, first.at().date().isoformat(), f"{_index(first, batch)}-{_index(last, batch)}"
            ),
            source_turns=source_turns,
            created_at=batch.turns[-1].at(),
            user_id=first.user_id,
            topics=_topics(draft, named, themes),
            tags=(*tags, "code") if draft.code else tags,
            importance=_importance(draft),
            confidence=0.9 if tags != ("fact",) else 0.7,
            entities=tuple(dict.fromkeys([*(name.casefold() for name in draft.turn.speakers), *named])),
            context=str(draft.question or ""),
            snippet=_clean(draft.code.text)[:_LONGEST_CODE] if draft.code else said,
            valid_from=first.at(),
            model=self.name,
        )


def _draft(turn: Turn, before: Turn | None, speakers: set[str]) -> _Draft | None:
    """What a turn says, or None where it says nothing worth keeping."""
    told: dict[str, list[_Statement]] = {}
    answered: list[_Statement] = []
    code: list[CodeBlock] = []
    for part in turn.parts:
        if part.role == "tool":
            continue
        prose = split_text(_clean(part.text))
        read = [_statement(sentence, part, speakers) for sentence in prose.sentences]
        (answered if part.role == "assistant" else told.setdefault(_label(part), [])).extend(read)
        code.extend(prose.code)
    lines = [line for label, said in told.items() if (line := _line(label, said, _TOLD_TOKENS))]
    if lines:
        known = {fact for line in lines for statement in line.statements for fact in statement.facts}
        news = [statement for statement in answered if statement.facts - known]
        reply = _line(_ASSISTANT, news, _REPLY_TOKENS)
    else:
        reply = _line(_ASSISTANT, answered, _ANSWER_TOKENS)
    if not lines and not reply:
        return None
    return _Draft(
        turn,
        told=tuple(lines),
        asked=None if lines else _asked(told),
        reply=reply,
        code=code[0] if code else None,
        question=_answered(before, lines, speakers) if before else None,
    )


def _statement(text: str, part: Part, speakers: set[str]) -> _Statement:
    content = frozenset(
        word for word in words(text) if not is_stop_word(word) and word not in SMALL_TALK and word not in speakers
    )
    entities = frozenset(entity for entity in find_entities(text) if entity not in speakers)
    tags = tags_of(text)
    about_self = is_about_self(text)
    score = math.log2(1 + _size(content)) + 0.4 * min(2, len(entities))
    score += 0.5 * (bool(_NUMBER.search(text)) + is_dated(text) + about_self) + 0.3 * bool(tags)
    score -= 1.5 * is_question(text)
    if part.role != "user" and is_addressed(text) and not about_self:
        # Praise and advice to the other; what a user tells the assistant to do is another matter.
        score -= 1
    numbers = frozenset(word for word in words(text) if _NUMBER.search(word))
    return _Statement(
        shortened(text, _LONGEST_SENTENCE),
        score if content else 0.0,
        content,
        entities | numbers,
        tags,
        is_question(text),
    )


def _size(content: Iterable[str]) -> int:
    """How many words; a script that writes no spaces has about one in two characters."""
    return sum(max(1, len(word) // 2) if word[0] >= _UNSPACED else 1 for word in content)


def _line(label: str, statements: Sequence[_Statement], tokens: int) -> _Line | None:
    """The best statements that fit, in the order they were said."""
    chosen: list[int] = []
    for place in sorted(range(len(statements)), key=lambda place: (-statements[place].score, place)):
        cost = count_tokens(statements[place].text)
        if statements[place].score >= _TELLING and (cost <= tokens or not chosen):
            chosen.append(place)
            tokens -= cost
    return _Line(label, tuple(statements[place] for place in sorted(chosen))) if chosen else None


def _asked(told: dict[str, list[_Statement]]) -> _Line | None:
    """The last thing somebody said, where it has content, so that the reply to it can be understood."""
    for label, said in reversed(told.items()):
        if said and said[-1].content:
            question = shortened(said[-1].text, _QUESTION_TOKENS * CHARS_PER_TOKEN)
            return _Line(label, (said[-1]._replace(text=question),))
    return None


def _answered(before: Turn, told: Sequence[_Line], speakers: set[str]) -> _Line | None:
    """The question that ended the turn before, where another person's short answer needs it."""
    if len(before.parts) != 1 or len(told) != 1 or told[0].label == _label(before.parts[0]):
        return None
    said = {word for statement in told[0].statements for word in words(_CAPTION.sub("", statement.text))}
    if len(said & {word for statement in told[0].statements for word in statement.content}) > _SHORT_ANSWER:
        return None
    sentences = split_text(_clean(before.text)).sentences
    question = _statement(sentences[-1], before.parts[0], speakers) if sentences else None
    return _Line(_label(before.parts[0]), (question,)) if question and question.question and question.content else None


def _weight(lines: Iterable[_Line]) -> float:
    """How much the best three statements say."""
    return sum(sorted((statement.score for line in lines for statement in line.statements), reverse=True)[:3])


def _importance(draft: _Draft) -> float:
    base = max({"decision": 0.7, "preference": 0.65, "todo": 0.6}.get(tag, 0.4) for tag in draft.tags)
    return round(base + min(0.25, 0.02 * draft.score), 2)


def _topics(draft: _Draft, entities: Sequence[str], themes: Counter[str]) -> tuple[str, ...]:
    """Up to three: names first, then the words that the batch returns to."""
    named = [entity for entity in entities if not _NUMBER.search(entity) and len(entity) > 2]
    content = {word for statement in draft.statements for word in statement.content if len(word) > 3}
    recurring = sorted(content, key=lambda word: (-themes[word], -len(word), word))
    return tuple(dict.fromkeys([*named[:2], *recurring]))[:3]


def _shown_code(code: CodeBlock) -> str:
    """A short block on one line; of a diff, what it adds. Empty where it is too long to show."""
    lines = [line.strip() for line in _clean(code.text).splitlines() if line.strip()]
    if added := [line[1:].strip() for line in lines if line.startswith("+")]:
        lines = added
    shown = "; ".join(lines).replace("`", "'")
    return shown if len(shown) <= _LONGEST_SHOWN_CODE else ""


def _index(turn: Turn, batch: Batch) -> int:
    return len(batch.history) + batch.turns.index(turn) if turn.index is None else turn.index


def _label(part: Part) -> str:
    return part.speaker or part.role.capitalize()


def _clean(text: str) -> str:
    """Without control and zero-width characters; a lone surrogate, which cannot be stored, becomes a question mark."""
    return _UNSEEN.sub("", encodable(text))
