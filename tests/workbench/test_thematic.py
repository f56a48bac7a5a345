import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from neuralstream.config import Settings
from neuralstream.errors import DatasetError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench.thematic import (
    Match,
    Scored,
    _at_coverage,
    evaluate_themes,
    k_means,
    majority,
    markdown,
    match,
    rows,
)

START = datetime(2026, 5, 1, 9, tzinfo=UTC)
SUBJECTS = {
    "boiler": ["boiler", "cellar", "plumber", "heating", "radiator", "valve"],
    "sailing": ["sailing", "harbour", "mast", "regatta", "anchor", "rudder"],
    "violin": ["violin", "orchestra", "rehearsal", "sonata", "concert", "strings"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A native set: two users talk of three subjects in turn, and each is asked about two of them."""
    root = tmp_path_factory.mktemp("talk")
    for part in ("conversations", "queries"):
        (root / part).mkdir()
    (root / "dataset.json").write_text(json.dumps({"name": "talk", "splits": {}}))
    for user in ("ada", "bo"):
        turns = [
            {
                "turn_id": f"{user}-{at}-{subject}",
                "session_id": f"{user}-s",
                "user_id": user,
                "created_at": (START + timedelta(days=at)).isoformat(),
                "parts": [{"role": "user", "text": " ".join(words[(at + step) % 6] for step in range(4))}],
            }
            for at in range(8)
            for subject, words in SUBJECTS.items()
        ]
        asked = [
            {"query_id": f"{user}-q1", "text": "boiler?", "category": "thematic", "evidence": about(user, "boiler")},
            {"query_id": f"{user}-q2", "text": "violin?", "category": "thematic", "evidence": about(user, "violin")},
            {"query_id": f"{user}-q3", "text": "mast?", "category": "paraphrase", "evidence": about(user, "sailing")},
            {"query_id": f"{user}-q4", "text": "tea?", "category": "thematic", "evidence": []},
        ]
        for part, lines in (("conversations", turns), ("queries", asked)):
            (root / part / f"{user}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def about(user, subject):
    """Ids of the turns about a subject."""
    return [f"{user}-{at}-{subject}" for at in range(8)]


def groups(*texts):
    """Groups of one-letter turns."""
    return [frozenset(text) for text in texts]


def test_the_best_group_stands_for_a_question():
    """By F1: a pure part or a mixed whole, whichever matches better; turns of no question count against it."""
    gold = frozenset("abcd")
    assert match(groups("ab", "cdxyzuvw"), gold) == Match(1.0, 0.5, pytest.approx(2 / 3))
    assert match(groups("ab", "cdx", "yz"), gold) == Match(1.0, 0.5, pytest.approx(2 / 3))
    assert match(groups("abcdx", "yz"), gold) == Match(0.8, 1.0, pytest.approx(8 / 9))
    assert match(groups("xyz"), gold) == match([], gold) == Match(0, 0, 0)


def test_majority_purity_looks_at_labelled_turns_only():
    """The textbook's example (Manning et al. 2008, figure 16.4): 12 of 17 are in a group of their class."""
    classes = {"x": frozenset("abcdefgh"), "o": frozenset("ijklm"), "d": frozenset("nopq")}
    clusters = groups("abcdei", "fjklmn", "ghopq" + "unlabelled".upper())
    assert majority(clusters, classes) == (12, 17)
    assert majority(groups("ab"), {"x": frozenset("abc")}) == (2, 2)


def test_k_means_finds_groups_that_lie_apart():
    """One seed gives one answer; a turn alone is no group; no more groups than turns."""
    rng = np.random.default_rng(0)
    vectors = np.asarray(np.repeat(np.eye(3), 5, axis=0) + 0.01 * rng.normal(size=(15, 3)), np.float32)
    ids = [f"t{row}" for row in range(15)]
    found = k_means(ids, vectors, 3, seed=0)
    assert set(found) == {frozenset(ids[start : start + 5]) for start in (0, 5, 10)}
    assert k_means(ids, vectors, 99, seed=0) == []
    assert set(k_means(ids, np.ones((15, 3), np.float32), 3, seed=0)) == {frozenset(ids)}


def way(purity, coverage):
    """K-means that scored so on one question."""
    return Scored("k-means", 2.0, (Match(purity, coverage, 0.5),), purity, 1.0)


def test_k_means_is_read_where_its_coverage_is_that_of_the_themes():
    """Between two neighbours on the curve; at its purest crossing; at its nearest end where it has none."""
    curve = [way(0.9, 0.2), way(0.7, 0.4), way(0.4, 0.8)]
    assert _at_coverage(curve, 0.5).mean == pytest.approx((0.625, 0.5, 0.5))
    assert _at_coverage([*curve, way(0.9, 0.4)], 0.5).mean.purity == pytest.approx(0.775)
    assert _at_coverage(curve, 0.95).mean == pytest.approx((0.4, 0.8, 0.5))
    assert _at_coverage(curve, 0.1).mean == pytest.approx((0.9, 0.2, 0.5))


def test_themes_are_scored_on_thematic_questions_beside_k_means(folder):
    """Questions of other categories or without evidence are left out; each measure is compared over users."""
    run = evaluate_themes(f"native:{folder}", Settings(), embedder=FakeEmbedder(256))
    assert run.questions == (("ada", "ada-q1"), ("ada", "ada-q2"), ("bo", "bo-q1"), ("bo", "bo-q2"))
    assert [one.name for one in run.ways] == ["themes", "k-means, equal coverage", "k-means, as many groups"]
    themes, equal, _ = run.ways
    assert themes.mean.purity > 0.9
    assert themes.grouped > 0.9
    assert equal.mean.coverage == pytest.approx(themes.mean.coverage, abs=0.05)
    assert [(one.measure, one.other) for one in run.against] == [("purity", equal.name), ("f1", run.ways[2].name)]
    assert all(one.verdict == "too few to tell" for one in run.against)
    document = json.loads(json.dumps(run.to_dict()))
    assert document["ways"]["themes"]["questions"]["bo-q2"]["purity"] == themes.matches[3].purity
    assert len(rows(run)) == 4
    page = markdown(run)
    assert "4 thematic questions of 2 users" in page
    assert page.count("| themes |") == 1
    assert "neuralstream eval-themes --dataset" in page


def test_a_set_without_thematic_questions_is_refused(folder, tmp_path):
    """The message says what is missing."""
    for part in ("conversations", "queries"):
        (tmp_path / part).mkdir()
    (tmp_path / "dataset.json").write_text(json.dumps({"name": "talk"}))
    (tmp_path / "conversations" / "ada.jsonl").write_text((folder / "conversations" / "ada.jsonl").read_text())
    with pytest.raises(DatasetError, match="no question of category 'thematic'"):
        evaluate_themes(f"native:{tmp_path}", Settings(), embedder=FakeEmbedder(256))
