"""Naming, loading and describing labelled sets."""

import shutil

import pytest

from neuralstream.errors import DatasetError, LogFormatError
from neuralstream.workbench import datasets


def test_shipped_name_wins_over_a_path(tmp_path):
    """A folder of the same name in the working directory does not shadow a shipped set."""
    (tmp_path / datasets.OWN).mkdir()
    spec = datasets.parse_spec(f"{datasets.OWN}@dev")
    assert (spec.format, spec.split, spec.name) == ("native", "dev", "workdays@dev")
    assert spec.path.parent.name == "datasets"


def test_format_is_what_stands_before_the_first_colon_if_known(tiny, tmp_path):
    """An unknown word before a colon belongs to the path."""
    odd = tmp_path / "odd:name"
    shutil.copytree(tiny, odd)
    assert datasets.parse_spec(f"native:{tiny}").format == "native"
    assert datasets.parse_spec(str(odd)).path == odd
    assert datasets.parse_spec(f"native:{odd}@dev")[1:3] == (odd, "dev")


def test_path_with_an_at_sign(tiny, tmp_path):
    """An @ inside an existing path is no split."""
    odd = tmp_path / "me@home"
    shutil.copytree(tiny, odd)
    assert datasets.parse_spec(str(odd)).split is None
    assert datasets.parse_spec(f"{odd}@test").split == "test"


def test_split_loads_its_users_under_its_own_hash(tiny):
    """A split holds its users only, and its hash covers just their files."""
    whole, dev, test = (datasets.load(f"{tiny}{suffix}") for suffix in ("", "@dev", "@test"))
    assert [conversation.name for conversation in dev.conversations] == ["ada", "bo"]
    assert len({whole.sha256, dev.sha256, test.sha256}) == 3
    assert dev.name == "tiny@dev"


def test_hash_changes_with_labels_and_not_with_notes(tiny, tmp_path):
    """Changing a label changes the hash; reference gems and second labels, which evaluation does not read, do not."""
    copy = tmp_path / "tiny"
    shutil.copytree(tiny, copy)
    (copy / "second_labels.jsonl").unlink()
    assert datasets.load(str(copy)).sha256 == datasets.load(str(tiny)).sha256
    queries = copy / "queries" / "ada.jsonl"
    queries.write_text(queries.read_text().replace("ada-0", "ada-1"))
    assert datasets.load(str(copy)).sha256 != datasets.load(str(tiny)).sha256


def test_what_cannot_be_loaded(tiny):
    """Unknown names, splits and formats are refused with what there is."""
    with pytest.raises(DatasetError, match=r"workdays.*locomo"):
        datasets.load("no-such-set")
    with pytest.raises(DatasetError, match="it has dev, test"):
        datasets.load(f"{tiny}@train")
    with pytest.raises(LogFormatError):
        datasets.load(f"native:{tiny / 'queries'}")


def test_log_without_labels(tiny):
    """A log of turns loads as conversations without questions."""
    dataset = datasets.load(f"native:{tiny / 'conversations' / 'ada.jsonl'}")
    assert [(c.name, len(c.turns), c.questions) for c in dataset.conversations] == [("ada", 6, ())]


def test_own_set_is_listed_first():
    """The project's own set leads the list, with its splits."""
    listed = datasets.list_datasets()
    assert listed[0]["name"] == datasets.OWN
    assert {name: len(users) for name, users in listed[0]["splits"].items()} == {"dev": 8, "test": 8}


def test_stats(tiny):
    """Counts, and the highest P@5 that can be reached."""
    found = datasets.stats(str(tiny))
    assert (found["conversations"], found["sessions"], found["turns"]) == (3, 6, 18)
    assert (found["questions"], found["scored"], found["unscored"]) == (7, 6, 1)
    assert found["by_category"] == {"identifier": 3, "multi-hop": 1, "paraphrase": 2, "unanswerable": 1}
    assert found["ceiling_P@5"] == pytest.approx((5 * 0.2 + 0.4) / 6, abs=1e-3)


def test_locomo(benchmark_data):
    """LoCoMo's development file: 999 questions, two without readable evidence, clustered by conversation."""
    dataset = datasets.load(f"locomo:{benchmark_data / 'locomo' / 'locomo_dev5.json'}")
    questions = [question for _, question in dataset.questions()]
    assert (len(questions), sum(not question.evidence for question in questions)) == (999, 2)
    assert dataset.cluster == "conversation"
    assert {question.category for question in questions} == {
        "multi-hop",
        "temporal",
        "open-domain",
        "single-hop",
        "adversarial",
    }


def test_some_users_are_a_split(tiny):
    """Users with commas between them load as a split of their own; an unknown one is refused with those there are."""
    some = datasets.load(f"{tiny}@cy,ada")
    assert [conversation.name for conversation in some.conversations] == ["ada", "cy"]
    assert some.name == "tiny@cy,ada"
    assert datasets.load(f"{tiny}@ada,bo").sha256 == datasets.load(f"{tiny}@dev").sha256
    with pytest.raises(DatasetError, match="no split 'ada,eve'; it has dev, test, and users ada, bo, cy"):
        datasets.load(f"{tiny}@ada,eve")
