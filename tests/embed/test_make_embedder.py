import pytest

from neuralstream.config import Settings
from neuralstream.embed import make_embedder
from neuralstream.embed.cache import CachedEmbedder
from neuralstream.embed.ollama import OllamaEmbedder
from neuralstream.embed.sentence_transformer import SentenceTransformerEmbedder
from neuralstream.errors import SettingsError

URL = "http://127.0.0.1:9"


def backend(tmp_path, **settings):
    """The embedder behind the settings, without the cache."""
    return make_embedder(Settings(home=tmp_path, cache_dir=tmp_path, embed={"cache": False}, **settings))


def test_no_setting_is_the_packaged_model(tmp_path):
    """An empty configuration embeds on this machine."""
    assert backend(tmp_path).name == "all-MiniLM-L6-v2"


def test_a_server_gets_the_named_model(tmp_path):
    """With `ollama_url`, `embedding` names a model there."""
    embedder = backend(tmp_path, ollama_url=URL, embedding="nomic-embed-text")
    assert isinstance(embedder, OllamaEmbedder)
    assert embedder.name == "nomic-embed-text"
    assert backend(tmp_path, ollama_url=URL).name == "snowflake-arctic-embed2"


def test_a_local_model_is_named_by_path_beside_a_server(tmp_path):
    """`sentence-transformers:` means this machine, also where a server distils gems."""
    (tmp_path / "config.json").write_text("{}")
    embedder = backend(tmp_path, ollama_url=URL, embedding=f"sentence-transformers:{tmp_path}")
    assert isinstance(embedder, SentenceTransformerEmbedder)
    assert embedder.name == tmp_path.name
    packaged = backend(tmp_path, ollama_url=URL, embedding="sentence-transformers:all-MiniLM-L6-v2")
    assert packaged.name == "all-MiniLM-L6-v2"


def test_a_server_model_without_a_server_is_refused(tmp_path):
    """Nothing falls back silently: the message names both ways out."""
    with pytest.raises(SettingsError, match=r"nomic-embed-text.*set ollama_url.*sentence-transformers:PATH"):
        backend(tmp_path, embedding="nomic-embed-text")


def test_the_cache_lies_in_its_folder(tmp_path):
    """By default vectors are kept in `cache_dir`."""
    embedder = make_embedder(Settings(home=tmp_path / "home", cache_dir=tmp_path / "cache"))
    assert isinstance(embedder, CachedEmbedder)
    assert embedder.forget(["nothing"]) == 0
