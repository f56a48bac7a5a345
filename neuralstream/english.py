"""Is a line English? Told by its function words, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FOREIGN", "STOP_WORDS", "reads_english"]

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

_ALSO_FOREIGN = frozenset(
    """
    a am an any as at be by can d do don down for had has he her him i in it ll m me more most my no nor now off on
    once or out over own re s same so some such t to too under up ve was we will
    """.split()  # noqa: SIM905 - as above
)
"""English stop words that are words, names of letters or endings in other languages, so that they tell nothing."""

_ENGLISH = (STOP_WORDS - _ALSO_FOREIGN) | {
    "know", "need", "number", "please", "still", "thank", "thanks", "think", "today", "tomorrow", "want", "yesterday",
}  # fmt: skip
"""Words that say a line is English."""

FOREIGN = frozenset(
    """
    aber auch auf aus bei das dem den der dich dir du durch ein eine einem einen einer es für haben habe hier ich ihr im
    ist kann mein meine mich mir mit nach nicht noch nur oder sich sie sind über uns und vom von wann warum wenn wer wie
    wir wird wo zu zum zur
    au aux avec ce ces cette combien comment dans des du elle elles est et il ils je la le les leur mais mon ne nos nous
    où ou par pas pour quand que quel quelle qui sa ses sont sur un une vos votre vous
    al como con cual cuando de del donde el ella en eso esta este están hasta las lo los mi mis muy pero porque que
    quién se según su sus también una y yo
    ao com da das dos e ela ele em isso mas na não nas nos o os para pela pelo por quando um uma você
    che chi come con cosa da dal della di gli il lo nel nella non per più quanto sono sul tra
    aan dat deze een en het hoe ik je kan maar met naar niet ook op te van voor waar wat wij zijn
    att av de den det ett från för han har hur ikke inte jag jeg med men när nu og och om på som til till vad var
    co czy dla do gdzie i ile jak jest kiedy kto na nie od po się są to w z za że
    bu bir da için ile ne nerede ve
    các cho có của được khi không là một những tôi và với
    """.split()  # noqa: SIM905 - as above
) - STOP_WORDS  # fmt: skip
"""The commonest words of other languages that share words with English, without those that are words of English too."""


def reads_english(words: Sequence[str]) -> bool | None:
    """Whether a line with these lower-case words, accents kept, is English; None where no word tells.

    A line with words of both kinds is what most of them are; as many of either are taken for another language, whose
    lines need what English ones only carry.
    """
    if FOREIGN.isdisjoint(words):
        return None if _ENGLISH.isdisjoint(words) else True
    if _ENGLISH.isdisjoint(words):
        return False
    return sum(word in _ENGLISH for word in words) > sum(word in FOREIGN for word in words)
