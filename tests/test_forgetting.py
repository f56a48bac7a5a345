from dataclasses import replace
from datetime import UTC, datetime

import pytest

from neuralstream import InputError, NeuralStream, NotFoundError, Turn, forgetting
from neuralstream.embed.cache import CachedEmbedder
from neuralstream.llm.cassette import Cassette, Recording
from neuralstream.testing import FakeClock, FakeEmbedder

NEEDLE = "zebrafinchcodename"
MODES = ("substring", "bm25", "semantic", "graph", "hybrid")


@pytest.fixture
def memory(settings):
    """Two users with two sessions each; `ada` says a planted word in her first session only."""
    embedder = CachedEmbedder(FakeEmbedder(), settings.cache_dir)
    with NeuralStream(settings, clock=FakeClock("2026-06-01T00:00:00Z"), embedder=embedder) as opened:
        for user in ("ada", "bob"):
            for session in ("s1", "s2"):
                for number in range(7):
                    planted = f" The project is called {NEEDLE}." if (user, session) == ("ada", "s1") else ""
                    text = f"Fact {number} of {session}: the {user} server listens on port {6000 + number}.{planted}"
                    opened.capture(
                        Turn.exchange(
                            text,
                            "Noted.",
                            session_id=session,
                            user_id=user,
                            turn_id=f"{user}-{session}-{number}",
                            created_at=datetime(2026, 1, int(session[1]), 0, number, tzinfo=UTC),
                        )
                    )
        opened.flush()
        yield opened


@pytest.fixture
def recorded(memory, tmp_path):
    """The memory's cassette, with an answer made of each of ada's turns."""
    cassette = Cassette(tmp_path / "answers.jsonl")
    for number in range(7):
        about = {"prompt": "curator@1", "turns": [f"ada-s1-{number}"]}
        cassette.add(Recording(str(number), "qwen3", about, {}, f"The project is {NEEDLE}.", "stop"))
    use_cassette(memory, "record", cassette)
    return cassette


def use_cassette(memory, mode, cassette):
    """Have the memory record or replay."""
    llm = memory.settings.llm.model_copy(update={"mode": mode, "cassette": cassette.path})
    memory.parts = replace(memory.parts, settings=memory.settings.model_copy(update={"llm": llm}))


def on_disk(memory, needle=NEEDLE):
    """Files of the data and cache folders that hold a text."""
    folders = (memory.settings.home, memory.settings.cache_dir)
    return [
        file
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and needle.encode() in file.read_bytes()
    ]


def found(memory, user, text):
    """Ids that any kind of query finds for a user."""
    ids = {hit.id for mode in MODES for hit in memory.search(text, mode=mode, k=100, user_id=user)}
    ids |= {hit.id for kind in ("turn", "gem") for hit in memory.recent(100, kind=kind, user_id=user)}
    return ids | {turn.turn_id for session in ("s1", "s2") for turn in memory.thread(session, user_id=user)}


def test_forgetting_a_user_leaves_nothing_anywhere_and_everything_of_others(memory):
    """No query finds the user, every query finds the other as before, and no file holds the planted text."""
    others = found(memory, "bob", "server port 6001")
    assert on_disk(memory)
    result = memory.forget(user_id="ada")
    assert result.proved, result.checks
    assert (result.turns, result.sessions) == (14, 2)
    assert result.gems > 0
    assert found(memory, "ada", f"server port 6001 {NEEDLE}") == set()
    assert memory.themes(user_id="ada") == []
    assert found(memory, "bob", "server port 6001") == others
    assert on_disk(memory) == []


def test_a_forgotten_log_can_be_replayed_again(memory):
    """Forgetting forgets the ids too: the same turns are new afterwards."""
    memory.forget(user_id="ada")
    assert memory.capture(Turn.exchange("again", "yes", session_id="s1", user_id="ada", turn_id="ada-s1-0"))


