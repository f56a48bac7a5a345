"""The running service: a host and searchers at once, and signals in the middle of it."""

import itertools
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from neuralstream import MissingPartError, NeuralStream, NeuralStreamClient, Turn, Usage
from neuralstream.extract.extractive import ExtractiveExtractor
from neuralstream.serve.metrics import Metrics, open_memory
from neuralstream.testing import FakeEmbedder, ScriptedExtractor, serving

START = datetime(2026, 3, 1, tzinfo=UTC)
SESSIONS, TURNS = 8, 25


def conversation():
    """200 turns of 8 sessions, one after another from each."""
    for number, session in itertools.product(range(TURNS), range(SESSIONS)):
        yield Turn.exchange(
            f"We decided that service {number} of project {session} listens on port {7000 + 100 * session + number}.",
            "Noted, I wrote it down.",
            session_id=f"s{session}",
            turn_id=f"s{session}-{number}",
            created_at=START + timedelta(days=session, minutes=number),
        )


def metrics_of(url):
    """Every metric's samples, by name and labels."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return {key: float(value) for key, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def total(samples, name):
    """The sum over a metric's labels."""
    return sum(value for key, value in samples.items() if key == name or key.startswith(f"{name}{{"))


def session_of(gem):
    """The session of each source turn."""
    return [turn_id.split("-")[0] for turn_id in gem.source_turns]


def p99(seconds):
    """The 99th percentile."""
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def test_captures_do_not_wait_for_distilling(settings):
    """While a batch is being distilled, turns are kept, found and counted."""
    begun, go_on = threading.Event(), threading.Event()

    def script(_batch):
        begun.set()
        go_on.wait(60)
        return ()

    settings = settings.model_copy(update={"worker": "thread"})
    with (
        NeuralStream(settings, embedder=FakeEmbedder(), extractor=ScriptedExtractor(script)) as memory,
        serving(memory) as url,
        NeuralStreamClient(url) as client,
    ):
        turns = list(conversation())
        try:
            client.capture_all(turn for turn in turns if turn.session_id == "s0")
            assert begun.wait(60)
            others = [turn for turn in turns if turn.session_id == "s1"]
            assert all(client.capture(turn) for turn in others)
            assert {hit.id for hit in client.recent(1000)} == {
                turn.turn_id for turn in turns if turn.session_id in ("s0", "s1")
            }
            assert metrics_of(url)["neuralstream_batches_done"] == 0
        finally:
            go_on.set()


@pytest.mark.slow
def test_a_host_and_two_searchers(settings, record_property):
    """200 turns with usage while two clients search: all found, gems of their own session, metrics that add up."""
    settings = settings.model_copy(update={"worker": "thread"})
    metrics = Metrics()
    with (
        open_memory(
            settings, metrics, embedder=FakeEmbedder(), extractor=ExtractiveExtractor(settings.extract)
        ) as memory,
        serving(memory, metrics=metrics) as url,
        NeuralStreamClient(url) as host,
    ):
        over = threading.Event()
        searched = [0, 0]

        def search(number):
            with NeuralStreamClient(url) as client:
                while not over.is_set():
                    client.search(f"port of service {searched[number] % TURNS}", mode="bm25")
                    searched[number] += 1

        searchers = [threading.Thread(target=search, args=(number,)) for number in range(2)]
        for thread in searchers:
            thread.start()
        sent, took = list(conversation()), []
        for turn in sent:
            began = time.perf_counter()
            assert host.capture(turn)
            took.append(time.perf_counter() - began)
            number = int(turn.turn_id.split("-")[1])
            host.turn_end(turn.session_id, Usage(percent=30 + number), turn_id=turn.turn_id)
        for session in range(SESSIONS):
            host.end_session(f"s{session}")
        over.set()
        for thread in searchers:
            thread.join()
        memory.flush(120)

        assert {hit.id for hit in host.recent(1000)} == {turn.turn_id for turn in sent}
        gems = host.gems(status=None, limit=1000)
        assert gems
        assert all(set(session_of(gem)) == {gem.source.session_id} for gem in gems)
        samples = metrics_of(url)
        assert total(samples, "neuralstream_turns_captured_total") == len(sent)
        assert total(samples, "neuralstream_batches_total") == samples["neuralstream_batches_done"]
        assert samples['neuralstream_batches_total{result="distilled",trigger="context"}'] == SESSIONS
        assert samples['neuralstream_stored{kind="turns"}'] == len(sent)
        assert total(samples, "neuralstream_lag_turns") == 0
        assert samples['neuralstream_query_seconds_count{mode="bm25"}'] == sum(searched) > 0
        assert samples["neuralstream_capture_seconds_count"] == len(sent)

        # Now nothing is distilled and nobody searches. All share one interpreter here, hence the wide margin.
        idle = []
        for number in range(len(sent)):
            began = time.perf_counter()
            host.capture(Turn.exchange("Tea?", "Yes.", session_id=f"idle{number}", turn_id=f"idle-{number}"))
            idle.append(time.perf_counter() - began)
        record_property("figure", f"p99 of capture {p99(took) * 1e3:.0f} ms, {p99(idle) * 1e3:.0f} ms at rest")
        assert p99(took) < max(20 * p99(idle), 10), (p99(took), p99(idle))


