import pytest

from neuralstream.embed.sentence_transformer import SentenceTransformerEmbedder


@pytest.fixture(scope="session")
def minilm():
    """The packaged model with its real weights, loaded once for all tests."""
    return SentenceTransformerEmbedder()
