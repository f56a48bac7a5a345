"""A replay that is killed at random points, and run again, ends as one that was never disturbed."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid

import pytest

from neuralstream.testing import ScriptedChat, ScriptedOllama

SCRIPT = textwrap.dedent("""
    import json, sys
    from datetime import UTC, datetime, timedelta
    from pathlib import Path
    from neuralstream import NeuralStream, Settings, Turn
    from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor

    home, kind, out = sys.argv[1:]
    extractor = ScriptedExtractor() if kind == "improvising" else None
    start = datetime(2026, 1, 1, tzinfo=UTC)
    url = kind if kind.startswith("http") else None
    settings = Settings(
        home=Path(home), cache_dir=Path(home) / "cache", worker="inline", ollama_url=url, buffer={"lease": "10s"})
    with NeuralStream(settings, clock=FakeClock("2026-06-01"), embedder=FakeEmbedder(), extractor=extractor) as memory:
        print("open", flush=True)
        for session in range(4):
            for number in range(13):
                text = f"Decision {number} of project {session}: we use port {7000 + 100 * session + number} for Mira."
                memory.capture(Turn.exchange(
                    text, "Noted.", session_id=f"s{session}", turn_id=f"{session}-{number}",
                    created_at=start + timedelta(days=session, minutes=number)))
            memory.end_session(f"s{session}")
        memory.flush()
        turns = [hit.item.to_dict() for hit in memory.recent(1000)]
        gems = [gem.to_dict() for gem in memory.gems()]
        status = memory.status()._asdict()
        Path(out).write_text(json.dumps({"turns": turns, "gems": gems, "status": status}))
""")


def run(tmp_path, name, kind, kill_after=None, watch=None):
    """Run the replay, killing it after some seconds; its result where it finished. `watch` is told its process id."""
    out = tmp_path / f"{name}.json"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / name), kind, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if watch is not None:
            watch(process.pid)
        process.stdout.readline()
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        code = process.wait()
    assert kill_after is not None or watch is not None or code == 0
    return json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


def summary(result, kind):
    """What has to be equal: everything, but for the words of an extractor that never says the same twice."""
    gems = [{**gem, "gem_id": "", "content": ""} if kind == "improvising" else gem for gem in result["gems"]]
    key = lambda gem: json.dumps(gem, sort_keys=True)  # noqa: E731
    return result["turns"], sorted(gems, key=key), result["status"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["extractive", "improvising"])
def test_ten_kills_change_nothing(tmp_path, kind):
    """SIGKILL at ten random points, then one run to the end: the same turns and gems as undisturbed."""
    whole = time.monotonic()
    undisturbed = run(tmp_path, "undisturbed", kind)
    whole = time.monotonic() - whole
    rng = random.Random(20260301)
    for _ in range(10):
        # The time until "open" is start-up; what follows is capture, indexing and distilling.
        run(tmp_path, "killed", kind, kill_after=rng.uniform(0, whole / 3))
        (tmp_path / "killed.json").unlink(missing_ok=True)
    assert summary(run(tmp_path, "killed", kind), kind) == summary(undisturbed, kind)


def test_one_kill_changes_nothing(tmp_path):
    """SIGKILL in the middle with an extractor that answers differently each time: one set of gems, no turn lost."""
    undisturbed = run(tmp_path, "undisturbed", "improvising")
    run(tmp_path, "killed", "improvising", kill_after=0.15)
    (tmp_path / "killed.json").unlink(missing_ok=True)
    assert summary(run(tmp_path, "killed", "improvising"), "improvising") == summary(undisturbed, "improvising")


class Killer:
    """A model that answers differently each time, one gem for each turn, and kills who asks at the call it was told."""

    def __init__(self):
        self.answers = 0
        self._countdown = self._late = self._victim = None

    def arm(self, call, late=None):
        """Kill the next process at a call, counted from 1: so many seconds after the answer, or without one."""
        self._countdown, self._late = call, late

    def watch(self, pid):
        """The process to kill."""
        self._victim = pid

    def __call__(self, prompt):
        self.answers += 1
        if self._countdown is not None:
            self._countdown -= 1
            if self._countdown == 0:
                threading.Timer(self._late or 0, os.kill, (self._victim, signal.SIGKILL)).start()
                time.sleep(0.1 if self._late is None else 0)
        *_, numbers = re.findall(r"gems of turns ([\d, ]+) as JSON", prompt)
        gems = [
            {"source_turns": [int(number)], "content": f"{uuid.uuid4().hex} {uuid.uuid4().hex}", "tags": ["fact"]}
            for number in numbers.split(", ")
        ]
        return json.dumps({"gems": gems})


def check_one_set_of_gems(result):
    """Each turn is cited by one gem of its own batch's answer, and nothing waits or was given up."""
    cited = sorted(turn_id for gem in result["gems"] for turn_id in gem["source_turns"])
    assert cited == sorted(turn["turn_id"] for turn in result["turns"])
    assert len(cited) == 4 * 13
    assert {gem["prompt"] for gem in result["gems"]} == {"curator@1"}
    status = result["status"]
    assert (status["batches_waiting"], status["dead_letters"], status["undistilled"]) == (0, 0, 0)


def test_a_kill_during_a_model_s_answer_leaves_one_set_of_gems(tmp_path):
    """SIGKILL while the model is asked, then just after it answered; the answer that was written down is the one."""
    killer = Killer()
    with ScriptedOllama({"qwen3": ScriptedChat(killer)}) as server:
        for call, late in ((2, None), (3, 0.005)):
            killer.arm(call, late)
            assert run(tmp_path, "killed", server.url, watch=killer.watch) is None
        check_one_set_of_gems(run(tmp_path, "killed", server.url))
    assert killer.answers > 12


@pytest.mark.slow
def test_ten_kills_of_a_distilling_process_leave_one_set_of_gems(tmp_path):
    """SIGKILL at ten random calls, each at a random moment after the answer."""
    rng = random.Random(20260301)
    killer = Killer()
    with ScriptedOllama({"qwen3": ScriptedChat(killer)}) as server:
        for _ in range(10):
            killer.arm(rng.randint(1, 2), rng.uniform(0, 0.08))
            if run(tmp_path, "killed", server.url, watch=killer.watch):
                break
        (tmp_path / "killed.json").unlink(missing_ok=True)
        check_one_set_of_gems(run(tmp_path, "killed", server.url))