SERVICE = textwrap.dedent("""
    import sys
    from pathlib import Path
    from neuralstream import Settings
    from neuralstream.serve.lifecycle import serve
    from neuralstream.testing import FakeEmbedder, ScriptedExtractor

    settings = Settings(home=Path(sys.argv[1]), cache_dir=Path(sys.argv[1]) / "cache", serve={"port": 0})
    serve(settings, say=lambda line: print(line, flush=True), embedder=FakeEmbedder(), extractor=ScriptedExtractor())
""")


class Service:
    """A service in a process of its own, whose extractor never says the same twice, or as the script has it."""

    def __init__(self, home, script=SERVICE):
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        line = self.process.stdout.readline()
        self.url = re.search(r"http://\S+", line)[0]

    def end(self, number):
        """Send a signal; what it still said, and its exit code."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=120)
        return said, self.process.returncode


def settled(client, url):
    """Wait until nothing is left to distil."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        samples = metrics_of(url)
        if samples["neuralstream_batches_waiting"] == 0 == total(samples, "neuralstream_lag_turns"):
            return samples
        client.search("anything", mode="substring")
    raise AssertionError("the service did not come to rest")


def test_sigterm_distils_the_tail_and_ends_well(tmp_path):
    """What was captured and not due yet is distilled before the process ends, with exit code 0."""
    service = Service(tmp_path / "home")
    with NeuralStreamClient(service.url) as client:
        assert client.capture_all(itertools.islice(conversation(), 3)) == 3
    said, code = service.end(signal.SIGTERM)
    assert code == 0
    assert "stopped" in said
    service = Service(tmp_path / "home")
    try:
        with NeuralStreamClient(service.url) as client:
            assert sorted(turn_id for gem in client.gems(status=None) for turn_id in gem.source_turns) == [
                "s0-0", "s1-0", "s2-0"
            ]  # fmt: skip
            assert {hit.id for hit in client.recent()} == {"s0-0", "s1-0", "s2-0"}
    finally:
        service.end(signal.SIGTERM)


@pytest.mark.slow
def test_a_second_signal_ends_the_distilling_at_once_and_loses_nothing(tmp_path):
    """While a model hangs over what is left, SIGTERM once more ends the process; the turn waits for the next one."""
    hangs = "ScriptedExtractor(lambda _: __import__('threading').Event().wait())"
    service = Service(tmp_path / "home", SERVICE.replace("ScriptedExtractor())", f"{hangs})"))
    with NeuralStreamClient(service.url) as client:
        client.capture(next(conversation()))
    service.process.send_signal(signal.SIGTERM)
    assert any(line.startswith("closing") for line in service.process.stdout)
    assert service.end(signal.SIGTERM) == ("", -signal.SIGTERM)
    service = Service(tmp_path / "home")
    with NeuralStreamClient(service.url) as client:
        assert [hit.id for hit in client.recent()] == ["s0-0"]
    assert service.end(signal.SIGTERM)[1] == 0


class Host(threading.Thread):
    """Sends every turn until it is acknowledged, to the next service where one is gone."""

    def __init__(self, service):
        super().__init__()
        self.services = queue.Queue()
        self.services.put(service)
        self.acknowledged = 0
        self.failed = None

    def run(self):
        try:
            self.send_all()
        except Exception as error:  # noqa: BLE001 - the test tells it
            self.failed = error

    def send_all(self):
        turns = list(conversation())
        while self.acknowledged < len(turns):
            service = self.services.get(timeout=120)
            with NeuralStreamClient(service.url, timeout=120) as client, suppress(MissingPartError):
                for turn in turns[self.acknowledged :]:
                    client.capture(turn)
                    self.acknowledged += 1


@pytest.mark.slow
def test_signals_in_the_middle_lose_and_double_nothing(tmp_path):
    """SIGKILL, SIGTERM and SIGKILL again while a host sends: every turn is there once, and is distilled once."""
    sent = sorted(turn.turn_id for turn in conversation())
    service = Service(tmp_path / "home")
    host = Host(service)
    host.start()
    for count, number in ((40, signal.SIGKILL), (90, signal.SIGTERM), (140, signal.SIGKILL)):
        while host.acknowledged < count and host.is_alive():
            host.join(0.01)
        service.end(number)
        service = Service(tmp_path / "home")
        host.services.put(service)
    host.join()
    assert host.failed is None
    with NeuralStreamClient(service.url) as client:
        for session in range(SESSIONS):
            client.end_session(f"s{session}")
        samples = settled(client, service.url)
        found = [hit.id for hit in client.recent(1000)]
        gems = client.gems(status=None, limit=1000)
    assert service.end(signal.SIGTERM)[1] == 0
    assert sorted(found) == sent
    assert samples['neuralstream_stored{kind="turns"}'] == len(sent)
    assert sorted(turn_id for gem in gems for turn_id in gem.source_turns) == sent
    assert all(set(session_of(gem)) == {gem.source.session_id} for gem in gems)