def test_forgetting_a_session_keeps_the_others(memory):
    """Only that session's turns and gems go, and the planted text with them."""
    result = memory.forget(session_id="s1", user_id="ada")
    assert result.proved, result.checks
    assert memory.thread("s1", user_id="ada") == []
    assert len(memory.thread("s2", user_id="ada")) == 7
    assert {gem.source.session_id for gem in memory.gems(user_id="ada")} == {"s2"}
    assert on_disk(memory) == []


def test_forgetting_before_a_date_keeps_what_came_after(memory):
    """Turns before the moment go, the moment's own stays; neighbours no longer hold their words."""
    result = memory.forget(before=datetime(2026, 1, 1, 0, 3, tzinfo=UTC), user_id="ada")
    assert result.proved, result.checks
    assert result.turns == 3
    assert [turn.turn_id for turn in memory.thread("s1", user_id="ada")] == [f"ada-s1-{n}" for n in (3, 4, 5, 6)]
    gone = {f"ada-s1-{n}" for n in range(3)}
    assert not any(gone & {*gem.source_turns, *gem.evidence} for gem in memory.gems(user_id="ada"))
    assert not on_disk(memory, "Fact 0 of s1: the ada")


def test_forgetting_a_gem_uncovers_its_turns(memory):
    """The gem goes; the turns it covered are searched as turns again."""
    gem = memory.gems(user_id="bob")[0]
    assert gem.source_turns[0] not in {hit.id for hit in memory.search(gem.content, user_id="bob", k=50, lane="all")}
    result = memory.forget(gem_id=gem.gem_id, user_id="bob")
    assert result.proved, result.checks
    with pytest.raises(NotFoundError):
        memory.gem(gem.gem_id, user_id="bob")
    assert gem.source_turns[0] in {hit.id for hit in memory.search(gem.content, user_id="bob", k=50, lane="all")}


def test_exactly_one_thing_is_named(memory):
    """Nothing or two things to forget is refused, and forgets nothing."""
    for wrong in ({}, {"gem_id": "x", "session_id": "s1"}):
        with pytest.raises(InputError, match="name one of"):
            memory.forget(**wrong)
    with pytest.raises(NotFoundError, match="gems list"):
        memory.forget(gem_id="00000000-0000-0000-0000-000000000000", user_id="ada")
    assert memory.status().turns == 28


def test_an_unknown_session_is_named(memory):
    """A mistyped session is not called forgotten."""
    with pytest.raises(NotFoundError, match="no session 'typo'"):
        memory.forget(session_id="typo", user_id="ada")


