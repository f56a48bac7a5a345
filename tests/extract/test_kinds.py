import re

import pytest

from neuralstream.extract.kinds import CUES, is_about_self, is_addressed, is_dated, is_question, tags_of


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("We decided on 45 seconds", ("decision",)),
        ("ok, let’s go with nginx", ("decision",)),
        ("I moved redis to 6381", ("decision",)),
        ("7:30 then, from this saturday", ("decision",)),
        ("The previous admin moved to Norway", ()),
        ("I prefer tabs over spaces", ("preference",)),
        ("please never propose a pie chart", ("preference",)),
        ("I always mix them up", ()),
        ("Am liebsten ohne Zucker", ("preference",)),
        ("I need to call the dentist", ("todo",)),
        ("the report is due on Friday", ("todo",)),
        ("That must be the pump", ()),
        ("Il faut appeler la mairie", ("todo",)),
        ("We decided to switch, but I still need to tell Owen", ("decision", "todo")),
        ("The pump runs at 1450 rpm", ()),
    ],
)
def test_kinds(sentence, tags):
    """Cue words tell decisions, preferences and duties; a sentence without any states a fact."""
    assert tags_of(sentence) == tags


def test_every_cue_is_a_pattern_with_a_reason():
    """The table can be read by people and by the regular expression engine."""
    for cue in CUES:
        assert cue.reason
        assert not re.compile(cue.pattern).match("")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (is_question("Where is it?"), True),
        (is_question("在哪里？"), True),
        (is_question("Shall I book it"), True),
        (is_question("It is here."), False),
        (is_about_self("It is my cat"), True),
        (is_about_self("Mira has a cat"), False),
        (is_addressed("You're so kind"), True),
        (is_addressed("The youth club"), False),
        (is_dated("since March"), True),
        (is_dated("it is slow"), False),
    ],
)
def test_signs(told, expected):
    """Questions, the speaker, the one spoken to and times are told apart."""
    assert told is expected
