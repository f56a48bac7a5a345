"""What kind of statement a sentence is, told by cue words: tables to read and to extend.

English first; the other languages have the few cues that are frequent and have no second meaning.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from neuralstream.analysis import words
from neuralstream.types import GemTag

__all__ = ["CUES", "SMALL_TALK", "Cue", "is_about_self", "is_addressed", "is_dated", "is_question", "tags_of"]


class Cue(NamedTuple):
    """A sign of one kind of statement.

    Attributes:
        tag: the kind it tells.
        reason: why it tells that.
        pattern: a regular expression, matched at word boundaries, ignoring case.
    """

    tag: GemTag
    reason: str
    pattern: str


CUES: tuple[Cue, ...] = (
    Cue("decision", "says so", r"decided|decid(?:e|ing) (?:to|on|for|against)|decision|settled on|agreed (?:to|on)"),
    Cue(
        "decision", "says so", r"entschieden|wir nehmen|décidé|(?:hemos|he) decidido|decidimos|abbiamo deciso|besloten"
    ),
    Cue("decision", "a choice", r"(?:let'?s|we'?ll|i'?ll|we|i) (?:just )?(?:go|stick|stay) (?:with|for|to)"),
    Cue("decision", "a choice", r"go(?:ing)? (?:w|with|for)|went with|opted for|\w+ (?:it is|then)(?=[,.!;]|$)"),
    Cue("decision", "a choice", r"(?:ok|okay|so|fine|yes|then),? (?:we|put|set|use|take|go|make)(?! have| are| can)"),
    Cue("decision", "a choice", r"(?:i|we)(?:'ve)? (?:chose|chosen|picked|approved|accepted|cancell?ed|dropped)"),
    Cue(
        "decision",
        "from then on",
        r"no longer|from now on|as of (?:today|now)|starting (?:next|this)|ab jetzt|ab sofort",
    ),
    Cue(
        "decision",
        "a change",
        r"(?:i|we|let's|i've|we've|^) ?(?:switch|migrat|mov)\w* (?:\w+ ){0,4}to|(?:moves|goes) to",
    ),
    Cue("decision", "a change", r"replac(?:e|es|ed|ing)|rename[ds]?|frozen|freeze|ship it|sold(?=[.,!])"),
    Cue("preference", "a liking", r"(?:i|we|she|he|they)(?:'d| would)?(?: really)? (?:prefer|like|love|enjoy|hate)s?"),
    Cue("preference", "a liking", r"favou?rites?|prefer(?:ence|s|red|ably)?|fan of|fond of|keen on|rather not"),
    Cue("preference", "a dislike", r"do(?:es)? ?n['o]?t (?:really )?(?:like|enjoy|read|do)|can ?(?:no|')?t stand"),
    Cue("preference", "a diet", r"allergic|vegan|vegetarian|gluten[- ]free"),
    Cue(
        "preference",
        "a standing rule",
        r"(?:i|we|and|please) (?:always|never)(?! mix| forget| been)|always (?:use|show|write|keep)",
    ),
    Cue(
        "preference",
        "a standing rule",
        r"never (?:give|use|show|write|send|paste|before|call|change)|next time|rule of mine",
    ),
    Cue("preference", "a standing rule", r"(?:house|my) rules?|no emojis?|remark on style|i only want"),
    Cue("preference", "how to answer", r"(?:pls|please|only|just)[ :,]+(?:short|brief|show|answer|reply|keep it)"),
    Cue("preference", "how to answer", r"keep it (?:short|brief)|(?:fewer|less) words|max \d+ (?:lines|words)"),
    Cue("preference", "liking or rule", r"lieber|am liebsten|niemals|je préfère|toujours|prefiero|siempre|nunca"),
    Cue("preference", "liking or rule", r"preferisco|prefiro|liever|altijd|nooit|wolę|zawsze|nigdy|föredrar|aldrig"),
    Cue("todo", "says so", r"to-?do|action item|still (?:need|have|to do)|don'?t forget|remind (?:me|us)|remember to"),
    Cue("todo", "a duty", r"(?:need|needs|have|has|got|ought) to(?! be\b)|must(?! be\b| have\b)|i owe"),
    Cue("todo", "a duty", r"should (?:get|do|send|check|call|write|fix|book|ask)"),
    Cue("todo", "a deadline", r"due|deadline|by (?:tomorrow|tonight|(?:next |this )?(?:\w{3,6}day)|end of)"),
    Cue(
        "todo",
        "a plan",
        r"(?:i|we|she|he|they)(?:'m|'re|'s| am| are| is)? (?:going to|gonna|planning|plan to|hop(?:e|ing) to)",
    ),
    Cue("todo", "a promise", r"(?:i|we)(?:'ll| will) (?:send|call|write|open|fix|check|book|buy|ask|do|make|start)"),
    Cue("todo", "a duty", r"muss|müssen|noch zu tun|bis (?:morgen|montag|freitag)|il faut|je dois|tengo que|hay que"),
    Cue("todo", "a duty", r"devo|dobbiamo|tem(?:os)? que|tenho que|moet(?:en)?|muszę|trzeba|måste|nicht vergessen"),
)

# Words that carry nothing worth remembering: greeting, thanks, praise, assent, laughter. What is left of a sentence
# without them, without stop words and without the speakers' names is what it says.
_SMALL_TALK = """
    hi hey hello howdy yo bye goodbye cheers welcome morning evening night afternoon care soon later talk see meet catch
    ya u thanks thank thx ty please pls sorry congrats congratulations luck wish wishes wow oh ah aw aww haha hahaha lol
    lmao hmm um yeah yep yup yes no nope nah ok okay k sure exactly absolutely definitely totally indeed right agreed
    agree course worries problem gotcha got understood noted good great nice cool awesome amazing wonderful fantastic
    lovely sweet perfect incredible impressive inspiring beautiful gorgeous brilliant fun fine well glad happy proud
    excited thrilled appreciate love loved sounds sound looks look seems hear heard know think guess bet mean feel say
    said tell way thing things stuff lot lots bit really truly quite pretty super much always never ever still even
    actually though maybe also keep going go come get make let gonna wanna doing done
    hallo moin tschüss danke bitte gut super toll prima schön ja nein genau klar alles
    bonjour salut merci bien oui non génial hola gracias bueno sí claro vale adiós ciao grazie bene sì certo bello
    olá obrigado obrigada bem sim não hoi dag dank goed leuk mooi cześć dzięki dobrze tak nie hej tack bra
    你好 您好 谢谢 好的 再见 早上好 ありがとう ありがとうございます こんにちは おはようございます はい いいですね
    감사합니다 안녕하세요 네
