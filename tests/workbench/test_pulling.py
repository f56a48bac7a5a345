import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from neuralstream.errors import DatasetError, MissingPartError
from neuralstream.workbench.pulling import PUBLIC_SETS, PublicSet, public_set, pull

BODY = b'[{"sample_id": "x"}]' * 1000


@pytest.fixture
def publisher():
    """A server that publishes one file, told what to answer; it counts how often it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked += 1
            if self.path == "/old.json":
                self.send_response(302)
                self.send_header("location", "/set.json")
                self.end_headers()
                return
            self.send_response(server.status)
            self.send_header("content-length", str(len(server.body) + server.missing))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.status, server.body, server.missing = 0, 200, BODY, 0
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def published(server, path="/set.json"):
    """The set that the server publishes."""
    return PublicSet("a-set", "locomo", f"http://127.0.0.1:{server.server_port}{path}", "MIT", "none", "Somebody")


def test_a_set_is_downloaded_once_with_its_checksum_beside_it(publisher, tmp_path):
    """The second call reads what is there; `sha256sum -c` can read the record."""
    first = pull(published(publisher), tmp_path)
    digest = hashlib.sha256(BODY).hexdigest()
    assert first == (f"locomo:{tmp_path / 'set.json'}", digest, True)
    assert (tmp_path / "set.json").read_bytes() == BODY
    assert (tmp_path / "set.json.sha256").read_text() == f"{digest}  set.json\n"
    assert pull(published(publisher), tmp_path) == first._replace(downloaded=False)
    assert publisher.asked == 1


def test_redirects_are_followed(publisher, tmp_path):
    """As the hubs that hold large files do."""
    assert pull(published(publisher, "/old.json"), tmp_path).downloaded


def test_a_damaged_file_is_noticed(publisher, tmp_path):
    """What lies there is not what was downloaded."""
    pull(published(publisher), tmp_path)
    (tmp_path / "set.json").write_bytes(BODY[:-1])
    with pytest.raises(DatasetError, match="damaged"):
        pull(published(publisher), tmp_path)


def test_another_version_is_not_taken_for_the_first(publisher, tmp_path):
    """Not before the record of the first is removed; the file is not put in place."""
    pull(published(publisher), tmp_path)
    (tmp_path / "set.json").unlink()
    publisher.body = BODY + b" "
    with pytest.raises(DatasetError, match="publisher changed it"):
        pull(published(publisher), tmp_path)
    assert not (tmp_path / "set.json").exists()
    (tmp_path / "set.json.sha256").unlink()
    assert pull(published(publisher), tmp_path).downloaded


@pytest.mark.parametrize("fault", ["gone", "torn", "unreachable"])
def test_what_cannot_be_downloaded_is_a_missing_part(publisher, tmp_path, fault):
    """The message says where to put the file by hand, and nothing half done stays."""
    public = published(publisher)
    if fault == "gone":
        publisher.status = 404
    elif fault == "torn":
        publisher.missing = 10
    else:
        public = public._replace(url="http://127.0.0.1:9/set.json")
    with pytest.raises(MissingPartError, match=r"put the file at .*set\.json yourself"):
        pull(public, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_public_sets_are_known_by_name():
    """Each with its licence; another name is refused with those there are."""
    assert {one.licence for one in PUBLIC_SETS} == {"CC-BY-NC-4.0", "MIT"}
    assert public_set("locomo").file == "locomo10.json"
    with pytest.raises(DatasetError, match="locomo, longmemeval"):
        public_set("imagenet")
