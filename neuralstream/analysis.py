"""From text to the tokens BM25 counts: case, accents, stop words, stems, segmentation. One analyser for all texts.

Tokens hold only letters and digits, so that an engine's plain word tokenizer leaves them whole.

- **English** is stemmed (Snowball) and loses its stop words. An identifier is found by its parts and as a whole:
  `ERR-1042` gives err, 1042 and err1042.
- **Other languages that put spaces between words** keep the same tokens, and add every four letters in a row of each
  word. They join inflected forms, umlauts written ae or a, and compounds: `Versicherung` is found in
  `Haftpflichtversicherungsnummer`. Four is the length that did best over many languages (McNamee and Mayfield,
  "Character N-Gram Tokenization for European Language Text Retrieval", Information Retrieval 7, 2004). Nobody says in
  which language a text is, and three words of a question do not tell; a line that may not be English has them, since
  they match nothing on English lines.
- **Scripts without spaces** are cut into words by ICU's dictionaries (Chinese, Japanese, Thai, Lao, Khmer, Burmese).
  Words tell much when they match; single Han characters and Hangul syllables, and pairs of all letters but Han, match
  where two texts are cut differently. Hiragana counts as katakana, and a long vowel at the end of a katakana word for
  nothing: `サーバー` is `サーバ`.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from typing import TYPE_CHECKING

import Stemmer

from neuralstream.english import FOREIGN, STOP_WORDS, reads_english

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["ANALYSER", "STOP_WORDS", "analyse", "analyse_whole_words", "is_stop_word", "words"]

ANALYSER = "english-icu-4grams-3"
"""Name of this analysis, recorded in the store. Change it whenever `analyse` gives other tokens for any text."""

_WORD = re.compile(r"[^\W_]+")
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:[._-][^\W_]+)+")
"""It begins only where a word begins: tried anew at every letter of a long word, it would take quadratic time."""

_BETWEEN_DIGITS = re.compile(r"(?<=\d)[._-](?=\d)")
_SEPARATOR = re.compile(r"[._-]")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_JOINT = re.compile(r"[._-](?<=[^\W_].)(?=[^\W_])")
_APOSTROPHE = re.compile(r"[’'](?<=\w.)(?=\w)")
"""They look behind after their own character, which the engine can skip to."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DROPPED = frozenset({"Mn", "Mc", "Me", "Cf"})
"""Unicode categories: combining marks, and format characters such as zero-width joiners."""
_ACCENTED = re.compile("[\u0080-\u058f\u1e00-\u1fff]+")
"""Latin, Greek, Cyrillic and Armenian letters."""
_UNDECOMPOSED = str.maketrans({"ł": "l", "đ": "d", "ð": "d", "ø": "o", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
"""Letters with strokes and ligatures, which Unicode does not take apart."""

_GRAM = 4
_GRAM_MARK = "4"
"""Begins the token of four letters, so that it is no short word's: `note` is not in `notebook`."""
_LONGEST_CUT = 40
"""Letters; longer ones are no words, but keys and dumps."""

_SOUTH_EAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_HANGUL = "\uac00-\ud7af"
_HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"([{_SOUTH_EAST_ASIAN}{_KANA}{_HANGUL}{_HAN}]+)")
_SINGLE = re.compile(f"[{_HAN}{_HANGUL}]")
_PAIRED = re.compile(f"[{_SOUTH_EAST_ASIAN}]+|[{_KANA}]+|[{_HANGUL}]+")
_LONG_VOWEL = re.compile("\u30fc(?<=[\u30a1-\u30fa\u30fc]{4})(?= |$)")
_UNKNOWN_WORD = re.compile(f"(?:^| )([{_HAN}])(?= ([{_HAN}])(?: |$))")
"""Two words of one Han character each: often one that the dictionary lacks, such as a cache or a port."""
_KATAKANA = {hiragana: hiragana + 0x60 for hiragana in range(0x3041, 0x3097)}
_MARKS = [
    letter
    for first, last in ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
    for letter in range(first, last + 1)
    if unicodedata.category(chr(letter)) in _DROPPED
]
_PLAIN_UNSPACED = _KATAKANA | dict.fromkeys(_MARKS)
"""Hiragana to katakana; vowel and tone signs to nothing."""
_VARIANT = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Says how the character before it is drawn, and would end a word."""

_local = threading.local()
"""A stemmer a thread: one object used by two threads at once gives wrong stems or crashes."""


def analyse(text: str) -> list[str]:
    """The tokens of a text, repeated as often as they occur: pieces and words, then compounds as wholes.

    The last token of a word stands for the whole of it.
    """
    folded = _folded(text)
    said = _WORD.findall(folded)
    whole = reads_english(said)
    tokens: list[str] = []
    if FOREIGN.isdisjoint(said):
        _add(tokens, folded, said, cut=not whole)
    else:
        # A user's line and the reply may differ; code, tables and short answers are in the language around them.
        for line in folded.split("\n"):
            said = _WORD.findall(line)
            english = reads_english(said)
            _add(tokens, line, said, cut=not (whole if english is None else english))
    return tokens + _compounds(folded)


def analyse_whole_words(text: str) -> list[str]:
    """The tokens of `analyse` that every text has in which the same words occur, whatever stands around them."""
    folded = _folded(text)
    tokens: list[str] = []
    _add(tokens, folded, _WORD.findall(folded), cut=False)
    return tokens + _compounds(folded)


def words(text: str) -> Iterator[str]:
    """Lower-case words without accents, stop words included; `don't` gives don, t."""
    return (match.group() for match in _WORD.finditer(_without_accents(_folded(text))))


def is_stop_word(word: str) -> bool:
    """Whether a lower-case word carries no content of its own."""
    return word in STOP_WORDS


def _folded(text: str) -> str:
    """Case and digits folded, apostrophes inside words turned into spaces; accents kept."""
    folded = _APOSTROPHE.sub(" ", unicodedata.normalize("NFKC", text).casefold())
    if folded.isascii():
        return folded
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group())), _VARIANT.sub("", folded))


def _add(tokens: list[str], line: str, said: list[str], *, cut: bool) -> None:
    """Add the tokens of a line, given the words that stand between spaces and marks in it."""
    if line.isascii():
        _add_spaced(tokens, said, cut=cut)
        return
    pieces = _UNSPACED.split(line)
    # Latin words among Chinese ones are names and English as a rule.
    cut = cut and len(pieces) == 1
    for place, piece in enumerate(pieces):
        if place % 2:
            _add_unspaced(tokens, piece)
        else:
            _add_spaced(tokens, _WORD.findall(_without_accents(piece)), cut=cut)


def _add_spaced(tokens: list[str], said: list[str], *, cut: bool) -> None:
    content = [word for word in said if word not in STOP_WORDS]
    stems = _stemmer().stemWords(content)
    if not cut:
        tokens += stems
        return
    for word, stem in zip(content, stems, strict=True):
        if _GRAM <= len(word) <= _LONGEST_CUT and word.isalpha() and word not in FOREIGN:
            tokens += [_GRAM_MARK + word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1)]
        tokens.append(stem)


def _add_unspaced(tokens: list[str], run: str) -> None:
    """Add pieces and words of a stretch, which depend on nothing around it."""
    plain = run.translate(_PLAIN_UNSPACED)
    found = _SINGLE.findall(plain)
    for stretch in _PAIRED.findall(plain):
        found += [stretch[at : at + 2] for at in range(len(stretch) - 1)]
    # NFKC takes the vowel AM of Thai and Lao apart, which dictionaries spell whole.
    spelt = run.replace("\u0e4d\u0e32", "\u0e33").replace("\u0ecd\u0eb2", "\u0eb3")
    cut = _LONG_VOWEL.sub("", " ".join(_word_breaker()(spelt, "en")).translate(_PLAIN_UNSPACED))
    found += [one + other for one, other in _UNKNOWN_WORD.findall(cut)]
    found += cut.split(" ")
    tokens += [token for token in found if token.isalnum()]


def _compounds(folded: str) -> list[str]:
    plain = _without_accents(folded if folded.isascii() else _UNSPACED.sub(" ", folded))
    if not _JOINT.search(plain):
        return []
    stems: list[str] = _stemmer().stemWords([_whole(compound) for compound in _COMPOUND.findall(plain)])
    return stems


def _without_accents(folded: str) -> str:
    return folded if folded.isascii() else _NOT_ASCII.sub(_without_marks, folded)


def _without_marks(match: re.Match[str]) -> str:
    """Letters without the marks on them.

    Letters of other alphabets stay composed, because their marks (voiced kana, Hangul syllables) are not accents; marks
    that stand alone there (vowel signs, harakat) go, because no word tokenizer keeps them. So do invisible characters.
    """
    parts = _ACCENTED.sub(_decomposed, match.group().translate(_UNDECOMPOSED))
    return "".join(part for part in parts if unicodedata.category(part) not in _DROPPED)


def _decomposed(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKD", match.group())


def _whole(compound: str) -> str:
    """A compound as one token; an x keeps the numbers of `1.2.3` from reading as 123."""
    return _SEPARATOR.sub("", _BETWEEN_DIGITS.sub("x", compound))


def _word_breaker() -> Callable[[str, str], Iterable[str]]:
    """ICU's, loaded when the first text needs it: 40 MB of tables."""
    from icu4py.breakers import WordBreaker

    return WordBreaker


def _stemmer() -> Stemmer.Stemmer:
    stemmer: Stemmer.Stemmer | None = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return stemmer
