"""The `watch` command; what a watcher does is tested beside it."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from neuralstream import MissingPartError, NeuralStream, NeuralStreamClient, Settings, SettingsError
from neuralstream.cli.watch import _follow, _Follower
from neuralstream.serve.watch import Polled
from neuralstream.testing import FakeEmbedder, serving


@pytest.fixture
def quiet_log(log):
    """The log of seven exchanges, written long ago."""
    os.utime(log, (1, 1))
    return log


def test_one_look_captures_distils_and_says_so(cli, quiet_log):
    """A line for what was captured, one for what was distilled; the next look finds nothing new."""
    first = cli("watch", quiet_log, "--once")
    assert first.code == 0
    assert re.search(r"Z 1 logs\n.*Z 7 turns captured: s1 \+7\n.*Z 2 batches distilled, \+\d+ gems", first.out)
    assert "captured" not in cli("watch", quiet_log, "--once").out
    assert len(cli("thread", "s1", "--json").json) == 7


def test_everything_can_be_read_again(cli, quiet_log):
    """--again takes in what memory lacks, such as a session that was forgotten."""
    cli("watch", quiet_log, "--once")
    cli("forget", "--session", "s1", "--yes")
    assert "captured" not in cli("watch", quiet_log, "--once").out
    assert "7 turns captured" in cli("watch", quiet_log, "--once", "--again").out


def test_a_path_that_is_not_there_is_told(cli, tmp_path):
    """And what a log is called, where none was found: a misspelt path looks like a quiet one otherwise."""
    ran = cli("watch", tmp_path / "projcets", "--once")
    assert ran.code == 0
    assert f"there is no {tmp_path / 'projcets'}\n" in ran.err
    assert "no session logs are there yet; in folders they are called *.jsonl," in ran.err


@pytest.fixture
def served(tmp_path):
    """A memory that this process holds."""
    settings = Settings(home=tmp_path / "served", cache_dir=tmp_path / "cache", worker="inline")
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        yield opened


def test_a_service_is_sent_what_a_look_finds(cli, quiet_log, served):
    """It distils, its sessions are over, and this process opens no memory of its own."""
    with serving(served) as url:
        first = cli("watch", quiet_log, "--once", "--url", url)
        assert first.code == 0
        assert first.out.endswith("Z 7 turns captured: s1 +7\n")
        assert "captured" not in cli("watch", quiet_log, "--once", "--url", url).out
    assert len(served.thread("s1")) == 7
    assert served.status().undistilled == 0
    home = Settings.load().home
    assert [file.name for file in home.iterdir() if not file.name.startswith("watch.sqlite")] == []


def test_another_memory_is_not_sent_what_one_has_and_this_is_said(cli, quiet_log, served):
    """--again sends it."""
    cli("watch", quiet_log, "--once")
    with serving(served) as url:
        second = cli("watch", quiet_log, "--once", "--url", url)
        assert "captured" not in second.out
        assert "give --again once" in second.err
        again = cli("watch", quiet_log, "--once", "--again", "--url", url)
    assert "7 turns captured" in again.out
    assert "--again" not in again.err


def test_what_a_service_distilled_is_told(served, capsys, monkeypatch):
    """A line once its gems are more, as where this process distils; none while nothing changed."""
    monkeypatch.setattr("neuralstream.cli.watch._STATUS_SECONDS", 0.0)
    with serving(served) as url, NeuralStreamClient(url) as client:
        follower = _Follower(SimpleNamespace(poll=lambda **_: Polled()), None, client.user_status)
        follower.look()
        assert "distilled" not in capsys.readouterr().out
        client.remember("Redis listens on 6381.")
        follower.look()
        follower.look()
    assert capsys.readouterr().out.count("the service distilled: +1 gems; 0 turns wait, 0 dead letters") == 1


@pytest.fixture
def follow(monkeypatch):
    """Follow logs for some seconds, a look each, with a service that is away at some; when it was asked."""

    def run(seconds, away, error):
        now, asked, looks = [0.0], [], []
        monkeypatch.setattr("neuralstream.cli.watch.time", SimpleNamespace(monotonic=lambda: now[0]))

        def look(*, send):
            looks.append(now[0])
            if send:
                asked.append(int(now[0]))
                if now[0] in away:
                    raise error

        def pass_time():
            for second in range(seconds):
                now[0] = float(second)
                yield None

        _follow(SimpleNamespace(look=look), pass_time())
        assert len(looks) == seconds
        return asked

    return run


def test_a_service_that_is_down_is_waited_for_while_logs_are_read(follow):
    """Longer each time, but never for long; when it was there again, the next wait is short."""
    down = MissingPartError("the service does not answer")
    assert follow(14, {0, 1, 3, 8}, down) == [0, 1, 3, 7, 8, 9, 10, 11, 12, 13]
    assert follow(250, range(250), down)[-3:] == [123, 183, 243]


def test_what_does_not_mend_itself_is_not_waited_for(follow):
    """A wrong token ends the command."""
    with pytest.raises(SettingsError):
        follow(3, {1}, SettingsError("unknown token"))


def test_a_store_that_is_held_says_how_to_send_to_its_service(cli, quiet_log, served, monkeypatch):
    """Who holds it, and the command."""
    monkeypatch.setenv("NEURALSTREAM_HOME", str(served.settings.home))
    ran = cli("watch", quiet_log, "--once")
    assert ran.code == 3
    assert f"process {os.getpid()}" in ran.err
    assert "neuralstream watch --url http://127.0.0.1:7711" in ran.err


@pytest.mark.usefixtures("cli")
@pytest.mark.slow
def test_a_process_follows_a_folder_until_it_is_told_to_end(quiet_log, tmp_path):
    """What comes is captured while it runs; SIGTERM has the rest distilled, and is no failure."""
    folder = tmp_path / "logs"
    folder.mkdir()
    command = [sys.executable, "-m", "neuralstream", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline().endswith("Z 0 logs\n")
        quiet_log.rename(folder / "s1.jsonl")
        assert running.stdout.readline().endswith("Z 1 logs\n")
        assert running.stdout.readline().endswith("Z 7 turns captured: s1 +7\n")
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read().endswith("Z stopped\n")
        assert running.wait() == 0
