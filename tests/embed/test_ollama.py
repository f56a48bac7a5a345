import numpy as np
import pytest

from neuralstream.config import EmbedSettings
from neuralstream.embed.ollama import OllamaEmbedder
from neuralstream.errors import EmbeddingError, MissingPartError
from neuralstream.testing import FakeEmbedder, OllamaReply, ScriptedOllama

MODEL = "snowflake-arctic-embed2"


@pytest.fixture
def server():
    """A scripted server."""
    with ScriptedOllama() as running:
        yield running


@pytest.fixture
def connect(server):
    """Open embedders on the server; pauses between tries are recorded, not slept."""
    opened = []

    def open_embedder(model=MODEL, url=None, **settings):
        pauses = []
        embedder = OllamaEmbedder(url or server.url, model, EmbedSettings(**settings), sleep=pauses.append)
        opened.append(embedder)
        return embedder, pauses

    yield open_embedder
    for embedder in opened:
        embedder.close()


def inputs(server):
    """Every text the server was given, probe left out."""
    return [text for request in server.asked("/api/embed") for text in request.body["input"] if text != "dimension"]


def test_every_request_says_how_to_embed(server, connect):
    """The context size is always named, cutting is off, and the model is kept loaded."""
    connect(num_ctx=2048)[0].embed_documents(["a"])
    for request in server.asked("/api/embed"):
        assert request.body["options"] == {"num_ctx": 2048}
        assert request.body["truncate"] is False
        assert request.body["keep_alive"]


def test_queries_alone_carry_the_prefix(server, connect):
    """Arctic's `query: ` stands before questions only; a setting overrides it, an empty one switches it off."""
    embedder, _ = connect()
    embedder.embed_documents(["text"])
    embedder.embed_query("question")
    connect(query_prefix="ask: ")[0].embed_query("question")
    connect(query_prefix="")[0].embed_query("question")
    assert inputs(server) == ["text", "query: question", "ask: question", "question"]


def test_other_models_have_prefixes_of_their_own(server, connect):
    """The table is by name, whatever namespace and tag."""
    server.models["someone/nomic-embed-text:v1.5"] = FakeEmbedder()
    embedder, _ = connect("someone/nomic-embed-text:v1.5")
    embedder.embed_documents(["text"])
    embedder.embed_query("question")
    assert inputs(server) == ["search_document: text", "search_query: question"]


def test_texts_go_in_batches(server, connect):
    """`batch_size` texts make one request, and rows come back in order."""
    texts = [f"note {number}" for number in range(10)]
    vectors = connect(batch_size=4)[0].embed_documents(texts)
    assert [len(request.body["input"]) for request in server.asked("/api/embed")][-3:] == [4, 4, 2]
    assert np.allclose(vectors, FakeEmbedder().embed_documents(texts), atol=1e-6)


def test_the_digest_is_the_servers(server, connect):
    """Digest and width come from the server; another way of cutting is another digest."""
    assert connect()[0].digest == server.models[MODEL].digest
    assert connect()[0].dim == 64
    assert connect(num_ctx=512)[0].digest != server.models[MODEL].digest


def test_long_texts_are_cut_to_fit_the_models_own_context(server, connect):
    """A model that holds less than num_ctx gets shorter chunks at once; neighbours overlap."""
    server.context_length = 128
    text = " ".join(f"word{number}" for number in range(200))
    connect()[0].embed_documents([text])
    chunks = inputs(server)
    assert len(chunks) > 4
    assert all(len(chunk) <= 128 * 4 for chunk in chunks)
    assert chunks[0].startswith("word0 ")
    assert chunks[-1].endswith(" word199")
    assert chunks[1][:20] in chunks[0]


def test_a_chunk_the_server_refuses_is_halved(server, connect):
    """Where the estimate was too low, halves become chunks of their own, and other texts of the batch are unharmed."""

    def refuse(request):
        if any(len(text) > 300 for text in request.body["input"]):
            return OllamaReply.error("the input length exceeds the context length", 400)
        return None

    server.script("/api/embed", refuse)
    text = "redis port lake sunrise " * 40
    short, long = connect()[0].embed_chunks(["short", text])
    assert np.allclose(short, FakeEmbedder().embed_query("short"), atol=1e-6)
    assert len(long) == 8
    assert (long @ FakeEmbedder().embed_query(text)).min() > 0.9


