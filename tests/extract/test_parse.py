"""A gem is taken as far as it rests on what was shown; what is refused has a reason that the model can be told."""

import json

import pytest

from neuralstream.extract.grounds import Grounds
from neuralstream.extract.parse import ParseError, parse_answer
from neuralstream.extract.transcript import number_turns
from neuralstream.fence import FENCE_CLOSE, FENCE_OPEN

CONTENT = "Redis listens on port 6381."


@pytest.fixture
def grounds(batch_of, exchange):
    """Turns 3 to 5 to distil, 0 to 2 before them."""
    batch = batch_of(
        exchange("Good morning from Lisbon", "Good morning"),
        exchange("Tilda runs the postgres servers", "I see"),
        exchange("She is away until Monday", "Noted"),
        exchange("We moved redis to port 6381", "Redis listens on 6381 now."),
        exchange("I prefer short answers", "Understood"),
        exchange("ask Tilda about the backup of merlin", "I will"),
        history=3,
    )
    history, turns = number_turns(batch)
    return Grounds(turns, history, ("Halberd was chosen for hosting because it is cheaper.",))


def gem(**changes):
    """A gem as a model writes it, a field changed, added, or left out where it is None."""
    fields = {"source_turns": [3], "content": CONTENT, "tags": ["fact"]} | changes
    return {name: value for name, value in fields.items() if value is not None}


def parsed(grounds, *gems):
    """What is made of an answer with these gems."""
    return parse_answer(json.dumps({"gems": gems}), grounds)


def draft(grounds, **changes):
    """The one gem of an answer."""
    (found,) = parsed(grounds, gem(**changes)).drafts
    return found


def reason(grounds, **changes):
    """Why the one gem of an answer is refused."""
    with pytest.raises(ParseError) as caught:
        parsed(grounds, gem(**changes))
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (0.8, 0.8), (1, 1), (0, 0), (85, 0.85), (8, 0.8), ("0.7", 0.7), ("85%", 0.85), ("8/10", 0.8), ("high", 0.85),
        ("Very High", 0.95), ("low", 0.2), (" medium ", 0.5), ("0.9 (said plainly)", 0.9), (250, 1), (-1, None),
        ("unknown", None), ([0.9], None), (True, None), ({}, None), ("3/0", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["importance", "confidence"])
def test_shares_are_read_on_any_scale(grounds, field, written, read):
    """A share, a percentage, a grade or a word is a number from 0 to 1; what is none of these is left open."""
    assert getattr(draft(grounds, **{field: written}), field) == read


def test_infinity_is_no_share(grounds):
    """JSON as Python reads it has NaN and Infinity."""
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        text = json.dumps({"gems": [gem(confidence=0.5)]}).replace("0.5", number)
        assert parse_answer(text, grounds).drafts[0].confidence is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([3], (3,)), (3, (3,)), ("3", (3,)), ("[3]", (3,)), ("turn 3", (3,)), (["turn 3", "Turn 4"], (3, 4)),
        ("3-5", (3, 4, 5)), ("3 to 4", (3, 4)), ("turns 3, 5", (3, 5)), ([5, 3, 3], (3, 5)), (3.0, (3,)),
        ({"start": 3, "end": 4}, (3, 4)), ("t4", (4,)), (["t3", "t5"], (3, 5)), ("2-3", (3,)), ([2, 3], (3,)),
        ([3, 99], (3,)), ("[3][4]", (3, 4)), ("turns 3 and 4", (3, 4)),
    ],
)  # fmt: skip
def test_citations_are_read_in_any_form(grounds, written, read):
    """Numbers, texts, ranges and ids of turns of the batch count; those of history or of nothing do not."""
    assert draft(grounds, source_turns=written).turns == read


@pytest.mark.parametrize(
    "written", [None, [], "", [2], "0-2", [99], "3-99", "99", "arlo-s1-04", "the third", True, 3.5, {}]
)
def test_a_gem_that_cites_no_turn_of_the_batch_is_refused(grounds, written):
    """A range that does not exist, earlier turns, unknown ids: the reason names what can be cited."""
    assert "3, 4, 5" in reason(grounds, source_turns=written)


def test_a_huge_range_takes_no_time(grounds):
    """A range is compared with what was shown, not walked through."""
    assert "3, 4, 5" in reason(grounds, source_turns="0-999999999")