"""
SMALL_TALK = frozenset(words(_SMALL_TALK))

_TAGS: tuple[GemTag, ...] = ("decision", "preference", "todo")
_COMPILED = {
    tag: re.compile(rf"\b(?:{'|'.join(cue.pattern for cue in CUES if cue.tag == tag)})(?!\w)", re.IGNORECASE)
    for tag in _TAGS
}
_QUESTION = re.compile(r"[?？؟]+[\"'”’)\]\s]*$")
_OFFER = re.compile(
    r"(?:shall i|want me to|should i|would you like|let me know|tell me|can you|could you)\b", re.IGNORECASE
)
_SELF = re.compile(
    r"\b(?:i|i['’](?:m|ve|ll|d)|me|my|mine|we|we['’](?:re|ve|ll|d)|our|ich|mein\w*|wir|unser\w*|je|j['’]\w+|mon|ma|mes|nous|notre"
    r"|yo|mi|mis|nosotros|io|mio|mia|noi|eu|meu|minha|nós|ik|mijn|wij|ons|moja|mój|jag|min|mitt|vi|vår)\b",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(r"\b(?:you(?:r|rs|['’]\w+)?|u|ur)\b", re.IGNORECASE)
_DATED = re.compile(
    r"\b(?:yesterday|tomorrow|tonight|today|ago|(?:last|next|this|since|until) \w+|\w+day|(?:19|20)\d\d"
    r"|weeks?|months?|years?|january|february|march|april|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)


def tags_of(sentence: str) -> tuple[GemTag, ...]:
    """The kinds a sentence shows a cue of, among decision, preference and todo; none means it states a fact."""
    plain = sentence.replace("’", "'")
    return tuple(tag for tag in _TAGS if _COMPILED[tag].search(plain))


def is_question(sentence: str) -> bool:
    """Whether it asks for something, an offer included, instead of stating it."""
    return bool(_QUESTION.search(sentence) or _OFFER.match(sentence))


def is_about_self(sentence: str) -> bool:
    """Whether the speaker speaks of themselves or their own."""
    return bool(_SELF.search(sentence))


def is_addressed(sentence: str) -> bool:
    """Whether it speaks to or of the other one."""
    return bool(_ADDRESSED.search(sentence))


def is_dated(sentence: str) -> bool:
    """Whether it says when."""
    return bool(_DATED.search(sentence))
