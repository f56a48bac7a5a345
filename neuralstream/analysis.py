"""From text to the tokens BM25 counts: case, accents, stop words, stems. One analyser for documents and queries.

Tokens hold only letters and digits, so that an engine's plain word tokenizer leaves them whole.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator

import Stemmer

__all__ = ["ANALYSER", "STOP_WORDS", "analyse", "is_stop_word", "words"]

ANALYSER = "english-snowball-1"
"""Name of this analysis, recorded in the store. Change it whenever `analyse` gives other tokens for any text."""

# The words that Snowball's English list, which Lucene and NLTK also ship, calls stop words (public domain).
STOP_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being below between both but by
    can could did do does doing don down during each few for from further had has have having he her here hers herself him
    himself his how i if in into is it its itself just ll me more most my myself no nor not now of off on once only or other
    our ours ourselves out over own re s same she should so some such t than that the their theirs them themselves then there
    these they this those through to too under until up ve very was we were what when where which while who whom why will with
    would you your yours yourself yourselves""".split()
)

_WORD = re.compile(r"[^\W_]+")
_local = threading.local()
"""A stemmer a thread: one object used by two threads at once gives wrong stems or crashes."""
_APOSTROPHE = re.compile(r"(?<=\w)[’'](?=\w)")


def analyse(text: str) -> list[str]:
    """The tokens of a text, in order, repeated as often as they occur."""
    stem = _stemmer().stemWord
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def words(text: str) -> Iterator[str]:
    """Lower-case words without accents, stop words included; `don't` gives don, t."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(char for char in folded if not unicodedata.combining(char))
    return (match.group() for match in _WORD.finditer(_APOSTROPHE.sub(" ", plain)))


def is_stop_word(word: str) -> bool:
    """Whether a lower-case word carries no content of its own."""
    return word in STOP_WORDS


def _stemmer() -> Stemmer.Stemmer:
    stemmer: Stemmer.Stemmer | None = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return stemmer
