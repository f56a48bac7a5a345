import pytest

from neuralstream.analysis import words
from neuralstream.retrieve.named import speaks


def named(query, *speakers):
    """How far a question names one of the speakers."""
    return speaks(speakers, frozenset(words(query)))


@pytest.mark.parametrize("query", ["what did Ada say?", "what was ADA's idea?", "ada’s port"])
def test_a_speaker_whose_name_is_in_the_question(query):
    """Case and a possessive make no difference."""
    assert named(query, "Ada") == 1.0
    assert named(query, "Bob") == 0.0


def test_accents_make_no_difference():
    """A name is found however it is typed."""
    assert named("what did jose say?", "José") == 1.0


def test_a_name_is_no_part_of_another_word():
    """The "Ann" of "annual" is none."""
    assert named("the annual report", "Ann") == 0.0


def test_of_two_annas_the_one_with_the_family_name_comes_first():
    """Each part of a name that is asked for counts."""
    full, other = named("what did Anna Smith say?", "Anna Smith"), named("what did Anna Smith say?", "Anna Jones")
    assert full == 1.0 > other > 0
    assert named("what did Anna say?", "Anna Smith") == named("what did Anna say?", "Anna Jones") > 0


def test_names_that_are_everyday_words_do_not_count():
    """Neither "will" nor an initial names a speaker."""
    assert named("when will she be at a shop?", "Will") == 0.0
    assert named("is a redis running?", "A. Berg") == 0.0
    assert named("which vitamin e did we buy?", "E. Berg") == 0.0
    assert named("what did Berg say?", "Will A. Berg") == 1.0


def test_i_is_the_user_and_you_the_assistant():
    """A user's pronouns name the two sides of a talk with an assistant."""
    assert named("what did you recommend?", "assistant") == 1.0
    assert named("what did you recommend?", "user") == 0.0
    assert named("what did I say?", "user") == 1.0
    assert named("what did I say?", "assistant") == 0.0
    assert named("what did the assistant say about the user table?", "user") == 0.0


def test_pronouns_name_no_person():
    """Among people, "I" and "you" could be anyone."""
    assert named("what did you and I say?", "Ada") == 0.0


def test_a_turn_counts_by_its_best_named_speaker():
    """In an exchange both speak, so "I" and "you" prefer no exchange to another."""
    assert named("what did Ada say?", "Bob", "Ada") == 1.0
    assert named("what did I say?", "user", "assistant") == named("what did you say?", "user", "assistant") == 1.0


def test_nobody_speaks():
    """A gem without known speakers is named by no one."""
    assert named("what did Ada say?") == 0.0
    assert named("", "Ada") == 0.0
