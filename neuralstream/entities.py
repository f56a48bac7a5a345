"""Entities and topics without a model: names, identifiers, code symbols, titles, and noun phrases that a text mentions.

An entity is normalised: case folded, outer punctuation and a possessive 's gone, one space between words. A name of
several words is given whole and then by its parts, so that "Tilda" meets "Tilda Marquardt"; a port is given as
"port 6381" and as "6381". A name written in lower case looks like any other word: `link_entities` finds it where it is
known already. A phrase is stemmed, since it is only compared with other phrases.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.analysis import analyse, is_stop_word

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

__all__ = ["find_entities", "find_phrases", "link_entities"]

_LONGEST_NAME = 6
"""Words of a name. A longer run of capitals is a headline, or someone shouting."""

_LONGEST_LINK = 4
"""Words of a known entity that `link_entities` looks for."""

# Capitalised for grammar or calendar, not because they name somebody: they never make an entity by themselves, and at
# the start of a sentence they do not belong to the name that follows ("Did Owen", "Ask Tilda").
_ORDINARY_WORDS = """
    i me my we us our you your he him his she her it its they them their who whom whose which what when where why
    how this that these those there here the a an and or but nor so if then else than as at by for from in into of
    off on onto out over to up with without about after before since until while because though although not no yes
    yeah yep yup nope ok okay all any both each every few many more most much some such other another same own only
    just also too very again still now today tomorrow yesterday tonight soon later maybe perhaps once one two three
    first second third next last is are was were be been being am do does did done have has had can could will would
    shall should may might must let add ask build call change check close create delete find fix get give go keep
    look make move note open put read remember remind run say see send set show start stop take tell think try use
    want write need know love like please hi hey hello dear thanks thank thx cheers bye goodbye welcome wow oh ah aw
    haha lol hmm um well sure great good nice cool awesome amazing sorry congrats congratulations morning evening
    afternoon night happy merry absolutely definitely exactly totally really right agreed got sounds glad omg fyi
    asap btw imo aka etc vs pm id tbd todo fixme warning monday tuesday wednesday thursday friday saturday sunday
    mon tue tues wed thu thur thurs fri sat sun january february march april june july august september october
    november december jan feb mar apr jun jul aug sep sept oct nov dec
    ich du er sie es wir ihr der die das ein eine und oder aber wenn nicht ja nein bitte danke hallo montag dienstag
    mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober dezember je tu il elle
    nous vous le les un une et ou mais oui non merci bonjour salut yo él ella nosotros el los las y pero sí gracias
    hola io lui lei noi ciao grazie eu ele ela nós não sim obrigado obrigada olá ik jij hij wij het een en maar nee
    dank hoi ty ona nie tak dzięki cześć jag han hon vi och men nej tack hej
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())

# Words that carry nothing in a phrase although they are no stop words of the search.
_LIGHT_WORDS = """
    would could should might must may shall also get got go going went gone really very much lot lots thing things way
    time day days today yesterday tomorrow week weeks month months year years one ones great good nice cool awesome
    amazing super pretty sure definitely always never ever still even back well last next make made makes making take
    took taken know knew think thought feel felt want wanted need needed love loved like liked see saw seen look looks
    looking let thanks thank please wow hey hi hello yes yeah no ok okay bit kind sort best better first right big
    little long old new many several another every each two three four five six seven eight nine ten
"""
_LIGHT = frozenset(_LIGHT_WORDS.split())
_LONGEST_PHRASE = 3
_PHRASE_TOKEN = re.compile(r"[^\W\d_][\w’'-]*|[^\s\w]|\n|\d+")

