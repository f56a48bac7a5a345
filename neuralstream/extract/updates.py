"""Whether a statement replaces an earlier one: the same subject, of which something else is said now.

A fact that is replaced by mistake is lost, one that is kept by mistake is only older than another. So a change has to
be told in so many words ("instead of 16.8", "from 30 to 90 seconds", "is now 768 MB"), or two statements have to be the
same but for what is said of the subject. A statement that says other things too is kept, because those still hold.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neuralstream.analysis import analyse, is_stop_word, words
from neuralstream.extract.particulars import particulars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.config import ExtractSettings
    from neuralstream.extract.particulars import Particulars

__all__ = ["replaces"]

_GONE = re.compile(
    r"""\bfrom\ (?P<from>[^,;()]{1,40}?)\ to\b
    | (?: \b(?: instead\ of | in\ place\ of | replac(?:es|ed|ing) | supersed(?:es|ed|ing) | no\ longer | formerly
          | previously | used\ to\ be | up\ from | down\ from
          | statt | anstelle\ von | nicht\ mehr | in\ plaats\ van | niet\ meer | au\ lieu\ de | en\ vez\ de | ya\ no
          | invece\ di | em\ vez\ de | istället\ för | inte\ längre | zamiast )
        | \((?:was|not) )\ (?P<gone>[^,;()]{1,40})""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a statement says is over: "from 30 to", "instead of 16.8", "no longer Tuesdays", "(was 800 MB)"."""

_ASIDE = re.compile(r"\b(?:on|in|at|for|by|from|with|because|since|and|as)\b", re.IGNORECASE)
"""What follows is no longer the thing that is over: "replaced nginx on kestrel" leaves kestrel where it is."""

_CHANGE = re.compile(
    r"\b(?:now|since|from now on|as of|changed?|moved?|raised|lowered|increased|reduced|switched|updated|finally|jetzt"
    r"|ab sofort|nu|maintenant|désormais|ahora|ora|adesso|agora|teraz)\b",
    re.IGNORECASE,
)
"""Words of news. Alone they prove nothing: the same thing has to have another amount too."""

_ONCE_MORE = re.compile(
    r"\b(?:second|third|fourth|another|zweite[rsn]?|dritte[rsn]?|deuxième|segunda|seconda)\b", re.IGNORECASE
)
"""What happened once more does not undo what happened before."""

_IS = re.compile(
    r"\b(?:is|are|uses?|using|listens?|runs?|costs?|has|have|takes?|lasts?|set|lives?|works?|wants?|prefers?|likes?|needs?"
    r"|begins?|starts?|ends?|opens?|closes?|ist|sind|hat|kostet|est|sont|coûte|es|son|cuesta|è|sono|costa|é|são|jest"
    r"|kosztuje|är|kostar|kost|heeft)\b|=",
    re.IGNORECASE,
)
"""What a state is told with: an amount after it is what is said, one before it belongs to the subject."""

_CLAUSE = re.compile(r"[;\n]|(?<=[.!?]) ")

_NEGATION_WORDS = """
    not no never none cannot t nicht kein keine keinen nie niemals pas jamais nunca non mai nao niet geen nooit nigdy
    inte aldrig
"""
_STATE_WORDS = """
    on off enabled disabled enable disable true false open opened closed allow allowed deny denied accepted rejected
"""
_NEGATIONS, _STATES = frozenset(_NEGATION_WORDS.split()), frozenset(_STATE_WORDS.split())
"""A statement and the same one with such a word, or with the opposite one, cannot both hold."""

_MOST_ELSE = 1
"""Amounts of the older statement that the newer one is silent on; more are facts that would be lost."""

_NEAR = 0.75
"""Cosine from which what the newer statement is silent on may be a name: "approved by Marta Lindqvist"."""

_SAME_TOPIC = 0.75
"""Share of their words that two statements have in common which differ in what is said only."""


def replaces(new: str, old: str, cosine: float, settings: ExtractSettings) -> bool:
    """Whether `new`, which holds from later on, says that `old` does not hold any more.

    Args:
        new, old: statements of one user.
        cosine: of their vectors, -1 to 1.
        settings: `update_similarity` and `update_overlap`, below which they have different subjects.
    """
    if cosine < settings.update_similarity:
        return False
    now, then = particulars(new), particulars(old)
    shared = now.topic & then.topic
    if len(shared) < settings.update_overlap * len(then.topic) or not shared:
        return False
    if now.identifiers and then.identifiers and now.identifiers.isdisjoint(then.identifiers):
        return False
    changed = _changed(now, then)
    if _would_lose(new, old, changed, cosine):
        return False
    return (
        _says_gone(new, old)
        or (bool(changed) and _CHANGE.search(new) is not None and _ONCE_MORE.search(new) is None)
        or _differs_in_what_is_said(new, old, now, then)
    )


def _changed(now: Particulars, then: Particulars) -> list[tuple[str, str]]:
    """What both give an amount of, and not the same."""
    return [
        slot
        for slot, values in then.slots.items()
        if any(slot) and slot in now.slots and values.isdisjoint(now.slots[slot])
    ]


def _would_lose(new: str, old: str, changed: Sequence[tuple[str, str]], cosine: float) -> bool:
    """Whether the old statement says something else too, of which the new one says nothing."""
    now, then = particulars(new), particulars(old)
    said = new.casefold()
    amounts = then.amounts - now.amounts - {value for slot in changed for value in then.slots[slot]}
    names = [name for name in then.called if not any(word in said for word in name.split())]
    if len(amounts) + len(names) > _MOST_ELSE or (names and cosine < _NEAR):
        return True
    for clause in _CLAUSE.split(old):
        told = particulars(clause)
        if (told.called or told.numbers) and told.topic and told.topic.isdisjoint(now.topic):
            return True
    return False


def _says_gone(new: str, old: str) -> bool:
    """Whether the new statement names something of the old one as over."""
    known = set(_marks(old))
    gone = (_ASIDE.split(found["from"] or found["gone"])[0] for found in _GONE.finditer(new))
    return any(not known.isdisjoint(_marks(value)) for value in gone)


def _marks(text: str) -> list[str]:
    """Words of content and numbers, as they can be compared."""
    return [token for word in words(text) if not is_stop_word(word) for token in analyse(word)]


def _differs_in_what_is_said(new: str, old: str, now: Particulars, then: Particulars) -> bool:
    either = now.topic | then.topic
    if now.names != then.names or now.identifiers != then.identifiers:
        return False
    if len(now.topic & then.topic) < _SAME_TOPIC * len(either):
        return False
    if now.amounts == then.amounts:
        return now.numbers == then.numbers and _turned(now, then)
    return (
        now.turning == then.turning
        and _IS.search(new) is not None
        and _subject(new) == _subject(old)
        and bool(_changed(now, then))
    )


def _turned(now: Particulars, then: Particulars) -> bool:
    differing = now.turning ^ then.turning
    negated = bool(now.turning & _NEGATIONS) != bool(then.turning & _NEGATIONS)
    opposite = not differing.isdisjoint(now.turning) and not differing.isdisjoint(then.turning)
    return (differing <= _NEGATIONS and negated) or (differing <= _STATES and opposite)


def _subject(text: str) -> list[str]:
    """The words before what is said."""
    found = _IS.search(text)
    return list(words(text[: found.start()])) if found else []
