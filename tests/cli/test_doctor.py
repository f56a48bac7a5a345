from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from neuralstream.cli import doctor
from neuralstream.config import Settings
from neuralstream.errors import MissingPartError
from neuralstream.llm.cassette import Cassette, Recording
from neuralstream.testing import ScriptedChat, ScriptedOllama, ScriptedOpenAI

PARTS = ["settings", "data folder", "buffer", "store", "embedder", "extractor", "gem model"]


def test_doctor_looks_at_every_part(cli):
    """Every part is named with what it is and its version; all good is exit code 0."""
    ran = cli("doctor")
    assert ran.code == 0
    rows = {row["part"]: row for row in ran.rows}
    assert list(rows) == PARTS
    assert {row["state"] for row in rows.values()} == {"ok"}
    assert rows["buffer"]["version"].startswith("Valkey")
    assert rows["store"]["version"]


def test_doctor_leaves_nothing_behind(cli, tmp_path):
    """Looking does not make the data folder."""
    assert cli("doctor").code == 0
    assert not (tmp_path / "home").exists()


def test_doctor_names_what_is_down(cli):
    """A part that does not answer is reported with what to do, the others still are, and the exit code is 3."""
    ran = cli("doctor", "--set", "redis_url=redis://:hunter2@127.0.0.1:1/0", "--json")
    assert ran.code == 3
    found = {part["part"]: part for part in ran.json}
    assert list(found) == PARTS
    assert not found["buffer"]["ok"]
    assert "127.0.0.1:1" in found["buffer"]["detail"]
    assert "hunter2" not in ran.out
    assert found["store"]["ok"]


def test_doctor_names_a_data_folder_that_is_none(cli, tmp_path):
    """A data folder that cannot be one is reported, and every other part still is."""
    (tmp_path / "home").write_text("a file")
    ran = cli("doctor", "--json")
    assert ran.code == 3
    found = {part["part"]: part for part in ran.json}
    assert not found["data folder"]["ok"]
    assert "set home" in found["data folder"]["detail"]
    assert found["embedder"]["ok"]


def test_doctor_says_who_holds_the_store(memory):
    """A store that another process owns is reported as such."""
    from neuralstream import NeuralStream, Settings

    with NeuralStream(Settings.load(worker="inline")):
        ran = memory("doctor", "--json")
    assert ran.code == 3
    assert "process" in {part["part"]: part for part in ran.json}["store"]["detail"]


class Told(BaseHTTPRequestHandler):
    """A server that tells its version to whoever has the key."""

    def do_GET(self):
        self.send_response(200 if self.headers.get("api-key") == "right" else 401)
        self.end_headers()
        self.wfile.write(b'{"version": "1.20.1"}')

    def log_message(self, *_arguments):
        pass


def test_servers_tell_their_version():
    """A server is asked for its version with its key; one that refuses is down, and its address shows no secret."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Told) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://ada:hunter2@127.0.0.1:{server.server_port}"
        assert doctor._server("Qdrant", address, "/", {"api-key": "right"}) == ("Qdrant at 127.0.0.1", "Qdrant 1.20.1")
        with pytest.raises(MissingPartError) as refused:
            doctor._server("Qdrant", address, "/")
        server.shutdown()
    assert "hunter2" not in str(refused.value)


def test_doctor_says_what_overrides_the_file(cli, tmp_path, monkeypatch):
    """A variable that overrides a value of the file is named."""
    (tmp_path / "neuralstream.toml").write_text("batch_size = 3\n")
    monkeypatch.setenv("NEURALSTREAM_BATCH_SIZE", "4")
    settings = cli("doctor", "--json").json[0]["what"]
    assert "neuralstream.toml" in settings
    assert "environment overrides batch_size" in settings


def test_config_show_says_where_values_come_from(cli, tmp_path, monkeypatch):
    """Each setting has its value and its origin; the highest layer wins."""
    file = tmp_path / "mine.toml"
    file.write_text('batch_size = 3\ncontext_threshold = 44\n[retrieval]\nmode = "bm25"\n')
    monkeypatch.setenv("NEURALSTREAM_BATCH_SIZE", "4")
    shown = cli("config", "show", "--config", file, "--set", "retrieval.k=9", "--user", "ada", "--json").json
    assert shown["batch_size"] == {"value": 4, "from": "environment"}
    assert shown["context_threshold"] == {"value": 44.0, "from": str(file)}
    assert shown["retrieval.mode"] == {"value": "bm25", "from": str(file)}
    assert shown["retrieval.k"] == {"value": 9, "from": "arguments"}
    assert shown["user_id"] == {"value": "ada", "from": "arguments"}
    assert shown["max_gems_injected"] == {"value": 10, "from": "default"}


def test_config_show_masks_secrets(cli, monkeypatch):
    """Neither addresses with passwords nor keys are printed."""
    monkeypatch.setenv("NEURALSTREAM_REDIS_URL", "redis://:hunter2@host")
    ran = cli("config", "show", "--set", "qdrant_api_key=hunter2")
    assert ran.code == 0
    assert "hunter2" not in ran.out + ran.err
    assert {row["setting"]: row["from"] for row in ran.rows}["qdrant_api_key"] == "arguments"


@pytest.mark.parametrize("text", ["batch_size=0", "batch_size", "nonsense=1"])
def test_wrong_settings_are_wrong_use(cli, text):
    """A setting that cannot be is a line on stderr and exit code 2."""
    ran = cli("config", "show", "--set", text)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1


def gem_model(**settings):
    """What doctor says of the gem model."""
    return doctor._look("gem model", lambda: doctor._gem_model_part(Settings(**settings)))


def test_doctor_looks_at_the_gem_model():
    """Its server, its context and whether it thinks; one that is not there is down, with what to do."""
    with ScriptedOllama({"qwen3": ScriptedChat(capabilities=["thinking"])}, context_length=4096) as server:
        found = gem_model(ollama_url=server.url)
        assert found.ok
        assert found.what == f"qwen3 at Ollama at {server.url}, 4096 tokens of context of 4096, thinks"
        assert server.asked("/api/chat") == []
        missing = gem_model(ollama_url=server.url, gem_model="other")
        assert not missing.ok
        assert "ollama pull other" in missing.detail
    assert "no Ollama server" in gem_model(ollama_url=server.url, llm={"tries": 1}).detail


def test_doctor_looks_at_an_openai_compatible_model():
    """The same, and names the models that are there."""
    with ScriptedOpenAI({"here": ScriptedChat()}) as server:
        assert "8192 tokens of context of 8192" in gem_model(openai_url=server.url, gem_model="here").what
        assert "one of here" in gem_model(openai_url=server.url).detail


def test_doctor_names_the_cassette(tmp_path):
    """How many answers it has, whether it is recorded or replayed; without a model, what to set."""
    path = tmp_path / "a.jsonl"
    Cassette(path).add(Recording("k", "qwen3", {}, {}, "[]", "stop"))
    replayed = gem_model(llm={"mode": "replay", "cassette": path})
    assert replayed.what == f"qwen3, replayed from {path} with 1 answers"
    with ScriptedOllama() as server:
        recorded = gem_model(ollama_url=server.url, llm={"mode": "record", "cassette": path})
        assert recorded.what.endswith(f"does not think, recorded on {path} with 1 answers")
    assert "set ollama_url" in gem_model().what
