"""`serve` as a user meets it: where it listens, and when it refuses to."""

import re
import signal
import subprocess
import sys

import pytest

from neuralstream import NeuralStreamClient, Turn


def test_beyond_this_machine_it_refuses_without_a_token(cli):
    """Exit 2 before anything is opened, and the message says what to do."""
    ran = cli("serve", "--host", "0.0.0.0")
    assert ran.code == 2
    assert "serve.tokens" in ran.err
    assert "openssl rand" in ran.err


def test_a_taken_port_is_an_error(cli):
    """Exit 1, and which address it was."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = cli("serve", "--port", taken.getsockname()[1])
    assert ran.code == 1
    assert "in use" in ran.err


@pytest.mark.slow
def test_it_serves_until_sigterm(tmp_path):
    """It says where it listens, answers with the packaged embedder, and ends with exit code 0."""
    command = [sys.executable, "-m", "neuralstream", "serve", "--port", "0", "--home", str(tmp_path / "home")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        url = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with NeuralStreamClient(url, timeout=120) as client:
            assert client.capture(Turn.exchange("Redis is on 6381.", "Noted.", session_id="s1", turn_id="t1"))
            assert [hit.id for hit in client.search("redis port", mode="semantic", lane="turns")] == ["t1"]
        process.send_signal(signal.SIGTERM)
        assert "stopped" in process.stderr.read()
    assert process.returncode == 0
