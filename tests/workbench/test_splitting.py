import json
from datetime import UTC, datetime

import pytest

from neuralstream.errors import DatasetError, InputError
from neuralstream.logs.base import Conversation, Question
from neuralstream.types import Turn
from neuralstream.workbench import datasets
from neuralstream.workbench.splitting import assign, split

HALVES = {"dev": 0.5, "test": 0.5}


def people(*sizes):
    """Conversations with so many questions each."""
    turn = Turn.exchange("a", "b", session_id="s", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return [
        Conversation(f"p{n}", (turn,), tuple(Question(f"{n}-{q}", "?", "fact", ("t",), "") for q in range(size)))
        for n, size in enumerate(sizes)
    ]


def test_every_conversation_is_in_one_split_and_shares_are_kept():
    """A quarter of twelve is three."""
    splits = assign(people(*range(12)), {"dev": 0.75, "test": 0.25}, seed=0)
    assert [len(names) for names in splits.values()] == [9, 3]
    assert sorted(splits["dev"] + splits["test"]) == sorted(f"p{n}" for n in range(12))


@pytest.mark.parametrize("seed", range(8))
def test_large_and_small_conversations_are_dealt_evenly(seed):
    """Of each pair of neighbours in size, one goes to each half, whatever is drawn."""
    splits = assign(people(100, 90, 10, 9, 1, 0), HALVES, seed=seed)
    for pair in ({"p0", "p1"}, {"p2", "p3"}, {"p4", "p5"}):
        assert len(pair & set(splits["dev"])) == 1


def test_the_seed_decides_who_is_dealt_what():
    """The same seed deals the same; others deal otherwise."""
    dealt = [assign(people(*[5] * 10), HALVES, seed=seed)["dev"] for seed in (1, 1, 2, 3)]
    assert dealt[0] == dealt[1]
    assert dealt[0] != dealt[2] or dealt[0] != dealt[3]


@pytest.mark.parametrize("shares", [{}, {"dev": 0.5, "test": 0.6}, {"dev": 1.2, "test": -0.2}])
def test_shares_that_do_not_make_one_are_refused(shares):
    """The message shows what was given."""
    with pytest.raises(InputError, match="shares"):
        assign(people(1, 2), shares, seed=0)


def test_fewer_conversations_than_splits_are_refused():
    """One person's log cannot be both tuned and tested on."""
    with pytest.raises(InputError, match="1 conversations cannot be dealt to 2"):
        assign(people(3), HALVES, seed=0)


def test_splitting_a_set_makes_its_splits_loadable(tiny, tmp_path):
    """What else dataset.json says stays; splits that are there are only replaced when asked."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "conversations").symlink_to(tiny / "conversations")
    (folder / "queries").symlink_to(tiny / "queries")
    (folder / "dataset.json").write_text('{"name": "mine", "licence": "CC0-1.0"}')
    splits = split(str(folder), {"dev": 0.67, "test": 0.33})
    assert [one.name for one in datasets.load(f"{folder}@test").conversations] == splits["test"]
    assert json.loads((folder / "dataset.json").read_text()) == {
        "name": "mine", "licence": "CC0-1.0", "splits": splits,
    }  # fmt: skip
    with pytest.raises(DatasetError, match="--replace"):
        split(str(folder), HALVES)
    assert list(split(str(folder), {"all": 1.0}, replace=True)) == ["all"]


def test_only_native_sets_can_be_split(tmp_path):
    """A log has nowhere to write it."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"messages": [{"role": "user", "content": "hello"}]}\n')
    with pytest.raises(DatasetError, match="openai log"):
        split(str(log), HALVES)
