import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from neuralstream.config import RetrievalSettings
from neuralstream.errors import MissingPartError, SettingsError
from neuralstream.retrieve import rerank
from neuralstream.retrieve.features import Candidate
from neuralstream.retrieve.hybrid import Found
from neuralstream.retrieve.rerank import CrossEncoderReranker, make_reranker, reranked
from neuralstream.types import Gem, Source, Turn

WORDS = "the redis port is moved to lake sunrise over mild weather was ada who where which"
WINDOW = 48


@pytest.fixture(scope="module")
def save_model(tmp_path_factory):
    """Saves a cross-encoder of two layers with random weights."""

    def save(labels=1, seed=7):
        import torch
        from tokenizers import Tokenizer
        from tokenizers.models import WordPiece
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer
        from tokenizers.processors import BertProcessing
        from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

        folder = tmp_path_factory.mktemp("cross-encoder")
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS.split(), *"0123456789", *(f"##{n}" for n in range(10))]
        tokenizer = Tokenizer(WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
        tokenizer.normalizer = BertNormalizer()
        tokenizer.pre_tokenizer = BertPreTokenizer()
        tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=WINDOW,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
        ).save_pretrained(folder)
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(pieces),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=WINDOW,
            num_labels=labels,
            initializer_range=0.5,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="module")
def folder(save_model):
    """The folder of a tiny cross-encoder."""
    return save_model()


@pytest.fixture(scope="module")
def reranker(folder):
    """The tiny cross-encoder, loaded once."""
    return CrossEncoderReranker(folder)


def test_a_score_is_the_models_own_logit(folder, reranker):
    """What the reranker answers is what the model computes for the pair, without an activation on top."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    query, texts = "which port is redis", ["redis moved to port 6381", "the weather was mild", "lake"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = [float(model(**tokenizer(query, text, return_tensors="pt")).logits) for text in texts]
    assert reranker.scores(query, texts) == pytest.approx(logits, abs=1e-5)
    assert len({round(score, 3) for score in logits}) == 3
    assert max(map(abs, logits)) > 1


def test_a_text_scores_the_same_beside_any_other(reranker):
    """Scores do not depend on what else is asked for, equal calls give equal scores, and no texts give none."""
    texts = [f"port {number} is redis {'over the lake ' * (number % 9)}" for number in range(80)]
    scores = reranker.scores("which port", texts)
    assert reranker.scores("which port", texts) == scores
    assert reranker.scores("which port", texts[::-1])[::-1] == pytest.approx(scores, abs=1e-5)
    assert reranker.scores("which port", texts[:1]) == pytest.approx(scores[:1], abs=1e-5)
    assert reranker.scores("which port", []) == []


def test_a_long_text_scores_as_its_best_window(reranker):
    """Windows overlap, leave nothing out, fit beside the question, and the best one counts."""
    query = "where is the port"
    words = [str(10_000 + number) for number in range(200)]
    windows = [window for _, window in reranker._windows(query, " ".join(words))]
    assert len(windows) > 4
    covered = {word for window in windows for word in window.split()}
    assert set(words) <= covered
    for before, after in pairwise(windows):
        assert before.split()[-1] in after
    tokenizer = reranker._loaded.tokenizer
    assert max(len(tokenizer(query, window)["input_ids"]) for window in windows) <= WINDOW
    assert reranker.scores(query, [" ".join(words)])[0] == pytest.approx(max(reranker.scores(query, windows)), abs=1e-5)


def test_a_long_question_leaves_room_for_the_text(reranker):
    """Of a question that fills the window, half a window is read, and texts still tell."""
    query = "which port is redis moved to " * 30
    assert len({round(score, 4) for score in reranker.scores(query, ["lake sunrise", "port 6381"])}) == 2
    assert all(len(asked) < len(query) / 4 for asked, _ in reranker._windows(query, "port"))


def test_any_text_can_be_read(reranker):
    """Lone surrogates, emoji and control characters are read like anything else."""
    assert len(reranker.scores("a\ud800?", ["b\udfff\0", "🙂", "端口"])) == 3


def test_nothing_is_loaded_before_the_first_question():
    """Naming a reranker costs no import of torch."""
    import subprocess
    import sys

    code = "import sys, neuralstream.retrieve.rerank; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("content", [None, {}, {"architectures": ["BertModel"]}, []], ids=["no", "empty", "bi", "list"])
def test_a_folder_without_a_cross_encoder_is_refused(tmp_path, content):
    """An embedding model would be given random weights to score with; the message names the setting."""
    if content is not None:
        (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(SettingsError, match=r"retrieval.reranker = .* not the folder of a cross-encoder"):
        CrossEncoderReranker(tmp_path)


def test_what_sentence_transformers_says_of_a_model_counts(tmp_path):
    """A folder saved by CrossEncoder is one whatever its architecture; a saved embedder is none."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
    about = tmp_path / "config_sentence_transformers.json"
    about.write_text(json.dumps({"model_type": "CrossEncoder"}))
    CrossEncoderReranker(tmp_path)
    about.write_text(json.dumps({"model_type": "SentenceTransformer"}))
    with pytest.raises(SettingsError):
        CrossEncoderReranker(tmp_path)