def test_a_large_context_is_not_filled_with_one_chunk(server, connect):
    """A text of several subjects gets a vector for every 512 tokens, or as many as `embed.chunk_tokens` says."""
    text = "redis port lake sunrise " * 600
    connect()[0].embed_chunks([text])
    assert {len(chunk) > 512 * 4 for chunk in inputs(server)} == {False}
    server.requests.clear()
    assert [len(rows) for rows in connect(chunk_tokens=6000)[0].embed_chunks([text])] == [1]


def test_a_model_that_refuses_everything_is_an_error(server, connect):
    """Halving ends, with an embedding error."""
    embedder, _ = connect()
    assert embedder.dim
    server.script("/api/embed", lambda _: OllamaReply.error("the input length exceeds the context length", 500))
    with pytest.raises(EmbeddingError, match="refuses"):
        embedder.embed_documents(["word " * 200])


@pytest.mark.parametrize(
    "fault", [OllamaReply(drop=True), OllamaReply.error("loading model", 503)], ids=["drop", "503"]
)
def test_a_transport_fault_is_tried_again(server, connect, fault):
    """Two faults are outlasted, with growing pauses."""
    embedder, pauses = connect()
    server.script("/api/embed", [fault, fault])
    assert embedder.dim == 64
    assert pauses == [0.5, 1.0]


def test_tries_are_few(server, connect):
    """A server that keeps dropping the connection is reported as missing."""
    server.script("/api/embed", lambda _: OllamaReply(drop=True))
    with pytest.raises(MissingPartError, match="no Ollama server answers"):
        connect()[0].embed_query("x")
    assert len(server.asked("/api/embed")) == 3


def test_a_refusal_is_not_tried_again(server, connect):
    """What the server refuses for good is reported with its words."""
    server.script("/api/embed", lambda _: OllamaReply.error("this model does not support embeddings", 501))
    embedder, pauses = connect()
    with pytest.raises(EmbeddingError, match=r"501.*does not support embeddings"):
        embedder.embed_query("x")
    assert pauses == []


def test_a_slow_server_runs_into_the_timeout(server, connect):
    """The timeout is the setting's, and the message names the setting."""
    server.script("/api/embed", lambda _: OllamaReply(delay=30))
    with pytest.raises(MissingPartError, match=r"within 0\.2 s; raise embed\.timeout"):
        connect(timeout="0.2s")[0].embed_query("x")


def test_a_model_that_is_not_there_names_the_pull_command(connect):
    """Both a question and the digest say what to pull."""
    with pytest.raises(MissingPartError, match="run `ollama pull other`"):
        connect("other")[0].embed_query("x")
    with pytest.raises(MissingPartError, match="run `ollama pull other`"):
        _ = connect("other")[0].digest


def test_an_unreachable_server_is_named_without_its_password(connect):
    """The message names the address to look at, and no credentials."""
    embedder, _ = connect(url="http://anna:s3cret@127.0.0.1:9")
    with pytest.raises(MissingPartError, match=r"http://127\.0\.0\.1:9 ") as caught:
        embedder.embed_query("x")
    assert "s3cret" not in str(caught.value)


def test_credentials_of_the_address_are_sent(server, connect):
    """User and password of the URL become basic authentication."""
    embedder, _ = connect(url=server.url.replace("://", "://anna:s3%40cret@"))
    assert embedder.dim == 64
    assert server.requests[0].headers["authorization"] == "Basic YW5uYTpzM0BjcmV0"


@pytest.mark.parametrize(
    "embeddings",
    [[[0.0] * 64], [[1.0] * 64, [1.0] * 64], [], [[None] * 64], [[float("nan")] * 64], [[1.0], [1.0, 2.0]], "text"],
    ids=["zero", "too-many", "none", "null", "nan", "ragged", "text"],
)
def test_what_is_no_embedding_is_refused(server, connect, embeddings):
    """Zero vectors, NaN, wrong shapes and other answers never get through."""
    embedder, _ = connect()
    assert embedder.dim == 64
    server.script("/api/embed", lambda _: {"embeddings": embeddings})
    with pytest.raises(EmbeddingError):
        embedder.embed_documents(["x"])


def test_another_width_in_between_is_refused(server, connect):
    """A model that was exchanged under the running program is noticed."""
    embedder, _ = connect()
    assert embedder.dim == 64
    server.script("/api/embed", lambda _: {"embeddings": [[1.0, 0.0]]})
    with pytest.raises(EmbeddingError, match="2 dimensions after 64"):
        embedder.embed_documents(["x"])


def test_something_else_than_ollama_is_refused(server, connect):
    """A server that answers with other JSON is not taken for Ollama."""
    server.script("/api/embed", lambda _: {"hello": "world"})
    with pytest.raises(EmbeddingError, match="something else than Ollama"):
        connect()[0].embed_query("x")
