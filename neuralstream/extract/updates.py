"""Whether a statement replaces an earlier one: the same subject, of which something else is said now.

A fact that is replaced by mistake is lost, one that is kept by mistake is only older than another. So a change has to
be told in so many words ("instead of 16.8", "raised from 30 to 90 seconds", "is now 768 MB"), or two statements have to
be the same but for what is said of the subject. A statement that says other things too is kept, because those still
hold; and so is one about something else: where each has a word for its subject that the other lacks ("the car
insurance", "the bike insurance"), or each tells another case ("for orders", "for sessions").
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

_ASIDE = re.compile(r"\b(?:on|in|at|for|by|from|with|because|since|and|as|but|sondern)\b", re.IGNORECASE)
"""What follows is no longer the thing that is over: "replaced nginx on kestrel" leaves kestrel where it is."""

_CHANGE = re.compile(
    r"\b(?:now|since|from now on|as of|changed?|moved?|raised|lowered|increased|reduced|switched|updated|finally|jetzt"
    r"|goes|went|grew|rose|fell|dropped|cut|extended|shortened|postponed|migrated|renamed"
    r"|ab sofort|nu|maintenant|désormais|ahora|ora|adesso|agora|teraz)\b",
    re.IGNORECASE,
)
"""Words of news. Alone they prove nothing: the same thing has to have another amount, hour or weekday too."""

_ONCE_MORE = re.compile(
    r"\b(?:second|third|fourth|another|also|too|as well|additionally|zweite[rsn]?|dritte[rsn]?|auch|deuxième|aussi"
    r"|segunda|también|também|seconda|anche|ook|också|też)\b",
    re.IGNORECASE,
)
"""What happened once more, or is so too, does not undo what was before."""

_IS = re.compile(
    r"\b(?:is|are|uses?|using|listens?|runs?|costs?|has|have|takes?|lasts?|set|lives?|works?|wants?|prefers?|likes?|needs?"
    r"|begins?|starts?|ends?|opens?|closes?|ist|sind|hat|kostet|est|sont|coûte|es|son|cuesta|è|sono|costa|é|são|jest"
    r"|kosztuje|är|kostar|kost|heeft)\b|=",
    re.IGNORECASE,
)
"""What a state is told with: an amount after it is what is said, one before it belongs to the subject."""

_HELPING = re.compile(r"\b(?:was|were|will|wurde|wird)\b", re.IGNORECASE)

_OWNED = re.compile(r"\w['\u2019]s (.+)")
_OWNER = re.compile(r"\A(?:the )?(\w+)['\u2019]s\b", re.IGNORECASE)
"""Of "Lena's sister" the sister is meant, not Lena; and Paul's is another."""

_CASE = re.compile(
    r"""\b(?P<where>for|in|on|during|für|im|am|auf)[ ]
    (?P<case>(?:(?:the|a|an|my|our|his|her|der|die|das|dem|den)\ )?\w+(?:\ \w+)?)""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a statement is limited to: "for orders", "in the morning", "on naive dates"."""

_CODE_NAME = re.compile(r"\b(?:\w*[^\W\d_]_\w+|[^\W\d_]*[a-z][A-Z]\w*)\b")
"""`load_config`, `LedgerReplicaLag`: names that were made up to be unique."""

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
    if _about_something_else(new, old):
        return False
    changed = _changed(now, then)
    if _would_lose(new, old, changed, cosine):
        return False
    return (
        _says_gone(new, old)
        or (_is_news(new) and (bool(changed) or _at_another_time(now, then)))
        or _differs_in_what_is_said(new, old, now, then)
    )


def _is_news(new: str) -> bool:
    return _CHANGE.search(new) is not None and _ONCE_MORE.search(new) is None


def _at_another_time(now: Particulars, then: Particulars) -> bool:
    """Whether all that was said is said again, but for the hour or the weekday."""
    moved = bool(now.hours and then.hours and now.hours.isdisjoint(then.hours))
    return moved and then.topic <= now.topic and then.amounts <= now.amounts


def _about_something_else(new: str, old: str) -> bool:
    """Whether the words for the subject, or the cases that are told, set two statements apart."""
    mine, theirs = _code_names(new), _code_names(old)
    elsewhere = mine.isdisjoint(theirs) if mine and theirs else _other_subject(new, old)
    return elsewhere or _other_case(new, old)


def _code_names(text: str) -> set[str]:
    return {name.casefold() for name in _CODE_NAME.findall(text)}


def _other_subject(new: str, old: str) -> bool:
    """Whether each subject has a word that the other statement lacks, or is something that belongs to the other's.

    Of the new statement one clause about the old subject is enough.
    """
    owners = [found[1].casefold() for found in map(_OWNER.match, (new, old)) if found]
    if len(set(owners)) > 1:
        return True
    known, said = particulars(old).topic, particulars(new).topic
    before = _before_verb(old)
    lacking = particulars(before).topic - said
    subjects = [subject for clause in _CLAUSE.split(new) if (subject := _before_verb(clause))]
    apart = bool(lacking) and bool(subjects) and all(particulars(subject).topic - known for subject in subjects)
    return apart or _owned_and_lacking(before, said) or any(_owned_and_lacking(one, known) for one in subjects)


def _before_verb(clause: str) -> str:
    """The words of a clause before what is said of them; empty where no known verb tells."""
    starts = [found.start() for verb in (_IS, _CHANGE, _HELPING) if (found := verb.search(clause))]
    return clause[: min(starts, default=0)]


def _owned_and_lacking(subject: str, known: frozenset[str]) -> bool:
    found = _OWNED.search(subject)
    owned = particulars(found[1]).topic if found else frozenset[str]()
    return bool(owned) and owned.isdisjoint(known)


def _other_case(new: str, old: str) -> bool:
    """Whether both are limited by the same word to what the other does not mention at all."""
    known, said = particulars(old).topic, particulars(new).topic
    mine, theirs = _cases(new), _cases(old)
    return any(
        mine[where].isdisjoint(known) and theirs[where].isdisjoint(said) for where in mine.keys() & theirs.keys()
    )


def _cases(text: str) -> dict[str, frozenset[str]]:
    """The words of content that follow a word such as "for", by that word; dates left out."""
    found: dict[str, frozenset[str]] = {}
    for case in _CASE.finditer(text):
        if topic := particulars(case["case"]).topic:
            found[case["where"].casefold()] = found.get(case["where"].casefold(), frozenset()) | topic
    return found


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
    marked = then.identifiers - now.identifiers
    if len(amounts) + len(names) + len(marked) > _MOST_ELSE or (names and cosine < _NEAR):
        return True
    for clause in _CLAUSE.split(old):
        told = particulars(clause)
        if (told.called or told.numbers) and told.topic and told.topic.isdisjoint(now.topic):
            return True
    return False


def _says_gone(new: str, old: str) -> bool:
    """Whether the new statement names something of the old one as over; "from … to" may also be a way or a range."""
    known = set(_marks(old))
    gone = (
        _ASIDE.split(found["from"] or found["gone"])[0]
        for clause in _CLAUSE.split(new)
        for found in _GONE.finditer(clause)
        if found["gone"] or _CHANGE.search(clause)
    )
    return any(
        marks and (known.issuperset(marks) or any(mark.isdecimal() and mark in known for mark in marks))
        for marks in map(_marks, gone)
    )


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
