import json
import shutil
from datetime import UTC, datetime

import pytest

from neuralstream import InputError, NeuralStream, Settings, StoreError, StoreMismatchError, Turn, upkeep
from neuralstream.testing import FakeClock, FakeEmbedder

FACTS = [
    "Redis listens on port 6381 in staging.",
    "Mira from Acme owns the billing service.",
    "We decided to use Postgres 16 for the ledger.",
    "I prefer short answers without bullet points.",
    "The backup of the ledger runs every night at 02:30.",
    "Tomorrow I have to renew the certificate of mail.example.com.",
    "The staging host is called heron.",
]
GEM = {
    "gem_id": "",
    "content": "c",
    "source": {"session_id": "s", "date": "2026-01-01", "turn_range": "0-0"},
    "source_turns": ["t"],
    "created_at": "2026-01-01",
}
QUESTIONS = ("which port does redis use", "who owns billing", "ledger backup", "heron")


def fill(memory, user="default"):
    """Two sessions of seven turns; the last two of each are not distilled yet."""
    for session in ("s1", "s2"):
        for number, fact in enumerate(FACTS):
            memory.capture(
                Turn.exchange(
                    f"{fact} ({session})",
                    "Noted.",
                    session_id=session,
                    user_id=user,
                    turn_id=f"{session}-{number}",
                    created_at=datetime(2026, 1, 1, int(session[1]), number, tzinfo=UTC),
                )
            )


def answers(memory, user="default"):
    """What every mode and lane finds: ids, and scores to four digits."""
    return [
        [
            (hit.id, pytest.approx(hit.score, abs=1e-4))
            for hit in memory.search(text, mode=mode, lane=lane, k=20, user_id=user)
        ]
        for text in QUESTIONS
        for mode in ("substring", "bm25", "semantic", "graph", "hybrid")
        for lane in ("turns", "gems", "all")
    ]


def open_memory(settings, dim=64):
    """A memory with a fake embedder of some size."""
    return NeuralStream(settings, clock=FakeClock("2026-06-01T00:00:00Z"), embedder=FakeEmbedder(dim))


@pytest.mark.parametrize("target", ["edge", ":memory:"])
def test_an_export_restored_elsewhere_answers_alike(settings, tmp_path, target):
    """Another store, embedded or Qdrant's client, gives the same hits with the same scores."""
    with open_memory(settings) as memory:
        fill(memory)
        before, gems = answers(memory), memory.gems()
        assert memory.export(tmp_path / "ada.jsonl") == 14 + len(gems)
        assert memory.status().undistilled == 4
    other = Settings(
        home=tmp_path / "other",
        cache_dir=tmp_path / "cache",
        worker="inline",
        qdrant_url=None if target == "edge" else target,
    )
    with open_memory(other) as memory:
        assert memory.restore(tmp_path / "ada.jsonl") == 14 + len(gems)
        assert memory.gems() == gems
        assert answers(memory) == before
        assert memory.status().undistilled == 4
        assert memory.restore(tmp_path / "ada.jsonl") == 0
        assert not memory.capture(Turn.exchange("again", "", session_id="s1", turn_id="s1-0"))


def test_a_restored_memory_can_belong_to_another_user(settings, tmp_path):
    """--user on restore puts everything under that user."""
    with open_memory(settings) as memory:
        fill(memory)
        memory.export(tmp_path / "x.jsonl")
        memory.restore(tmp_path / "x.jsonl", user_id="eve")
        assert answers(memory, "eve")
        assert {hit.item.user_id for hit in memory.recent(50, user_id="eve")} == {"eve"}
        assert len(memory.recent(50, user_id="eve")) == 14
        assert [gem.content for gem in memory.gems(user_id="eve")] == [gem.content for gem in memory.gems()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"role": "user"}\n', "not an export"),
        ("not json\n", "damaged"),
        ('{"format": "neuralstream-export", "version": 99}\n', "version 99"),
        ('{"format": "neuralstream-export", "version": 1}\n{"x": 1}\n', "line 2"),
        ("", "not an export"),
        ('{"format": "neuralstream-export", "version": 1}\n{"turn": \n', "line 2 is damaged"),
        (
            '{"format": "neuralstream-export", "version": 1}\n' + json.dumps({"gem": GEM | {"gem_id": "x"}}),
            "no UUID",
        ),
    ],
)
def test_what_is_no_export_is_refused_and_restores_nothing(settings, tmp_path, content, message):
    """A wrong or damaged file is named with what is wrong."""
    (tmp_path / "bad.jsonl").write_text(content, encoding="utf-8")
    with open_memory(settings) as memory:
        with pytest.raises(InputError, match=message):
            memory.restore(tmp_path / "bad.jsonl")
        with pytest.raises(InputError, match="cannot read"):
            memory.restore(tmp_path / "missing.jsonl")
        assert memory.status().turns == 0


def test_another_embedder_is_refused_until_reindexed(settings):
    """A store filled by one embedder names both and `reindex`; after it everything is there, under the new one."""
    with open_memory(settings) as memory:
        fill(memory)
        memory.flush()
        gems = len(memory.gems())
    with pytest.raises(StoreMismatchError, match=r"fake-64.*fake-128.*reindex"):
        open_memory(settings, dim=128)
    assert NeuralStream.reindex(settings, embedder=FakeEmbedder(128)) == 14 + gems
    with open_memory(settings, dim=128) as memory:
        assert len(memory.recent(50)) == 14
        assert len(memory.gems()) == gems
        assert {gem.embedder for gem in memory.gems()} == {"fake-128"}
        assert memory.search("which port does redis use", lane="gems")


def test_an_export_is_written_whole_or_not_at_all(settings, tmp_path, monkeypatch):
    """A failure while writing leaves an earlier export as it was."""
    path = tmp_path / "ada.jsonl"
    path.write_text("earlier", encoding="utf-8")
    with open_memory(settings) as memory:
        fill(memory)
        monkeypatch.setattr(json, "dumps", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.export(path)
        monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "earlier"


@pytest.mark.parametrize(
    "payload",
    [
        {"content": "Redis listens on 6381", "source": "telegram", "importance": "high", "tags": ["fact", "misc"]},
        {"summary": "Redis moved", "source": {"session_id": "s1", "date": "2026-03-01"}, "importance": 7},
        {},
    ],
)
def test_whatever_an_earlier_version_wrote_becomes_a_gem(payload):
    """Fields of another form than the seed's stop no migration."""
    gem = upkeep._earlier_gem(payload)
    assert gem.content
    assert 0 <= gem.importance <= 1


def test_a_folder_that_vanishes_while_disk_space_is_counted_is_passed_over(settings, monkeypatch):
    """The store is rewritten in the middle of a look; what is left counts."""
    old, kept = settings.home / "old", settings.home / "kept"
    for file in (settings.home / "first", old / "points", kept / "points"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 2_000_000)
    count, counted = upkeep._disk_bytes, []

    def vanishing(path):
        shutil.rmtree(old, ignore_errors=True)
        counted.append(path.name)
        return count(path)

    monkeypatch.setattr(upkeep, "_disk_bytes", vanishing)
    with pytest.raises(StoreError, match="holds 4 MB"):
        upkeep.DiskLimit(settings.model_copy(update={"max_disk_mb": 3})).check()
    assert counted == ["first", "points"]
