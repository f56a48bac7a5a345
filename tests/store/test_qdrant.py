from __future__ import annotations

import json
import socket
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from neuralstream.config import Settings
from neuralstream.errors import MissingPartError, StoreError
from neuralstream.store import open_store, rebuilding
from neuralstream.store.base import Fingerprint, Where
from neuralstream.store.schema import TURNS

FINGERPRINT = Fingerprint("tiny", "0123456789abcdef", 8, "english-1")


def test_each_memory_store_is_its_own(make):
    """Two stores in memory share nothing, and a closed one says that it is closed."""
    settings = Settings(qdrant_url=":memory:")
    with closing(open_store(settings, FINGERPRINT)) as one, closing(open_store(settings, FINGERPRINT)) as two:
        one.upsert(TURNS, [make("ann", 0)])
        assert (one.count(TURNS, Where("ann")), two.count(TURNS, Where("ann"))) == (1, 0)
        one.close()
        with pytest.raises(StoreError, match="closed"):
            one.count(TURNS, Where("ann"))


def test_purging_says_what_is_out_of_reach():
    """A store without a disk of ours says so."""
    with closing(open_store(Settings(qdrant_url=":memory:"), FINGERPRINT)) as store:
        assert "no disk" in store.purge()


def test_a_store_in_memory_cannot_be_rebuilt():
    """It starts empty, so there is nothing to carry over."""
    with (
        pytest.raises(StoreError, match="qdrant_url"),
        rebuilding(Settings(qdrant_url=":memory:"), FINGERPRINT),
    ):
        pass


def test_a_server_that_is_down_is_named_without_secrets():
    """The message has the address and the timeout, and no password."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = Settings(qdrant_url=f"http://ann:hunter2@127.0.0.1:{port}", store_timeout="7s")
    with pytest.raises(MissingPartError, match=rf"http://127\.0\.0\.1:{port} \(timeout 7 s\)") as caught:
        open_store(settings, FINGERPRINT)
    assert "hunter2" not in str(caught.value)


def test_a_silent_server_is_given_up_after_the_timeout():
    """A server that accepts and never answers is reported, not waited for."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        settings = Settings(qdrant_url=f"http://127.0.0.1:{silent.getsockname()[1]}", store_timeout="1s")
        with pytest.raises(MissingPartError, match=r"timed out.*store_timeout"):
            open_store(settings, FINGERPRINT)


@pytest.mark.parametrize("version", ["1.19.3", "0.11.0", "1.9.0-dev"])
def test_an_older_server_is_refused(version):
    """The message has the version found and the one needed."""
    answers = {"/": (200, {"title": "qdrant", "version": version})}
    with _answering(answers) as url, pytest.raises(MissingPartError, match=rf"version {version}; 1\.20"):
        open_store(Settings(qdrant_url=url), FINGERPRINT)


def test_a_refusal_is_passed_on():
    """What the server says when it refuses reaches the reader."""
    refusal = {"status": {"error": "Forbidden: invalid api-key"}, "time": 0}
    answers = {"/": (200, {"title": "qdrant", "version": "1.21.0"})}
    with _answering(answers, (403, refusal)) as url, pytest.raises(StoreError, match="invalid api-key"):
        open_store(Settings(qdrant_url=url), FINGERPRINT)


@contextmanager
def _answering(answers, otherwise=(404, {})):
    """The URL of a server that gives these JSON answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers.get(self.path, otherwise)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