def test_a_damaged_model_is_refused(folder, tmp_path):
    """Weights that cannot be read are an error that names the folder."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SettingsError, match="cannot be loaded as a cross-encoder"):
        CrossEncoderReranker(tmp_path).scores("a", ["b"])


def test_a_model_of_several_scores_is_refused(save_model):
    """A classifier of three classes does not say which text is better."""
    with pytest.raises(SettingsError, match="gives a pair 3 scores"):
        CrossEncoderReranker(save_model(labels=3)).scores("a", ["b"])


def test_scores_that_are_no_numbers_are_refused(save_model):
    """A model that answers NaN orders nothing."""
    import torch

    broken = CrossEncoderReranker(save_model())
    broken.scores("redis", ["port"])
    with torch.no_grad():
        for weights in broken._loaded.parameters():
            weights.fill_(float("nan"))
    with pytest.raises(SettingsError, match="NaN"):
        broken.scores("redis", ["port"])


def test_a_missing_package_names_the_install_line(folder, monkeypatch):
    """Without the embedded extra, the message says what to install, or to unset the reranker."""
    monkeypatch.setattr("neuralstream.embed.sentence_transformer.find_spec", lambda _: None)
    with pytest.raises(MissingPartError, match=r"pip install .*embedded.*unset retrieval.reranker"):
        CrossEncoderReranker(folder)


def test_settings_name_the_reranker(folder):
    """Unset there is none; a folder is one."""
    assert make_reranker(RetrievalSettings()) is None
    assert isinstance(make_reranker(RetrievalSettings(reranker=folder)), CrossEncoderReranker)


class Preferring:
    """Likes texts that hold a word, the more of it the better, and records what it read."""

    def __init__(self, word):
        self.word = word
        self.read = []

    def scores(self, _query, texts):
        """How often the word occurs."""
        self.read += texts
        return [float(text.count(self.word)) for text in texts]


TEXTS = ("a lake", "a port", "port port", "another port", "no port, port, port")
FOUND = [Found(Candidate(f"p{at}", {}), None, 10.0 - at, {"bm25": 1.0}) for at in range(len(TEXTS))]
ITEMS = {
    f"p{at}": Turn.utterance("Ada", text, session_id="s", index=at, created_at=datetime(2026, 5, 1 + at, tzinfo=UTC))
    for at, text in enumerate(TEXTS)
}


def test_the_first_hits_are_ordered_anew():
    """Within the depth the reranker's order holds, ties by id; the rest follows as before."""
    ranking = reranked(FOUND, ITEMS, Preferring("port"), "where?", 4)
    assert [hit.candidate.id for hit in ranking] == ["p2", "p1", "p3", "p0", "p4"]
    assert [hit.signals.get("rerank") for hit in ranking] == [2, 1, 1, 0, None]
    assert all(hit.signals["bm25"] == 1 for hit in ranking)


def test_scores_still_fall_from_hit_to_hit():
    """The places keep their scores, so that what sorts by score later keeps the reranker's order."""
    ranking = reranked(FOUND, ITEMS, Preferring("port"), "where?", 4)
    assert [hit.score for hit in ranking] == [hit.score for hit in FOUND]


def test_hits_that_are_gone_are_left_out():
    """What another process deleted is not read and is no hit; a depth beyond the hits is fine."""
    items = {point: item for point, item in ITEMS.items() if point != "p2"}
    ranking = reranked(FOUND, items, Preferring("port"), "where?", 100)
    assert [hit.candidate.id for hit in ranking] == ["p4", "p1", "p3", "p0"]
    assert reranked([], {}, Preferring("port"), "where?", 100) == []


def test_a_blank_question_changes_nothing():
    """Where nothing was asked there is nothing to read."""
    preferring = Preferring("port")
    assert reranked(FOUND, ITEMS, preferring, " \n", 4) == FOUND
    assert preferring.read == []


def test_the_reranker_reads_the_date_and_who_spoke():
    """A turn is read with its date and speakers, a gem with its date."""
    made = datetime(2026, 6, 3, tzinfo=UTC)
    gem = Gem(
        gem_id="g",
        content="Redis is on 6381.",
        source=Source("s", "2026-05-01", "0-0"),
        source_turns=("p0",),
        created_at=made,
    )
    found = [FOUND[0], Found(Candidate("g", {}), None, 1.0, {})]
    preferring = Preferring("port")
    reranked(found, {**ITEMS, "g": gem}, preferring, "where?", 2)
    assert preferring.read == ["1 May 2026\nAda: a lake", "3 June 2026\nRedis is on 6381."]


def test_the_model_orders_hits(reranker):
    """With the real cross-encoder, hits stand in the order of its scores."""
    ranking = reranked(FOUND, ITEMS, reranker, "which port is redis", 5)
    scores = [hit.signals[rerank.RERANK] for hit in ranking]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 5
