"""From text to the tokens BM25 counts: case, accents, stop words, stems. One analyser for documents and queries.

Tokens hold only letters and digits, so that an engine's plain word tokenizer leaves them whole. An identifier is found
by its parts and as a whole: `ERR-1042` gives err, 1042 and err1042. Scripts that do not put spaces between words are
cut into single characters and pairs of neighbouring ones, close to what Lucene's CJK analyser does.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from typing import TYPE_CHECKING

import Stemmer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ANALYSER", "STOP_WORDS", "analyse", "is_stop_word", "words"]

ANALYSER = "english-snowball-2"
"""Name of this analysis, recorded in the store. Change it whenever `analyse` gives other tokens for any text."""

# The words that Snowball's English list, which Lucene and NLTK also ship, calls stop words (public domain).
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can could did do does doing don down during each few for from further had has have having he her
    here hers herself him himself his how i if in into is it its itself just ll me more most my myself no nor
    not now of off on once only or other our ours ourselves out over own re s same she should so some such t
    than that the their theirs them themselves then there these they this those through to too under until up ve
    very was we were what when where which while who whom why will with would you your yours yourself yourselves
    """.split()  # noqa: SIM905 - a list of quoted words would be unreadable
)

_WORD = re.compile(r"[^\W_]+")
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:[._-][^\W_]+)+")
"""It begins only where a word begins: tried anew at every letter of a long word, it would take quadratic time."""

_BETWEEN_DIGITS = re.compile(r"(?<=\d)[._-](?=\d)")
_SEPARATOR = re.compile(r"[._-]")
_APOSTROPHE = re.compile(r"(?<=\w)[’'](?=\w)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # kana, Han, Hangul
    "]+"
)
_DROPPED = frozenset({"Mn", "Mc", "Me", "Cf"})
"""Unicode categories: combining marks, and format characters such as zero-width joiners."""
_LATIN_GREEK_CYRILLIC_END = "\u0590"

_local = threading.local()
"""A stemmer a thread: one object used by two threads at once gives wrong stems or crashes."""


def analyse(text: str) -> list[str]:
    """The tokens of a text, repeated as often as they occur: words in order, then compounds as wholes."""
    plain = _plain(text)
    stem = _stemmer().stemWord
    tokens: list[str] = []
    for word in _WORD.findall(plain):
        if word in STOP_WORDS:
            continue
        if word.isascii() or not _UNSPACED.search(word):
            tokens.append(stem(word))
        else:
            tokens.extend(_segments(word))
    tokens.extend(stem(_whole(compound)) for compound in _COMPOUND.findall(plain))
    return tokens


def words(text: str) -> Iterator[str]:
    """Lower-case words without accents, stop words included; `don't` gives don, t."""
    return (match.group() for match in _WORD.finditer(_plain(text)))


def is_stop_word(word: str) -> bool:
    """Whether a lower-case word carries no content of its own."""
    return word in STOP_WORDS


def _plain(text: str) -> str:
    """Case and accents folded, apostrophes inside words turned into spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _APOSTROPHE.sub(" ", _NOT_ASCII.sub(_without_marks, folded))


def _without_marks(match: re.Match[str]) -> str:
    """Letters without the marks on them.

    Letters past Cyrillic stay composed, because their marks (voiced kana, Hangul syllables) are not accents; marks that
    stand alone there (vowel signs, harakat) go, because no word tokenizer keeps them. So do invisible characters.
    """
    kept: list[str] = []
    for char in match.group():
        parts = unicodedata.normalize("NFKD", char) if char < _LATIN_GREEK_CYRILLIC_END else char
        kept.extend(part for part in parts if unicodedata.category(part) not in _DROPPED)
    return "".join(kept)


def _whole(compound: str) -> str:
    """A compound as one token; an x keeps the numbers of `1.2.3` from reading as 123."""
    return _SEPARATOR.sub("", _BETWEEN_DIGITS.sub("x", compound))


def _segments(word: str) -> Iterator[str]:
    """Characters and pairs of an unspaced stretch; what stands between such stretches, stemmed."""
    end = 0
    for match in _UNSPACED.finditer(word):
        if match.start() > end:
            yield _stemmer().stemWord(word[end : match.start()])
        run, end = match.group(), match.end()
        yield from run
        yield from (run[at : at + 2] for at in range(len(run) - 1))
    if end < len(word):
        yield _stemmer().stemWord(word[end:])


def _stemmer() -> Stemmer.Stemmer:
    stemmer: Stemmer.Stemmer | None = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return stemmer
