import threading
from datetime import timedelta

from neuralstream import NeuralStream, Turn, worker
from neuralstream.testing import FakeEmbedder


class SlowEmbedder(FakeEmbedder):
    """Answers once it is told to, and knows what it was asked."""

    def __init__(self):
        super().__init__()
        self.go_on, self.began, self.asked = None, threading.Event(), []

    def embed_chunks(self, texts):
        self.asked += texts
        self.began.set()
        assert self.go_on.wait(30)
        return super().embed_chunks(texts)


def test_closing_waits_for_the_turns_in_hand_and_no_others(settings, monkeypatch):
    """Of many long turns that were taken together those embedded are kept; the next start indexes the rest."""
    monkeypatch.setattr(worker, "_CHARS_AT_ONCE", 100)
    embedder = SlowEmbedder()
    closing_at_once = settings.model_copy(update={"worker": "thread", "close_timeout": timedelta(0)})
    memory = NeuralStream(closing_at_once, embedder=embedder)
    embedder.go_on = memory.parts.worker._stop
    text = "The server listens on port 6381. " * 3
    turns = [Turn.exchange(f"{number} {text}", "Noted.", session_id="s1") for number in range(4)]
    assert memory.capture_all(turns) == 4
    assert embedder.began.wait(30)
    memory.close()
    assert all(f"0 {text}".strip() in asked for asked in embedder.asked)
    with NeuralStream(settings, embedder=FakeEmbedder()) as again:
        assert again.status().unindexed == 3
        again.flush()
        assert [turn.turn_id for turn in again.thread("s1")] == [turn.turn_id for turn in turns]
        assert len(again.search("which port does the server listen on?", mode="semantic", lane="turns")) == 4
