"""The `worker` command; how work is shared is tested beside the buffer."""

import signal
import threading
import time

import pytest

from neuralstream import NeuralStream, Settings, Turn
from neuralstream.testing import FakeEmbedder


@pytest.fixture
def _signals_restored():
    """As they were before the command took them."""
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def test_beside_an_embedded_store_there_is_no_worker(cli):
    """Exit 2, and what to set."""
    ran = cli("worker")
    assert ran.code == 2
    assert "set qdrant_url" in ran.err


@pytest.mark.usefixtures("_signals_restored")
def test_it_does_what_others_left_until_it_is_told_to_end(cli, monkeypatch):
    """What was captured by a process that does not work is distilled; SIGTERM is no failure."""
    monkeypatch.setenv("NEURALSTREAM_QDRANT_URL", ":memory:")
    with NeuralStream(Settings.load(worker="none"), embedder=FakeEmbedder()) as other:
        for number in range(5):
            other.capture(Turn.exchange(f"We decided on port 700{number}.", "Noted.", session_id="s1"))
        assert (other.status().unindexed, other.status().batches_waiting) == (5, 1)

        def end_once_done():
            while other.status().unindexed or other.status().batches_waiting:
                time.sleep(0.05)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

        ending = threading.Thread(target=end_once_done, daemon=True)
        ending.start()
        ran = cli("worker")
        ending.join()
        assert other.status().batches_done == 1
    assert ran.code == 0
    assert "working on the buffer at embedded Valkey" in ran.err
    assert ran.err.endswith("stopped\n")
