"""What every embedder does, whatever makes its vectors."""

import os
from contextlib import ExitStack

import numpy as np
import pytest

from neuralstream.config import EmbedSettings
from neuralstream.embed.base import Embedder
from neuralstream.embed.cache import CachedEmbedder
from neuralstream.embed.ollama import OllamaEmbedder
from neuralstream.testing import FakeEmbedder, ScriptedOllama

LIVE = os.environ.get("NEURALSTREAM_TEST_OLLAMA_URL")
TEXTS = [
    "Move redis to port 6381, please.",
    "The redis port is 6381 now.",
    "Melanie painted a sunrise over the lake.",
    "🙂",
    "端口改成 6381",
    "a\ud800b\0c",
    "def f(x):\n\treturn x ** 2\n",
]
CLOSE = 1e-6


@pytest.fixture(
    params=[
        "minilm",
        "fake",
        "cached",
        "ollama",
        pytest.param("live", marks=pytest.mark.skipif(not LIVE, reason="NEURALSTREAM_TEST_OLLAMA_URL is not set")),
    ]
)
def embedder(request, tmp_path):
    """Each implementation in turn."""
    with ExitStack() as opened:
        if request.param == "minilm":
            yield request.getfixturevalue("minilm")
        elif request.param == "fake":
            yield FakeEmbedder()
        elif request.param == "cached":
            cached = CachedEmbedder(FakeEmbedder(), tmp_path)
            opened.callback(cached.close)
            yield cached
        else:
            url = LIVE if request.param == "live" else opened.enter_context(ScriptedOllama()).url
            model = os.environ.get("NEURALSTREAM_TEST_OLLAMA_EMBEDDING", "snowflake-arctic-embed2")
            ollama = OllamaEmbedder(url, model, EmbedSettings(batch_size=4))
            opened.callback(ollama.close)
            yield ollama


def test_it_says_what_it_is(embedder):
    """An embedder has a name, a digest that stays, and the length of its vectors."""
    assert isinstance(embedder, Embedder)
    assert embedder.name
    assert embedder.digest == embedder.digest != ""
    assert embedder.dim == embedder.embed_query("x").shape[0]


def test_vectors_are_unit_float32_rows(embedder):
    """Any text, however odd, gives a finite float32 vector of length 1."""
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=CLOSE)
    query = embedder.embed_query(TEXTS[0])
    assert (query.shape, query.dtype) == ((embedder.dim,), np.float32)
    assert abs(np.linalg.norm(query) - 1) < CLOSE


def test_no_texts_give_no_rows(embedder):
    """An empty list gives an array of no rows and the right width."""
    assert embedder.embed_documents([]).shape == (0, embedder.dim)


def test_empty_text_has_a_vector(embedder):
    """The empty text is embedded like any other."""
    assert abs(np.linalg.norm(embedder.embed_documents([""])[0]) - 1) < CLOSE


def test_a_vector_depends_on_its_text_alone(embedder):
    """Alone, in another order, repeated or beside a long text, a text has the same vector."""
    together = embedder.embed_documents([*TEXTS, "word " * 3000])
    backwards = embedder.embed_documents(TEXTS[::-1] + TEXTS)
    exact = not isinstance(embedder, OllamaEmbedder) or not LIVE
    for row, text in enumerate(TEXTS):
        for other in (
            embedder.embed_documents([text])[0],
            backwards[len(TEXTS) - 1 - row],
            backwards[len(TEXTS) + row],
        ):
            assert np.array_equal(together[row], other) if exact else np.allclose(together[row], other, atol=1e-3)


def test_similar_texts_are_near(embedder):
    """A question is nearest to the text that answers it."""
    scores = embedder.embed_documents(TEXTS[:3]) @ embedder.embed_query("Which port does redis use?")
    assert scores[2] < min(scores[0], scores[1])


def test_nothing_of_a_long_text_is_lost(embedder):
    """The end of a text far beyond the model's window moves its vector towards what the end says."""
    filler = "The weather was mild and the lake lay still. " * 600
    plain, ending = embedder.embed_documents([filler, filler + "Redis listens on port 6381. " * 200])
    question = embedder.embed_query("On which port does redis listen?")
    assert ending @ question > plain @ question + 0.01


def test_a_text_within_the_window_is_one_chunk(embedder):
    """Short texts have one row, to the last bit the vector of the text; no texts have none."""
    chunks = embedder.embed_chunks(TEXTS)
    assert [rows.shape for rows in chunks] == [(1, embedder.dim)] * len(TEXTS)
    exact = not isinstance(embedder, OllamaEmbedder) or not LIVE
    whole = embedder.embed_documents(TEXTS)
    assert np.array_equal(np.concatenate(chunks), whole) if exact else np.allclose(chunks, whole, atol=1e-3)
    assert embedder.embed_chunks([]) == []


def test_a_long_text_is_the_direction_of_the_mean_of_its_chunks(embedder):
    """Texts of one call keep their order, rows have length 1, and a text's one vector is made of its rows."""
    texts = ["short", "The weather was mild and the lake lay still. " * 600, "also short"]
    chunks = embedder.embed_chunks(texts)
    assert [len(rows) > 1 for rows in chunks] == [False, True, False]
    assert all(rows.dtype == np.float32 for rows in chunks)
    assert np.allclose(np.linalg.norm(np.concatenate(chunks), axis=1), 1, atol=CLOSE)
    mean = chunks[1].mean(axis=0)
    assert np.allclose(embedder.embed_documents(texts)[1], mean / np.linalg.norm(mean), atol=1e-3 if LIVE else CLOSE)


def test_a_fact_in_the_last_paragraph_of_a_long_reply_is_found(embedder):
    """By its best chunk, a reply of 3,000 words is nearer to a question about its end than by its mean."""
    topics = ("migrations", "retries", "logging", "caching", "packaging", "tracing", "quotas", "fixtures")
    reply = "\n\n".join(
        f"Part {number} is about {topics[number % 8]}. Before anybody touches {topics[number % 8]}, agree "
        "with the team on what good looks like, write it down where newcomers read it, and change one thing at a time."
        for number in range(96)
    )
    fact = "The staging redis listens on port 6381."
    assert len(reply.split()) > 3000
    without, ending = embedder.embed_chunks([reply, f"{reply}\n\n{fact}"])
    question = embedder.embed_query("On which port does the staging redis listen?")
    best, blank = (ending @ question).max(), (without @ question).max()
    assert best > blank + 0.03
    assert best > float(np.mean(ending, axis=0) @ question) + 0.03


def test_the_share_of_known_tokens_is_one_where_everything_is_read(embedder):
    """English is read by every model here; a text of nothing has no token that is not known."""
    assert embedder.known_share("Which port does redis use?") == 1.0
    assert embedder.known_share("") == 1.0