_CONNECTORS = frozenset({"of", "the", "de", "la", "le", "von", "van", "der", "den", "di", "da", "du", "del", "dos"})
_OPENING_CONNECTORS = _CONNECTORS - {"the", "der", "den", "la", "le"}
"""Lower-case words inside a name ("Bank of the West"); an article may only follow another of them."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_WORD = re.compile(r"[^\W_]+(?:['’&-][^\W_]+)*")
_SENTENCE_GAP = re.compile(r"[^\s,'’()&/-]|\n")
_TITLE_ABBREVIATIONS = frozenset({"mr", "mrs", "ms", "dr", "st", "prof"})
_CONTRACTION = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$", re.IGNORECASE)

_BACKTICKED = re.compile(r"(?<!`)`([^`\n]{2,60})`(?!`)")
_QUOTED = re.compile(
    r'"([^"\n]{2,80})"|“([^”\n]{2,80})”|„([^“”\n]{2,80})[“”]|«([^»\n]{2,80})»|[「『《]([^」』》\n]{2,40})[」』》]'
)
_LABELLED_NUMBER = re.compile(
    r"\b(port|error|code|status|http|issue|ticket|pr)s?[ \t]?(?:(?:is|number|no\.?|nr\.?|to|[=:#])[ \t]?)?(\d{1,6})\b",
    re.IGNORECASE,
)

# A chunk that could be an identifier: ASCII, so that it also stands out inside text that writes no spaces.
_CHUNK = re.compile(r"[A-Za-z0-9_@#~/\\.:+%?=&$-]{2,200}")
_TECHNICAL = re.compile(r"[\d_@#/\\]|[^.]\.[^.]|[a-z][A-Z]|[A-Z]{2}[a-z]|^--|\w::\w")
_OUTER = " \t\r\n.,;:!?'\"’‘“”„«»()[]{}<>`*…|=-"


class _Found(NamedTuple):
    position: int
    entity: str


def find_entities(text: str) -> tuple[str, ...]:
    """The entities a text mentions, each once, in order of appearance.

    Args:
        text: prose, code or both, in any language; time grows linearly with its length.

    Returns:
        Normalised names, file names, paths, hosts, addresses, ports, versions, ticket ids, error codes, code symbols,
        quoted titles and acronyms. No months, weekdays, pronouns, greetings, or words capitalised only for opening a
        sentence.
    """
    found = [*_quotations(text), *_labelled_numbers(text), *_identifiers(text), *_names(text)]
    found.sort(key=lambda item: item.position)
    return tuple(dict.fromkeys(entity for _, entity in found if len(entity) > 1))


def link_entities(text: str, known: Container[str]) -> tuple[str, ...]:
    """The known entities that a text mentions in any casing, each once, in order, a longer one before its parts.

    Args:
        text: usually a query, such as "which port does redis use".
        known: normalised entities, as `find_entities` gives them.
    """
    words = [word for chunk in text.split() if (word := _normalised(chunk))]
    linked = [
        entity
        for start in range(len(words))
        for size in range(_LONGEST_LINK, 0, -1)
        if start + size <= len(words) and (entity := " ".join(words[start : start + size])) in known
    ]
    linked.extend(entity for entity in find_entities(text) if entity in known)
    return tuple(dict.fromkeys(linked))


def find_phrases(text: str) -> tuple[str, ...]:
    """The noun phrases of a text, each once, in order: "the leaking boiler in our cellar" gives "leak boiler".

    Runs of words between stop words, light words, adverbs, numbers and punctuation, as Rose et al., "Automatic keyword
    extraction from individual documents" (2010) cut them. Of a run of two or more, its last three and its last two
    words, because English puts the noun last.

    Returns:
        Stemmed words with a space between.
    """
    found: list[str] = []
    run: list[str] = []
    for token in (*_PHRASE_TOKEN.findall(text), "."):
        word = token.casefold()
        if word[0].isalpha() and not _breaks(word):
            run.append(word)
            continue
        if len(run) > 1:
            stems = [stem for word in run[-_LONGEST_PHRASE:] if (stem := _stem(word))]
            found += (" ".join(stems), " ".join(stems[-2:]))
        run = []
    return tuple(dict.fromkeys(phrase for phrase in found if " " in phrase))


def _breaks(word: str) -> bool:
    """Whether a folded word belongs to no phrase: a contraction and an adverb in -ly are never part of one."""
    return word in _LIGHT or is_stop_word(word) or word.endswith("ly") or "'" in word or "’" in word


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """The last token of a word, which stands for the whole of it."""
    return next(reversed(analyse(word)), "")


def _normalised(text: str) -> str:
    plain = " ".join(text.strip(_OUTER).split()).casefold()
    return re.sub(r"['’]s$", "", plain)


def _quotations(text: str) -> Iterator[_Found]:
    """Backticked code of up to four words, and quoted titles: short, and in title case where the script has case."""
    for match in _BACKTICKED.finditer(text):
        if len(match[1].split()) <= _LONGEST_LINK:
            yield _Found(match.start(), _normalised(match[1]))
    for match in _QUOTED.finditer(text):
        title = match[match.lastindex or 0]
        words = title.split()
        if len(words) <= 8 and all(not word[0].islower() for word in words if len(word) > 3 or word is words[0]):
            entity = _normalised(title)
            if entity not in _ORDINARY:
                yield _Found(match.start(), entity)


def _labelled_numbers(text: str) -> Iterator[_Found]:
    for match in _LABELLED_NUMBER.finditer(text):
        yield _Found(match.start(), f"{match[1].casefold()} {match[2]}")


def _identifiers(text: str) -> Iterator[_Found]:
    for match in _CHUNK.finditer(text):
        if not _TECHNICAL.search(match.group()):
            continue
        chunk = match.group().lstrip(".,:;?!=&+%$").rstrip(".,:;?!=&+%-$")
        for pattern, read in _IDENTIFIERS:
            if shape := pattern.fullmatch(chunk):
                for entity in read(shape):
                    yield _Found(match.start(), entity.casefold())
                break


def _whole(match: re.Match[str]) -> tuple[str, ...]:
    return (match.group(),)


def _nothing(_: re.Match[str]) -> tuple[str, ...]:
    return ()


def _host_and_port(match: re.Match[str]) -> tuple[str, ...]:
    port = match["port"]
    return (match["host"].removeprefix("www."), *((f"port {port}", port) if port else ()))


def _path(match: re.Match[str]) -> tuple[str, ...]:
    path = match.group().rstrip("/\\")
    name = re.split(r"[/\\]", path)[-1]
    return (path, name) if "." in name[1:] else (path,)


def _version(match: re.Match[str]) -> tuple[str, ...]:
    return (match["name"], match["version"]) if match["name"] else (match["version"],)


def _first_group(match: re.Match[str]) -> tuple[str, ...]:
    return (match[1],)


# The first shape that a whole chunk has decides; what has none is prose.
_IDENTIFIERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, ...]]], ...] = (
    (
        re.compile(r"[a-z][a-z0-9+.]*://(?:[^/@]*@)?(?P<host>[^/:?#]+)(?::(?P<port>\d+))?.*", re.IGNORECASE),
        _host_and_port,
    ),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), _whole),  # mail address
    (
        re.compile(r"\d{4}-\d\d?-\d\d?(?:T.*)?|\d\d?[./]\d\d?[./]\d{2,4}|\d\d?:\d\d(?::\d\d)?(?:[ap]m)?"),
        _nothing,
    ),  # date, time
    (re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3})(?::(?P<port>\d{2,5})(?:[:-]\d+)*)?(?:/\d+)?"), _host_and_port),
    (re.compile(r"(?P<host>[A-Za-z][\w.-]*):(?P<port>\d{2,5})"), _host_and_port),
    (re.compile(r"(?:(?P<name>[\w./-]+):)?(?:v(?=\d+\.)|(?=\d+\.\d+\.))(?P<version>\d[\w.-]*)"), _version),
    (re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@+~-]+(?:[/\\][\w.@+~-]+)*[/\\]?|~"), _path),
    (re.compile(r"(?=.*[\d._])(?!\d+/)[\w.@+-]+(?:/[\w.@+-]+)+/?|[\w-]+(?:/[\w-]+){2,}"), _path),  # relative path
    (re.compile(r"[A-Za-z][A-Za-z0-9]{1,9}-\d+"), _whole),  # ticket
    (re.compile(r"#\d+"), _whole),  # issue
    (re.compile(r"[#@]([A-Za-z][\w-]+)"), _first_group),  # hashtag, mention
    (re.compile(r"[A-Z]{1,4}\d{2,6}|0x[0-9A-Fa-f]+"), _whole),  # error code
    (
        re.compile(r"(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f]{7,40}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        _whole,
    ),
    (re.compile(r"(?!(?:19|20)\d\d$)\d{4,6}"), _whole),  # a bare number that names something: no year
    (re.compile(r"--?([a-z][\w-]+)(?:=.*)?"), _first_group),  # command-line flag
    (re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+"), _whole),  # name within a name space
    (re.compile(r"(?=.*[A-Za-z])_*[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+"), _whole),  # snake_case
    (re.compile(r"[a-z]+[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"), _whole),  # camelCase
    (re.compile(r"(?=.*[A-Za-z]{2})[\w-]+(?:\.[\w-]+)*\.(?![A-Z][a-z])[A-Za-z][A-Za-z0-9]{0,9}"), _whole),  # file, host
    (re.compile(r"(?=.*[a-z])[a-z][\w-]*\d[\w-]*"), _whole),  # names with digits: mxbai-7b, web01
)


class _Word(NamedTuple):
    text: str
    position: int
    opens_sentence: bool
    joined: bool
    """Only a space lies between it and the word before."""

    @property
    def folded(self) -> str:
        return self.text.casefold()

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()


def _names(text: str) -> Iterator[_Found]:
    """Runs of capitalised words; one word that opens a sentence counts if it is capitalised inside another one."""
    runs = list(_capital_runs(text))
    inside = {word.folded for run in runs for word in run if not word.opens_sentence}
    for run in runs:
        words = list(run)
        while words and (words[0].folded in _ORDINARY or words[0].folded in _CONNECTORS):
            words.pop(0)
        while words and (words[-1].folded in _ORDINARY or words[-1].folded in _CONNECTORS):
            words.pop()
        if not words or len(words) > _LONGEST_NAME:
            continue
        first = words[0]
        acronym = first.text.isupper() and 2 <= len(first.text) <= 6
        certain = not first.opens_sentence or acronym or first.folded in inside
        if len(words) > 1:
            yield _Found(first.position, " ".join(word.folded for word in words))
        for word in words if certain else words[1:]:
            if word.folded not in _ORDINARY and word.folded not in _CONNECTORS:
                yield _Found(word.position, word.folded)


def _capital_runs(text: str) -> Iterator[list[_Word]]:
    run: list[_Word] = []
    bridge: list[_Word] = []
    for word in _words(text):
        if not word.joined:
            if run:
                yield run
            run, bridge = [], []
        if word.capital:
            run += [*bridge, word]
            bridge = []
        elif run and len(bridge) < 2 and word.folded in (_CONNECTORS if bridge else _OPENING_CONNECTORS):
            bridge.append(word)
        elif run:
            yield run
            run, bridge = [], []
    if run:
        yield run


def _words(text: str) -> Iterator[_Word]:
    """The words of the prose, without code blocks and without lines that are all capitals."""
    prose = _FENCE.sub(lambda block: "\n" * len(block.group()), text)
    start = 0
    for line in prose.splitlines(keepends=True):
        if not line.isupper() or len(line.split()) <= 2:
            yield from _line_words(line, start)
        start += len(line)


def _line_words(line: str, start: int) -> Iterator[_Word]:
    end, before = 0, ""
    for match in _WORD.finditer(line):
        gap = line[end : match.start()]
        opens = end == 0 or (bool(_SENTENCE_GAP.search(gap)) and before not in _TITLE_ABBREVIATIONS)
        word = _CONTRACTION.sub("", match.group())
        joined = end > 0 and (gap == " " or (gap == ". " and before in _TITLE_ABBREVIATIONS))
        # A possessive or a contraction ends a name: "Owen's Porsche" are two.
        yield _Word(word, start + match.start(), opens, joined and before != "'")
        end, before = match.end(), "'" if word != match.group() else word.casefold()
