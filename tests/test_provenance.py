"""The record of a promotion: what it says, and that a change of what it speaks for is noticed."""

import logging

import pytest
import tomlkit

from neuralstream.config import Settings
from neuralstream.provenance import PromotedSettings, doubt, evidence_line, seal


@pytest.fixture
def record():
    """A sealed record of settings whose mode is bm25."""
    return seal(
        PromotedSettings(
            settings=Settings(retrieval={"mode": "bm25"}).digest(), version="0.1", run="ab12", folder="reports/runs/a",
            core_digest="c0de", embedder="fake", embedder_digest="f00d", extractor="none", data="tiny@dev",
            data_sha256="da7a", lane="turns", mode="bm25", measure="nDCG@10", value=0.61, interval=[0.5, 0.7],
            measures={"R@5": 0.7}, latency_ms=12.5, tokens=1500, by="ada", at="2026-05-08T12:00:00+00:00",
        )
    )  # fmt: skip


@pytest.fixture
def promoted(record, tmp_path):
    """A settings file with the record in it."""
    file = tmp_path / "served.toml"
    document = {"home": str(tmp_path), "retrieval": {"mode": "bm25"}, "promoted": record.model_dump(exclude_none=True)}
    file.write_text(tomlkit.dumps(document))
    return file


def test_a_promoted_file_loads_without_a_word(promoted, record, caplog):
    """The record is part of the settings, and changes no digest of theirs."""
    with caplog.at_level(logging.WARNING, "neuralstream"):
        settings = Settings.load(promoted)
    assert settings.promoted == record
    assert settings.digest() == record.settings
    assert settings.doubt() is None
    assert caplog.records == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('mode = "bm25"\n\n', 'mode = "semantic"\n\n', "not those that run ab12 measured"),
        ("[retrieval]", "batch_size = 9\n[retrieval]", "not those that run ab12 measured"),
        ("value = 0.61", "value = 0.91", "[promoted] was changed"),
    ],
)
def test_a_file_that_was_changed_by_hand_is_noticed(promoted, caplog, old, new, said):
    """A changed setting, an added one, a changed number: loading warns, and goes on."""
    text = promoted.read_text()
    assert old in text
    promoted.write_text(text.replace(old, new))
    with caplog.at_level(logging.WARNING, "neuralstream"):
        settings = Settings.load(promoted)
    assert said in caplog.text
    assert str(promoted) in caplog.text
    assert said in settings.doubt()


def test_what_cannot_change_a_result_may_be_changed(promoted, tmp_path, caplog):
    """Addresses, folders and retention are the reader's own."""
    own = f'redis_url = "redis://localhost:6379/0"\nretention = "30d"\ncache_dir = "{tmp_path}"\n'
    promoted.write_text(own + promoted.read_text())
    with caplog.at_level(logging.WARNING, "neuralstream"):
        assert Settings.load(promoted).doubt() is None
    assert caplog.records == []


def test_an_override_is_no_change_of_the_file(promoted, monkeypatch, caplog):
    """The environment wins, loading does not call the file changed, and the settings in force say they are others."""
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL__MODE", "semantic")
    with caplog.at_level(logging.WARNING, "neuralstream"):
        settings = Settings.load(promoted)
    assert caplog.records == []
    assert settings.doubt() is not None


def test_an_unsealed_record_is_no_evidence(record):
    """A record that somebody wrote by hand has no digest that fits."""
    assert doubt(record.model_copy(update={"digest": ""}), record.settings) is not None


def test_the_evidence_is_told_in_a_line(record):
    """Number, interval, data, run, who and when; the reason of a forced one."""
    line = evidence_line(record.model_copy(update={"forced": "a fair next week"}))
    for part in (
        "turns/bm25",
        "nDCG@10 0.610 (0.500 to 0.700)",
        "tiny@dev",
        "ab12",
        "ada",
        "2026-05-08",
        "a fair next",
    ):
        assert part in line
