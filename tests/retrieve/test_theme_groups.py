import tracemalloc

import numpy as np
import pytest

from neuralstream.retrieve.theme_groups import directions, gather, group_turns


def made(subjects, turns, *, seed=0, dim=32):
    """Turns of each subject in a row: vectors near a direction of the subject's own, words of its own."""
    rng = np.random.default_rng(seed)
    about = np.repeat(np.arange(subjects), turns)
    vectors = rng.normal(size=(subjects, dim))[about] + 0.5 * rng.normal(size=(len(about), dim))
    words = [[f"{subject}:{word}" for word in rng.integers(0, 6, 4)] for subject in about]
    return directions(np.asarray(vectors, np.float32)), words, about


def test_groups_hold_one_subject_each():
    """Whatever the order of turns; rows ascend and are in one group."""
    vectors, words, about = made(5, 12)
    order = np.random.default_rng(1).permutation(len(about))
    groups = group_turns(vectors[order], [words[row] for row in order], [str(row) for row in order])
    assert all(len({about[order[row]] for row in rows}) == 1 for rows in groups.rows)
    assert all(rows == sorted(rows) for rows in groups.rows)
    everything = [row for rows in groups.rows for row in rows]
    assert len(everything) == len(set(everything)) >= 55


def test_words_tell_apart_what_vectors_do_not():
    """Vectors are the same for all; only words differ."""
    _, words, about = made(4, 10)
    vectors = np.ones((40, 8), np.float32) / np.float32(8**0.5)
    groups = group_turns(vectors, words, [str(row) for row in range(40)])
    assert groups.rows
    assert all(len({about[row] for row in rows}) == 1 for rows in groups.rows)


@pytest.mark.parametrize(("before", "subject"), [(1, 0), (4, 1)])
def test_a_turn_that_could_be_about_either_goes_with_what_was_said_before_it(before, subject):
    """Its vector lies halfway between two subjects, and it has a word of each."""
    vectors, words, about = made(2, 3)
    halfway = directions(vectors[:3].mean(axis=0, keepdims=True) + vectors[3:].mean(axis=0, keepdims=True))
    sessions = ["one" if row in {before, 6} else str(row) for row in range(7)]
    groups = group_turns(np.vstack([vectors, halfway]), [*words, ["0:1", "1:1"]], sessions)
    (joined,) = [rows for rows in groups.rows if 6 in rows]
    assert {about[row] for row in joined if row < 6} == {subject}


def test_a_turn_far_from_all_others_is_in_no_group():
    """Where it would be put by distance alone."""
    vectors, words, _ = made(2, 10)
    far = directions(np.asarray(np.random.default_rng(9).normal(size=(1, 32)), np.float32))
    groups = group_turns(np.vstack([vectors, far]), [*words, ["nobody"]], [str(row) for row in range(21)])
    assert sum(map(len, groups.rows)) >= 18
    assert not any(20 in rows for rows in groups.rows)


def test_many_turns_are_grouped_as_well_in_linear_memory():
    """Above 1,500 turns close ones are gathered first; the same turns give the same groups."""
    vectors, words, about = made(40, 75)
    tracemalloc.start()
    groups = group_turns(vectors, words, [str(row) for row in range(len(about))])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    right = sum(np.bincount([about[row] for row in rows]).max() for rows in groups.rows)
    assert right / sum(map(len, groups.rows)) > 0.95
    assert sum(map(len, groups.rows)) > 0.9 * len(about)
    assert peak < 120e6
    assert group_turns(vectors, words, [str(row) for row in range(len(about))]).rows == groups.rows


def test_close_rows_are_gathered():
    """Equal directions share a group; groups are numbered without gaps; few rows stay alone."""
    rows = directions(np.asarray(np.repeat(np.random.default_rng(0).normal(size=(5, 16)), 40, axis=0), np.float32))
    groups = gather(rows, 20)
    assert sorted(set(groups)) == list(range(groups.max() + 1))
    assert all(len(set(groups[start : start + 40])) == 1 for start in range(0, 200, 40))
    assert len(set(groups)) == 5
    assert list(gather(rows[:20], 20)) == list(range(20))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_turns_are_fine(count):
    """One makes no group; two or three that say the same make one."""
    groups = group_turns(np.ones((count, 4), np.float32) / 2, [["a", "b"]] * count, ["s"] * count)
    assert [len(rows) for rows in groups.rows] == ([count] if count > 1 else [])
