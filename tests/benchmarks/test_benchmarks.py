from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.corpus import TopicEmbedder, questions, turns


def test_a_tiny_run_prints_every_row(tmp_path, capsys):
    """Every subject is filled and asked at every size, and the report is what was printed."""
    out = tmp_path / "report.md"
    main(["--turns", "100", "200", "--questions", "3", "--folder", str(tmp_path), "--out", str(out)])
    printed = capsys.readouterr().out
    assert out.read_text() in printed
    for size in (100, 200):
        for subject in (
            "NeuralStream hybrid",
            "the engine's fusion",
            "the engine's fusion, as it comes",
            "NeuralStream hybrid on :memory:",
            "rank_bm25",
            "bm25s",
        ):
            assert f"| {size} | {subject} |" in out.read_text()
    assert "| NeuralStream hybrid | 100 → 200 | 2 |" in out.read_text()
    assert list(tmp_path.iterdir()) == [out]


def test_conversations_are_the_same_every_time():
    """A longer log begins as a shorter one does, and questions are about what was said in it."""
    assert list(turns(90)) == list(islice(turns(300), 90))
    assert questions(90, 5) == questions(90, 5)
    topics = {turn.text.rpartition(" ")[2] for turn in turns(90)}
    assert {question.rstrip("?").rpartition(" ")[2] for question in questions(90, 20)} <= topics


def test_vectors_of_a_topic_are_near():
    """Turns of one conversation are nearer to each other than to another's."""
    vectors = TopicEmbedder().embed_documents([turn.text for turn in turns(80)])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(80), abs=1e-6)
    same, other = vectors[:40] @ vectors[:40].T, vectors[:40] @ vectors[40:].T
    assert same.min() > other.max()