@pytest.mark.parametrize("name", ["sources", "turn", "turn_range", "Source Turns", "citations"])
def test_sources_may_be_called_otherwise(grounds, name):
    """Models rename keys."""
    assert draft(grounds, **{"source_turns": None, name: [4]}).turns == (4,)


def test_a_single_turn_needs_no_citation(grounds):
    """Where there is one turn, a gem that cites none means it; one that cites another is still refused."""
    single = Grounds({3: grounds.batch[3]}, {})
    assert draft(single, source_turns=None).turns == (3,)
    assert "out of 3" in reason(single, source_turns=[7])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["fact", "todo"], ("fact", "todo")), ("Decision", ("decision",)), ("fact, code", ("fact", "code")),
        (["Preferences"], ("preference",)), ("action items", ("todo",)), (["weather", "fact"], ("fact",)),
        ("information", ("fact",)), ([], ("fact",)), (None, ("fact",)), (7, ("fact",)), (["fact", "fact"], ("fact",)),
    ],
)  # fmt: skip
def test_tags_are_of_the_known_kinds(grounds, written, read):
    """Plurals and synonyms count; what is unknown is dropped."""
    assert draft(grounds, tags=written).tags == read


def test_a_gem_without_a_kind_gets_it_from_its_words(grounds):
    """A stated preference is one without being called so."""
    assert draft(grounds, content="The user prefers short answers.", source_turns=[4], tags=None).tags == (
        "preference",
    )


@pytest.mark.parametrize(
    "content", ["", "  ", "...", "string?".replace("string", ""), "the of", None, 7, ["Redis"], "\u200b\x00"]
)
def test_a_gem_that_says_nothing_is_refused(grounds, content):
    """Empty, only marks, only stop words, or no text at all."""
    with pytest.raises(ParseError):
        parsed(grounds, gem(content=content))


def test_a_copied_page_is_no_statement(grounds):
    """More than 1,000 characters were copied, not distilled."""
    assert "characters" in reason(grounds, content="redis port " * 100)


def test_content_is_one_line_that_can_be_stored(grounds):
    """Controls, direction marks and lone surrogates go; so do line breaks."""
    assert (
        draft(grounds, content="Redis\nlistens\x00 on \ud83d port\u202e 6381.").content == "Redis listens on port 6381."
    )


def test_topics_and_questions_are_short_lists(grounds):
    """Text with commas is a list of topics; a question keeps its commas; at most five."""
    found = draft(grounds, topics="Redis, Ports,redis", questions="Where, please, does redis listen?")
    assert found.topics == ("redis", "ports")
    assert found.questions == ("Where, please, does redis listen?",)
    many = draft(grounds, topics=[f"t{n}" for n in range(9)], questions=[f"why {n}?" for n in range(9)])
    assert (len(many.topics), len(many.questions)) == (5, 5)
    odd = draft(grounds, topics=[3, None, "a topic of far too many words to be one"], questions={"a": 1})
    assert (odd.topics, odd.questions) == ((), ())


@pytest.mark.parametrize(
    "content",
    ["Halberd was chosen for hosting because it is cheaper.", "halberd was chosen for hosting, because it is cheaper"],
)
def test_the_prompts_examples_are_refused(grounds, content):
    """However they are punctuated."""
    assert "example" in reason(grounds, content=content)


@pytest.mark.parametrize(
    "content",
    [
        "The servers are run by Gregor.",
        "Merlin is backed up by Anna Schmidt.",
        "We asked Björn about redis.",
        "We asked Tilo about redis.",
    ],
)
def test_an_invented_person_is_refused(grounds, content):
    """A name that stands in no turn and belongs to no speaker."""
    assert "nobody said" in reason(grounds, content=content)


@pytest.mark.parametrize(
    "content",
    [
        "The postgres servers are run by Tilda.",  # said in history
        "PostgreSQL is run by Tilda's team.",  # another spelling of what was said
        "The user is in Lisbon and wrote to the Assistant in March.",
        "The backup of Merlin was moved to the API on Monday.",
        "Ask Tylda about the backup of merlin.",  # a slip of a letter
        "The one who runs postgres is Tilda.",
    ],
)
def test_what_was_said_is_not_invented(grounds, content):
    """Names from the batch and from history, spelt otherwise too, roles, months, weekdays and acronyms."""
    assert draft(grounds, content=content, confidence=0.9).confidence == 0.9


