import pytest

from neuralstream.analysis import analyse_whole_words
from neuralstream.retrieve.theme_names import Names, content_tokens


def named(inside, outside, most=8):
    """Terms of some texts among others."""
    tokens = [{*content_tokens(text)} for text in [*inside, *outside]]
    return Names(tokens).terms(tokens[: len(inside)], inside, most)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The die is cast in aluminium", {"die", "cast", "aluminium"}),
        ("Die Heizung ist nicht kaputt, und der Kessel auch nicht", {"heizung", "kaputt", "kessel"}),
        ("La chaudière est dans la cave et elle ne marche pas", {"chaudière", "cave", "marche"}),
        ("6381", {"6381"}),
        ("", set()),
    ],
)
def test_stop_words_are_those_of_the_texts_language(text, kept):
    """A word is left out where it carries no content, and stays where it does."""
    expected = {token for word in kept for token in analyse_whole_words(word)}
    assert {*content_tokens(text)} == expected


def test_a_theme_is_named_by_what_its_turns_share_and_others_lack():
    """Said by more of them beats said by one of them; said everywhere is no name."""
    inside = ["redis port staging", "redis eviction staging", "redis snapshot staging"]
    outside = ["violin staging", "violin concert staging", "sonata staging"]
    terms = named(inside, outside)
    assert terms[0] == "redis"
    assert set(terms[1:4]) == {"port", "eviction", "snapshot"}
    assert "staging" not in terms[:4]


def test_terms_are_written_as_they_mostly_are_and_none_is_part_of_another():
    """Compounds stand whole; a bare number names nothing."""
    terms = named(["The Kubernetes pods of ERR-1042", "kubernetes, Kubernetes! 6381 ERR-1042"], ["violins"])
    assert {"Kubernetes", "ERR-1042", "pods"} == set(terms)
    assert len(named(["one alpha beta gamma delta"], ["violins"], most=2)) == 2


def test_words_said_all_the_time_are_not_distinctive():
    """Three in a hundred turns, but ten turns at the least."""
    assert Names([{"great"}] * 10 + [{"boiler"}]).distinctive(["great", "boiler", "unseen"]) == [
        "great",
        "boiler",
        "unseen",
    ]
    assert Names([{"great"}] * 11 + [{"boiler"}] * 9).distinctive(["great", "boiler"]) == ["boiler"]
    assert Names([{"great"}] * 25 + [{"other"}] * 975).distinctive(["great", "other"]) == ["great"]