def test_forgetting_that_was_interrupted_leaves_no_vector(memory, monkeypatch):
    """Vectors go before the texts that lead to them: a crash in between leaves nothing that nobody can find."""
    texts = [turn.text for turn in memory.thread("s1", user_id="ada")]
    assert memory.parts.embedder.holds(texts)
    monkeypatch.setattr(memory.parts.indexer, "refresh", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.forget(session_id="s1", user_id="ada")
    monkeypatch.undo()
    assert not memory.parts.embedder.holds(texts)


@pytest.mark.parametrize("step", ["buffer.forget_session", "store.delete", "indexer.refresh", "buffer.purge"])
def test_forgetting_that_was_interrupted_is_finished_by_the_next_start(memory, settings, monkeypatch, step):
    """Nothing of the session is read again or lies on disk; told again before that, its words would stay there."""
    part, name = step.split(".")
    monkeypatch.setattr(getattr(memory.parts, part), name, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.forget(session_id="s1", user_id="ada")
    monkeypatch.undo()
    memory.close()
    with NeuralStream(settings, clock=FakeClock("2026-06-01T00:00:00Z"), embedder=memory.parts.embedder) as again:
        assert (again.thread("s1", user_id="ada"), len(again.thread("s2", user_id="ada"))) == ([], 7)
        assert again.capture(Turn.exchange("again", "yes", session_id="s1", user_id="ada", turn_id="ada-s1-0"))
    assert on_disk(memory) == []
    assert not list(settings.home.glob("forgetting-*"))


def test_what_was_captured_since_is_not_forgotten_at_the_next_start(memory, settings, monkeypatch):
    """Forgetting failed, was not told again, and the session went on: only what was there then is finished."""
    monkeypatch.setattr(memory.parts.store, "delete", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.forget(session_id="s1", user_id="ada")
    monkeypatch.undo()
    assert memory.capture(Turn.exchange("since", "yes", session_id="s1", user_id="ada", turn_id="later"))
    memory.close()
    with NeuralStream(settings, clock=FakeClock("2026-06-01T00:00:00Z"), embedder=memory.parts.embedder) as again:
        assert [turn.turn_id for turn in again.thread("s1", user_id="ada")] == ["later"]
        assert not again.capture(Turn.exchange("since", "yes", session_id="s1", user_id="ada", turn_id="later"))
        assert again.capture(Turn.exchange("again", "yes", session_id="s1", user_id="ada", turn_id="ada-s1-0"))
    assert on_disk(memory) == []


def test_a_memory_that_is_interrupted_while_it_finishes_to_forget_lets_go_of_its_parts(settings, monkeypatch):
    """The same process may open it again."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(forgetting, "finish_forgetting", interrupted)
    with pytest.raises(KeyboardInterrupt) as held:  # which keeps alive what is not let go of
        NeuralStream(settings, embedder=FakeEmbedder())
    monkeypatch.undo()
    NeuralStream(settings, embedder=FakeEmbedder()).close()
    del held


def test_forgetting_that_was_told_again_leaves_nothing_to_finish(memory, settings, monkeypatch):
    """What failed the first time and is done now is not done once more by the next start."""
    monkeypatch.setattr(memory.parts.store, "delete", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        memory.forget(session_id="s1", user_id="ada")
    monkeypatch.undo()
    assert memory.forget(session_id="s1", user_id="ada").proved
    assert not list(settings.home.glob("forgetting-*"))


@pytest.mark.parametrize("content", ["", "[]", '{"user_id": "ada"}'])
def test_what_was_written_down_and_cannot_be_read_is_named_and_keeps_no_memory_shut(settings, caplog, content):
    """The file stays, for whoever is to forget again."""
    settings.home.mkdir()
    path = settings.home / "forgetting-1.json"
    path.write_text(content)
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        assert opened.capture(Turn.exchange("hello", "yes", session_id="s1"))
    assert (str(path) in caplog.text, path.exists()) == (True, True)


def test_forgetting_a_session_forgets_its_recorded_answers(memory, recorded):
    """What the model answered about its turns is gone from the cassette, and that is proved."""
    result = memory.forget(session_id="s1", user_id="ada")
    assert result.proved
    assert result.checks["cassette"]
    assert result.answers == 7
    assert recorded.path.read_bytes() == b""


def test_forgetting_a_gem_forgets_the_answer_it_came_from(memory, recorded):
    """Answers about other turns stay."""
    gem = next(hit.item for hit in memory.recent(100, kind="gem", user_id="ada") if hit.item.source.session_id == "s1")
    result = memory.forget(gem_id=gem.gem_id, user_id="ada")
    assert result.proved
    assert result.answers == len(gem.source_turns)
    assert not recorded.mentions(gem.source_turns)
    assert NEEDLE.encode() in recorded.path.read_bytes()


def test_a_cassette_that_is_only_replayed_is_left_alone(memory, recorded):
    """It belongs to a data set, whose turns may have the same ids."""
    use_cassette(memory, "replay", recorded)
    result = memory.forget(session_id="s1", user_id="ada")
    assert (result.answers, recorded.mentions({"ada-s1-0"})) == (0, True)
    assert "cassette" not in result.checks