def test_a_doubtful_opening_lowers_confidence(grounds):
    """The first word of a sentence is capital in any case: it may be a name that nobody said, or just a word."""
    assert draft(grounds, content="Gregor listens on port 6381.", confidence=0.9).confidence == 0.5
    assert draft(grounds, content="Gregor listens on port 6381.").confidence == 0.5
    assert draft(grounds, content=CONTENT, confidence=0.9).confidence == 0.9


@pytest.mark.parametrize("content", ["Merlin is backed up by Tilda Marquardt.", "The backup of merlin speaks Spanish."])
def test_a_name_that_is_partly_known_lowers_confidence(grounds, content):
    """A surname nobody said may be right; a language is written as a name is."""
    assert draft(grounds, content=content, confidence=0.9).confidence == 0.5


def test_the_user_s_own_name_is_known(grounds):
    """A gem may call the user by the id that turns belong to."""
    assert (
        draft(grounds, content="The one who likes short answers is Mel.", source_turns=[4], confidence=0.9).confidence
        == 0.9
    )


def test_german_nouns_are_no_invented_people(batch_of, exchange):
    """Where every noun is capital, a capital letter tells nothing: confidence is lowered, nothing refused."""
    _, turns = number_turns(batch_of(exchange("wir haben den rechner in den keller gestellt", "gut")))
    found = draft(
        Grounds(turns, {}), content="Wir haben das Gerät mit dem Speicher in den Keller gestellt.", source_turns=[0]
    )
    assert found.content.startswith("Wir")


def injected(batch_of, exchange, said):
    """One turn that was given a memory, and says something."""
    block = f"{FENCE_OPEN}\n- 2026-05-09 [gem 5ab1c0de] decision: Redis listens on port 6381 of merlin.\n{FENCE_CLOSE}"
    _, turns = number_turns(batch_of(exchange(f"{block}\n{said}", "Yes.")))
    return Grounds(turns, {})


def test_injected_memory_is_not_distilled_again(batch_of, exchange):
    """A gem that says what memory had put into the turn is refused, with and without the entry's own words."""
    grounds = injected(batch_of, exchange, "is that so")
    assert "memory" in reason(grounds, content="Redis listens on port 6381 of merlin.", source_turns=[0])
    assert "memory" in reason(grounds, content="Redis listens on port 6381.", source_turns=[0])


def test_what_is_said_again_may_be_remembered_again(batch_of, exchange):
    """The user's own words count, whatever memory had put beside them."""
    grounds = injected(batch_of, exchange, "remember: redis listens on port 6381")
    assert draft(grounds, content="Redis listens on port 6381.", source_turns=[0]).turns == (0,)


def test_memory_tags_are_refused(grounds):
    """A gem never carries a fence into what is injected later."""
    assert "tag" in reason(grounds, content=f"{FENCE_OPEN} Redis {FENCE_CLOSE}")


def test_good_gems_outlive_bad_ones(grounds):
    """Each bad one is left out with its reason."""
    found = parsed(grounds, gem(), gem(content=""), gem(content="Tilda has the backup.", source_turns=[99]))
    assert [draft.content for draft in found.drafts] == [CONTENT]
    assert len(found.refused) == 2


def test_a_statement_counts_once(grounds):
    """A model that repeats itself gives one gem."""
    found = parsed(grounds, gem(), gem(content=CONTENT.upper()), gem(source_turns=[4]))
    assert (len(found.drafts), len(found.refused)) == (1, 2)


def test_gems_come_in_the_order_of_their_turns(grounds):
    """Whatever order the model chose."""
    found = parsed(
        grounds,
        gem(content="Tilda has the backup.", source_turns=[5]),
        gem(),
        gem(content="Short answers.", source_turns=[4]),
    )
    assert [draft.turns for draft in found.drafts] == [(3,), (4,), (5,)]


def test_nothing_to_keep_is_no_error(grounds):
    """Small talk gives an empty answer."""
    assert parsed(grounds) == ((), (), False)


def test_an_answer_of_bad_gems_only_is_an_error_with_every_reason(grounds):
    """The model is told about each."""
    with pytest.raises(ParseError) as caught:
        parsed(grounds, gem(content="Gone is Gregor."), gem(source_turns=[99]))
    assert "Gregor" in str(caught.value)
    assert "99" in str(caught.value)


def test_a_number_without_end_is_no_grade(grounds):
    """Not even one too large for a float; the gem stays."""
    assert draft(grounds, importance=10**400, confidence=-(10**400)).importance is None
