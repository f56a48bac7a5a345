"""The `watch` command; what a watcher does is tested beside it."""

import os
import re
import signal
import subprocess
import sys

import pytest


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
