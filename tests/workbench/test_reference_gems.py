"""Distilled gems against reference gems."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from neuralstream.clock import parse_time
from neuralstream.errors import DatasetError
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Gem, Source
from neuralstream.workbench import datasets
from neuralstream.workbench.reference_gems import (
    ReferenceBatch,
    agreement,
    read_reference_gems,
    references_facts,
    token_f1,
)

PORT, LOGO = "Redis listens on port 6381.", "The invoice template has a new logo."
BATCH = ReferenceBatch("ada", frozenset({"t1", "t2"}), (PORT, LOGO))


def gem(content, *turns, user="ada"):
    """A gem of some turns."""
    return Gem(
        gem_id=Gem.make_id(user, "s1", turns, content),
        content=content,
        source=Source("s1", "2026-03-01", "0-1"),
        source_turns=turns,
        created_at=parse_time("2026-03-01T10:00:00Z"),
        user_id=user,
    )


def scores(*gems, batches=(BATCH,)):
    """What the gems score."""
    return agreement(gems, batches, FakeEmbedder()).scores()


def test_what_says_it_counts():
    """Both reference gems said and nothing else is 1; one of two said, beside one that says neither, is a half."""
    assert set(scores(gem(PORT, "t1"), gem(LOGO, "t2")).values()) == {1.0}
    assert set(scores(gem("Port 6381 is where redis listens.", "t1"), gem("Lunch was late.", "t2")).values()) == {0.5}


def test_saying_it_twice_earns_nothing():
    """The second gem that says the same finds its reference gem taken."""
    found = scores(gem(PORT, "t1"), gem("Redis listens on port 6381 now.", "t1"))
    assert (found["reference_recall"], found["reference_precision"]) == (0.5, 0.5)


def test_the_pairing_with_the_highest_sum_counts():
    """A gem near both reference gems leaves the one that another gem needs."""
    both = gem("Redis listens on port 6381, and the invoice template has a new logo.", "t1")
    found = scores(both, gem(PORT, "t2"))
    assert (found["reference_recall"], found["reference_recall_words"]) == (1, 1)


def test_only_a_gem_of_the_same_batch_says_it():
    """The same words from another batch or another user are another gem."""
    other = ReferenceBatch("ada", frozenset({"t8"}), ("The backup runs at three.",))
    found = scores(gem(PORT, "t8"), gem(LOGO, "t2", user="bo"), batches=(BATCH, other))
    assert (found["reference_recall"], found["reference_precision"]) == (0, 0)


def test_what_nobody_labelled_is_not_held_against_a_gem():
    """Gems of unlabelled turns are left out of precision; one that cites a labelled turn too may say something."""
    found = scores(gem(PORT, "t1"), gem("Lunch was late.", "t9"), gem(LOGO, "t2", "t9"))
    assert (found["reference_recall"], found["reference_precision"]) == (1, 1)


def test_no_gem_is_no_recall_and_no_precision():
    """Without gems everything is 0, and the precision has no interval."""
    found = agreement((), (BATCH,), FakeEmbedder())
    assert set(found.scores().values()) == {0.0}
    assert found.intervals(seed=0)["reference_precision"].low != found.intervals(seed=0)["reference_precision"].low


def test_intervals_are_over_users():
    """Two users, one found and one missed: the recall of a half may be anything from 0 to 1."""
    bo = replace_user(BATCH, "bo")
    found = agreement((gem(PORT, "t1"), gem(LOGO, "t2")), (BATCH, bo), FakeEmbedder())
    assert found.scores()["reference_recall"] == 0.5
    assert found.intervals(seed=0)["reference_recall"] == (0.0, 1.0)


def test_token_f1():
    """Three shared tokens of four and six: 2 * 3 / 10; the same word twice counts twice only where both have it."""
    assert token_f1(Counter("abcd"), Counter("abcxyz")) == pytest.approx(0.6)
    assert token_f1(Counter("aab"), Counter("ab")) == pytest.approx(0.8)
    assert token_f1(Counter(), Counter()) == 0


def test_read(tiny):
    """A set's reference gems, of the users of its split alone."""
    (batch,) = read_reference_gems(datasets.load(str(tiny)))
    assert batch == ("ada", {"ada-0", "ada-1", "ada-2"}, (PORT,))
    assert read_reference_gems(datasets.load(f"{tiny}@test")) == []


def test_another_label_is_another_digest():
    """What gems are held against is named by what was labelled; without labels there is nothing to name."""
    digest = references_facts([BATCH])["references_sha256"]
    assert digest == references_facts([replace_user(BATCH, "ada")])["references_sha256"]
    assert digest != references_facts([BATCH._replace(contents=(PORT,))])["references_sha256"]
    assert references_facts([]) == {}


def test_a_wrong_line_is_named(tiny, tmp_path):
    """A line without gems says which line of which file."""
    (tmp_path / "gems").mkdir()
    (tmp_path / "gems" / "ada.jsonl").write_text(json.dumps({"batch": ["ada-0"]}) + "\n")
    dataset = datasets.load(str(tiny))
    with pytest.raises(DatasetError, match=r"ada\.jsonl line 1 needs .* batch and gems"):
        read_reference_gems(replace(dataset, spec=dataset.spec._replace(path=tmp_path)))


def replace_user(batch, user):
    """The batch as another user's."""
    return batch._replace(user_id=user)
