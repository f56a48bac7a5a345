import logging
import sqlite3
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from neuralstream.embed.cache import CachedEmbedder
from neuralstream.errors import StoreError
from neuralstream.testing import FakeEmbedder


class CountingEmbedder:
    """Counts how often each text is embedded."""

    def __init__(self, dim=64):
        self.seen = Counter()
        self._fake = FakeEmbedder(dim)
        self.name, self.digest, self.dim = self._fake.name, self._fake.digest, dim

    def embed_chunks(self, texts):
        self.seen.update(texts)
        return self._fake.embed_chunks(texts)

    def embed_query(self, text):
        self.seen[text] += 1
        return self._fake.embed_query(text)


@pytest.fixture
def opened(tmp_path):
    """A cache in front of a counting embedder; call it again for another one on the same folder."""
    caches = []

    def open_cache(dim=64, **options):
        caches.append(CachedEmbedder(CountingEmbedder(dim), tmp_path / "cache", **options))
        return caches[-1], caches[-1]._embedder.seen

    yield open_cache
    for cache in caches:
        cache.close()


def test_a_text_is_embedded_once(opened):
    """Duplicates in a call, later calls and later processes find the vector, bit for bit."""
    cache, seen = opened()
    first = cache.embed_documents(["a b", "c", "a b"])
    assert seen == {"a b": 1, "c": 1}
    assert np.array_equal(first[0], first[2])
    again, seen_again = opened()
    assert np.array_equal(again.embed_documents(["c", "a b"]), first[[1, 0]])
    assert not seen_again


def test_every_chunk_of_a_long_text_is_kept(opened):
    """A long text comes back with its chunks, bit for bit, beside short ones."""
    texts = ["short", " ".join(f"word{number}" for number in range(600)), "also short"]
    cache, seen = opened()
    made = cache.embed_chunks(texts)
    seen.clear()
    again = opened()[0].embed_chunks(texts[::-1])[::-1]
    assert [rows.shape for rows in again] == [(1, 64), (3, 64), (1, 64)]
    assert all(np.array_equal(found, rows) for found, rows in zip(again, made, strict=True))
    assert not seen


def test_queries_and_documents_are_kept_apart(opened):
    """A model embeds a question otherwise than a text, and otherwise under another prefix."""
    cache, seen = opened()
    cache.embed_documents(["port"])
    cache.embed_query("port")
    cache.embed_query("port")
    assert seen["port"] == 2
    prefixed, seen = opened(query_prefix="ask: ")
    prefixed.embed_query("port")
    assert seen["port"] == 1


def test_models_have_files_of_their_own(opened, tmp_path):
    """Vectors of another model are never found."""
    opened()[0].embed_documents(["a"])
    other, seen = opened(dim=32)
    assert other.embed_documents(["a"]).shape == (1, 32)
    assert seen["a"] == 1
    assert len(list((tmp_path / "cache").glob("*.sqlite"))) == 2


def test_no_text_lies_on_disk(opened, tmp_path):
    """The files hold hashes and vectors only."""
    cache, _ = opened()
    cache.embed_documents(["xylophonequartz"])
    cache.embed_query("xylophonequartz")
    assert not any(b"xylophonequartz" in file.read_bytes() for file in (tmp_path / "cache").iterdir())


def test_forgetting_leaves_no_trace(opened, tmp_path):
    """Forgotten vectors are gone from every model's file, its log included; the rest is still there."""
    cache, seen = opened()
    other, _ = opened(dim=32)
    gone = cache.embed_documents(["secret plan", "kept"])[0].tobytes()
    cache.embed_query("secret plan")
    other.embed_documents(["secret plan"])
    assert any(gone in file.read_bytes() for file in (tmp_path / "cache").iterdir())
    assert cache.holds(["secret plan"])
    assert cache.forget(["secret plan", "never seen"]) == 3
    assert not cache.holds(["secret plan"])
    assert not any(gone in file.read_bytes() for file in (tmp_path / "cache").iterdir())
    seen.clear()
    cache.embed_documents(["kept"])
    assert not seen


def test_a_corrupt_file_is_set_aside_and_filled_anew(opened, tmp_path, caplog):
    """A broken cache costs a warning and time, no answer; forgetting removes what was set aside too."""
    cache, _ = opened()
    cache.embed_documents(["a"])
    cache.close()
    (file,) = (tmp_path / "cache").glob("*.sqlite")
    file.write_bytes(b"not a database" * 1000)
    with caplog.at_level(logging.WARNING, "neuralstream.embed"):
        cache.embed_documents(["a"])
    assert "is corrupt" in caplog.text
    fresh, seen = opened()
    fresh.embed_documents(["a"])
    assert not seen
    assert fresh.forget(["a"]) == 1
    assert [left.suffix for left in (tmp_path / "cache").glob("*.corrupt")] == []


def test_a_page_broken_in_the_middle_is_noticed(opened, tmp_path):
    """Damage behind a sound header is found when it is read, and the vector is made again."""
    cache, seen = opened()
    texts = [f"text {number}" for number in range(300)]
    whole = cache.embed_documents(texts)
    cache.close()
    (file,) = (tmp_path / "cache").glob("*.sqlite")
    content = bytearray(file.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    file.write_bytes(bytes(content))
    seen.clear()
    assert np.array_equal(cache.embed_documents(texts), whole)
    assert len(seen) == 300


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path, caplog):
    """Embedding goes on without a cache and says so."""
    (tmp_path / "file").write_text("in the way")
    cache = CachedEmbedder(CountingEmbedder(), tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, "neuralstream.embed"):
        assert cache.embed_documents(["a"]).shape == (1, 64)
    assert "cannot be used" in caplog.text


def test_forgetting_insists(opened, tmp_path, monkeypatch):
    """What cannot be forgotten because the file is held by another process is an error."""
    monkeypatch.setattr("neuralstream.embed.cache._WAIT", 0.01)
    cache, _ = opened()
    cache.embed_documents(["a"])
    (file,) = (tmp_path / "cache").glob("*.sqlite")
    holder = sqlite3.connect(file)
    try:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="cannot remove vectors"):
            cache.forget(["a"])
    finally:
        holder.close()


def test_several_processes_share_a_cache(tmp_path):
    """Processes that start at once on a new folder all get right vectors and lose none."""
    code = (
        "import sys\n"
        "from neuralstream.embed.cache import CachedEmbedder\n"
        "from neuralstream.testing import FakeEmbedder\n"
        "cache = CachedEmbedder(FakeEmbedder(), sys.argv[1])\n"
        "for n in range(60):\n"
        "    cache.embed_documents([f'{sys.argv[2]} {n}', f'both {n}'])\n"
        "cache.close()\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code, str(tmp_path), str(n)], stderr=subprocess.PIPE)
        for n in range(3)
    ]
    assert [process.communicate()[1] for process in started] == [b"", b"", b""]
    cache = CachedEmbedder(CountingEmbedder(), tmp_path)
    texts = [f"{who} {n}" for who in ("0", "1", "2", "both") for n in range(60)]
    assert np.array_equal(cache.embed_documents(texts), FakeEmbedder().embed_documents(texts))
    assert not cache._embedder.seen
    cache.close()
