"""Names that lead from what was found to what else is told of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralstream.retrieve.features import Candidate
from neuralstream.retrieve.linked import linked


def found(*names, **more):
    """A candidate that holds these names."""
    return Candidate("p", {"kind": "turn", "entities": list(names)} | more)


def scores(*values):
    """One signal's scores."""
    return np.array(values, float)[:, None]


def activation(candidates, evidence, text="who fixed it?"):
    """As a list."""
    return linked(text, candidates, evidence).tolist()


def test_what_shares_a_name_with_the_best_is_reached():
    """The second hop of a question: it shares nothing with the question, and a name with what does."""
    first, second, other = activation([found("tilda"), found("tilda"), found("owen")], scores(9, 0, 0))
    assert second > first > 0
    assert other == 0


def test_what_stands_below_hands_on_less():
    """Of two names, the one of the better candidate activates more."""
    to_best, to_worst = activation([found("a1"), found("b1"), found("a1"), found("b1")], scores(9, 1, 0, 0))[2:]
    assert to_best > to_worst > 0


def test_a_rare_name_leads_further_than_a_common_one():
    """Inverse frequency: what everybody mentions links nobody in particular."""
    candidates = [found("ana", "rye"), found("rye"), *(found("ana") for _ in range(20))]
    reached = activation(candidates, scores(9, *[0] * 21))
    assert reached[1] > 5 * reached[2] > 0


def test_two_hops_are_walked():
    """From name to name through a candidate in between that nothing else speaks for, and less there than halfway."""
    crowd = [found() for _ in range(400)]
    evidence = scores(9, *[0] * 402)
    _, between, beyond, *_ = activation([found("tilda"), found("tilda", "rye"), found("rye"), *crowd], evidence)
    assert between > beyond > between / 10


def test_what_the_question_names_links_nothing():
    """Words already count for it."""
    candidates = [found("tilda"), found("tilda", "rye"), found("rye")]
    assert activation(candidates[:2], scores(9, 0), "what did TILDA say?") == [0, 0]
    assert activation(candidates, scores(9, 0, 0), "what did TILDA say?")[2] > 0


def test_a_candidate_gets_nothing_from_itself():
    """A name that nobody else holds activates nobody, nor do many such names."""
    assert activation([found("a1", "b1", "c1"), found()], scores(9, 0)) == [0, 0]
    many, one = activation([found("rye", "a1", "b1", "c1"), found("rye")], scores(0, 0))
    assert many == pytest.approx(one)


def test_topics_of_gems_are_names_too_in_any_casing():
    """A gem's topic meets a turn's entity."""
    candidates = [found("home repairs"), found(topics=["Home Repairs"], kind="gem")]
    assert activation(candidates, scores(9, 0))[1] > 0


def test_no_candidates_no_activation():
    """An empty memory, and candidates that signals do not tell apart."""
    assert linked("who?", [], np.zeros((0, 4))).tolist() == []
    same = activation([found("rye"), found("rye")], scores(7, 7))
    assert same[0] == same[1] > 0


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["ana", "bo", "rye", "oat"]), max_size=4), min_size=1, max_size=8), st.randoms()
)
def test_the_order_of_candidates_changes_nothing(names, random):
    """Activation is finite, never negative, and each one's own."""
    evidence = [float(random.randint(0, 9)) for _ in names]
    order = random.sample(range(len(names)), len(names))
    straight = activation([found(*held) for held in names], scores(*evidence))
    mixed = activation([found(*names[row]) for row in order], scores(*(evidence[row] for row in order)))
    assert all(value >= 0 and math.isfinite(value) for value in straight)
    assert mixed == pytest.approx([straight[row] for row in order])
