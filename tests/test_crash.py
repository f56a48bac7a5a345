"""A replay that is killed at random points, and run again, ends as one that was never disturbed."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

SCRIPT = textwrap.dedent("""
    import json, sys
    from datetime import UTC, datetime, timedelta
    from pathlib import Path
    from neuralstream import NeuralStream, Settings, Turn
    from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor

    home, kind, out = sys.argv[1:]
    extractor = ScriptedExtractor() if kind == "improvising" else None
    start = datetime(2026, 1, 1, tzinfo=UTC)
    settings = Settings(home=Path(home), cache_dir=Path(home) / "cache", worker="inline")
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


def run(tmp_path, name, kind, kill_after=None):
    """Run the replay, killing it after some seconds; its result where it finished."""
    out = tmp_path / f"{name}.json"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / name), kind, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        code = process.wait()
    assert kill_after is not None or code == 0
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
