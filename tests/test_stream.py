import asyncio
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pydantic import SecretStr

from neuralstream import AsyncNeuralStream, NeuralStream, NotFoundError, Settings, Turn, Usage
from neuralstream.errors import InputError, StoreError, StoreMismatchError
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor


@pytest.fixture
def clock():
    """Noon of a day in 2026; it moves when told to."""
    return FakeClock("2026-03-01T12:00:00Z")


@pytest.fixture
def memory(settings, clock):
    """An embedded memory worked on inside each call, with a fake embedder and the real everything else."""
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as opened:
        yield opened


def say(memory, clock, text, reply="Noted.", session="s1", **fields):
    """Capture an exchange a minute later."""
    clock.advance(60)
    turn = Turn.exchange(text, reply, session_id=session, **fields)
    memory.capture(turn)
    return turn


FACTS = [
    "Redis listens on port 6381 in staging.",
    "Mira from Acme owns the billing service.",
    "We decided to use Postgres 16 for the ledger.",
    "I prefer short answers without bullet points.",
    "The backup of the ledger runs every night at 02:30.",
]


def test_the_first_ten_lines_of_the_design_work(memory):
    """Capture, a context trigger, and the context block with what was said."""
    memory.capture(Turn.exchange("Move redis to 6381", "Done, 6379 stays for staging.", session_id="s1"))
    assert memory.turn_end("s1", Usage(percent=52))
    assert "6381" in memory.context("which port does redis use?", session_id="s1", budget_tokens=800).text
    assert len(memory.recent(limit=20)) == 1
    assert memory.search("redis port", mode="hybrid", k=5)[0].signals


def test_five_turns_become_gems_that_cite_them(memory, clock):
    """A full batch is distilled inside the call, and its gems cite turns of the batch."""
    turns = [say(memory, clock, fact) for fact in FACTS]
    gems = memory.gems()
    assert gems
    assert {turn_id for gem in gems for turn_id in gem.source_turns} <= {turn.turn_id for turn in turns}
    assert all(gem.source.session_id == "s1" and gem.embedder == "fake-64" for gem in gems)
    assert memory.status().batches_done == 1
    assert memory.gem(gems[0].gem_id) == memory.gem(gems[0].gem_id[:8]) == gems[0]
    for wrong in (gems[0].gem_id[:7], "ffffffff"):
        with pytest.raises(NotFoundError, match="gems list"):
            memory.gem(wrong)


def test_capturing_the_same_turn_twice_keeps_it_once(memory):
    """The second capture of a turn id says it was known and adds nothing."""
    turn = Turn.exchange("a fact about kettles", "yes", session_id="s1")
    assert [memory.capture(turn), memory.capture(turn)] == [True, False]
    assert memory.status().turns == 1


def test_usage_and_silence_trigger_distilling(memory, clock):
    """Context use at the threshold and 15 minutes of silence distil what is there."""
    say(memory, clock, FACTS[0])
    assert not memory.turn_end("s1", Usage(percent=49.9))
    assert memory.turn_end("s1", Usage(tokens=50, context_window=100))
    assert memory.status().undistilled == 0
    say(memory, clock, FACTS[1])
    assert memory.tick(clock.now + timedelta(minutes=14, seconds=59)) == 0
    assert memory.tick(clock.now + timedelta(minutes=15)) == 1
    assert memory.status().undistilled == 0


def test_the_tail_is_distilled_at_close_and_found_by_the_next_start(settings, clock):
    """Closing distils what is left; opening again finds turns and gems."""
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        say(memory, clock, FACTS[0])
        assert memory.status().undistilled == 1
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        assert memory.status().undistilled == 0
        assert memory.gems()
        assert memory.search("redis port", lane="turns")


def test_a_data_folder_opens_in_another_place_on_another_machine(settings, clock, tmp_path, monkeypatch):
    """As a volume does in the next container, whose name is another."""
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        say(memory, clock, FACTS[0])
    elsewhere = settings.home.rename(tmp_path / "elsewhere")
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    moved = settings.model_copy(update={"home": elsewhere})
    with NeuralStream(moved, clock=clock, embedder=FakeEmbedder()) as memory:
        assert memory.search("redis port", lane="turns")


def test_an_embedded_buffer_does_not_feed_another_store(settings, clock):
    """Its turns would be in the one or the other."""
    NeuralStream(settings, clock=clock, embedder=FakeEmbedder()).close()
    with pytest.raises(InputError, match=r"feeds the store embedded beside it, not :memory:"):
        NeuralStream(settings.model_copy(update={"qdrant_url": SecretStr(":memory:")}), embedder=FakeEmbedder())


def test_a_turn_is_found_before_it_is_indexed_and_before_it_is_distilled(tmp_path, clock):
    """With nobody working, every mode finds a captured turn."""
    settings = Settings(home=tmp_path / "home", cache_dir=tmp_path / "cache", worker="inline")
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        say(memory, clock, FACTS[0])
        # The worker is stopped from here on: what follows stays in the buffer.
        memory.parts.worker._stop.set()
        memory.parts.worker._index_some = lambda: False
        late = say(memory, clock, "The walrus migration starts on Monday.")
        for mode in ("substring", "bm25", "semantic", "hybrid"):
            hits = memory.search("walrus migration", mode=mode, lane="all", k=3)
            assert hits, mode
            assert hits[0].id == late.turn_id, mode
        assert memory.recent(1)[0].id == late.turn_id
        assert [turn.turn_id for turn in memory.thread("s1")][-1] == late.turn_id


def test_recent_is_newest_first_and_ordered_before_the_limit(memory, clock):
    """The last five by time, whatever order they were captured in."""
    turns = [say(memory, clock, f"fact number {n}", created_at=clock.now + timedelta(hours=n % 7)) for n in range(20)]
    clock.advance(hours=30)
    expected = sorted(turns, key=lambda turn: turn.created_at, reverse=True)
    assert [hit.item.created_at for hit in memory.recent(5)] == [turn.created_at for turn in expected[:5]]


def test_users_never_meet(memory, clock):
    """No query of one user finds another's turns or gems, `test_user` and `test_user1` included."""
    for user in ("test_user", "test_user1"):
        for fact in FACTS:
            say(memory, clock, f"{fact} ({user})", session=f"s-{user}", user_id=user)
    for user, other in (("test_user", "test_user1"), ("test_user1", "test_user")):
        for mode in ("substring", "bm25", "semantic", "graph", "hybrid"):
            for hit in memory.search("redis port staging", mode=mode, user_id=user, k=50):
                assert hit.item.user_id == user
        assert all(hit.item.user_id == user for hit in memory.recent(50, user_id=user))
        assert memory.thread(f"s-{other}", user_id=user) == []
        with pytest.raises(NotFoundError, match="no gem"):
            memory.gem(memory.gems(user_id=other)[0].gem_id, user_id=user)


def test_as_of_hides_what_came_later(memory, clock):
    """A question asked in the past finds nothing that was said after it."""
    early = say(memory, clock, "The walrus project is called Tusk.")
    moment = clock.now
    clock.advance(days=1)
    say(memory, clock, "The walrus project is called Flipper now.")
    for mode in ("substring", "bm25", "semantic", "hybrid"):
        found = memory.search("walrus project", mode=mode, lane="turns", as_of=moment)
        assert [hit.id for hit in found] == [early.turn_id], mode
    assert [hit.id for hit in memory.recent(as_of=moment)] == [early.turn_id]


def test_our_own_block_is_never_captured(memory, clock):
    """A message that carries an injected block is captured without it; one that is nothing else is not."""
    say(memory, clock, FACTS[0])
    block = memory.context("redis port").text
    assert block
    assert not memory.capture(Turn.exchange(block, "", session_id="s2"))
    memory.capture(Turn.exchange(block + "\nand the weather?", "Sunny.", session_id="s2"))
    (turn,) = memory.thread("s2")
    assert turn.parts[0].text == "and the weather?"


def test_secrets_are_masked_before_anything_is_kept(memory, clock):
    """A key never reaches the buffer or the store."""
    secret = "ghp_" + "a1B2" * 9
    say(memory, clock, f"use {secret} for the release")
    assert secret not in json.dumps([hit.item.to_dict() for hit in memory.recent()])
    assert not any(secret.encode() in f.read_bytes() for f in memory.settings.home.rglob("*") if f.is_file())


def test_context_leaves_out_the_window(memory, clock):
    """Turns the host still holds are not repeated; by default those are the session's turns no trigger took."""
    turn = say(memory, clock, FACTS[0])
    assert memory.context("redis port", session_id="s1").text == ""
    assert "6381" in memory.context("redis port").text
    assert memory.context("redis port", window=[turn.turn_id]).text == ""
    memory.end_session("s1", reason="reset")
    assert "6381" in memory.context("redis port", session_id="s1").text


def test_remember_is_found_and_remembering_twice_adds_nothing(memory):
    """A statement stored by hand is a gem with a turn of its own."""
    gem = memory.remember("The office wifi is called heron.", tags=["fact"], topics=["wifi"])
    assert memory.remember("The office wifi is called heron.").gem_id == gem.gem_id
    assert [found.gem_id for found in memory.gems()] == [gem.gem_id]
    assert memory.search("wifi called heron")[0].id == gem.gem_id
    assert [turn.text for turn in memory.thread("remembered")] == ["The office wifi is called heron."]
    with pytest.raises(InputError, match="nothing to remember"):
        memory.remember("  ")


def test_a_batch_that_cannot_be_distilled_keeps_its_turns(settings, clock):
    """After the tries it is a dead letter whose turns are still found, and a retry distils it."""
    from neuralstream.errors import ExtractionError

    broken = True

    def script(batch):
        if broken:
            raise ExtractionError("the model answered with a poem")
        return ScriptedExtractor()._improvise(batch)

    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder(), extractor=ScriptedExtractor(script)) as memory:
        for fact in FACTS:
            say(memory, clock, fact)
        (letter,) = memory.dead_letters()
        assert "poem" in letter.reason
        assert len(letter.turns) == 5
        assert memory.search("redis port", lane="turns", mode="bm25")
        broken = False
        assert memory.retry_dead_letters() == 1
        assert len(memory.gems()) == 1
        assert memory.dead_letters() == []


def test_a_gem_that_cites_a_turn_outside_its_batch_is_refused(settings, clock):
    """An invented source leads to a dead letter, never to a stored gem."""
    from dataclasses import replace

    def script(batch):
        return [replace(gem, source_turns=("invented",)) for gem in ScriptedExtractor()._improvise(batch)]

    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder(), extractor=ScriptedExtractor(script)) as memory:
        for fact in FACTS:
            say(memory, clock, fact)
        assert memory.gems() == []
        assert "cites" in memory.dead_letters()[0].reason


def test_the_thread_worker_does_the_same_as_inline(tmp_path):
    """Indexing and distilling in the background end as the same turns and gems."""
    results = []
    for worker in ("inline", "thread"):
        settings = Settings(home=tmp_path / worker, cache_dir=tmp_path / "cache", worker=worker)
        with NeuralStream(settings, clock=FakeClock(), embedder=FakeEmbedder()) as memory:
            for number in range(13):
                memory.capture(
                    Turn.exchange(
                        f"{FACTS[number % 5]} Take {number}.",
                        "ok",
                        session_id="s1",
                        turn_id=f"t{number}",
                        created_at=datetime(2026, 1, 1, 0, number, tzinfo=UTC),
                    )
                )
            memory.flush(timeout=300)
            results.append((memory.gems(), [hit.id for hit in memory.recent(20)], memory.search("redis port", k=20)))
    assert results[0] == results[1]


def test_one_bad_session_stops_no_other(settings, clock):
    """An extractor that breaks on one session makes dead letters of it; the others are distilled."""

    def script(batch):
        if batch.turns[0].session_id == "bad":
            raise ValueError("unforeseen")
        return ScriptedExtractor()._improvise(batch)

    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder(), extractor=ScriptedExtractor(script)) as memory:
        for session in ("bad", "good"):
            for fact in FACTS:
                say(memory, clock, fact, session=session)
        assert {gem.source.session_id for gem in memory.gems()} == {"good"}
        assert "ValueError: unforeseen" in memory.dead_letters()[0].reason


def test_a_turn_that_cannot_be_embedded_is_found_by_its_words(settings, clock):
    """One text that breaks the embedder holds up no other turn, and is not lost."""
    from neuralstream.errors import EmbeddingError

    class Picky(FakeEmbedder):
        def embed_chunks(self, texts):
            if any("cursed" in text for text in texts):
                raise EmbeddingError("NaN")
            return super().embed_chunks(texts)

    with NeuralStream(settings, clock=clock, embedder=Picky(), extractor=ScriptedExtractor(lambda _: ())) as memory:
        cursed = say(memory, clock, "The cursed walrus sleeps.")
        fine = say(memory, clock, "The heron is awake.")
        assert memory.search("walrus sleeps", mode="bm25", lane="turns")[0].id == cursed.turn_id
        assert memory.search("heron awake", mode="semantic", lane="turns")[0].id == fine.turn_id
        assert memory.status().unindexed == 0


def test_turns_that_name_nobody_are_the_settings_users(settings, clock):
    """What is captured without a user is found by the settings' user, and by nobody else."""
    ada = settings.model_copy(update={"user_id": "ada"})
    with NeuralStream(ada, clock=clock, embedder=FakeEmbedder()) as memory:
        turn = say(memory, clock, FACTS[0])
        assert [hit.id for hit in memory.recent()] == [turn.turn_id]
        assert memory.recent(user_id="default") == []
        assert memory.turn_end("s1", Usage(percent=60))
        assert memory.status().undistilled == 0


def test_naive_times_are_utc(memory, clock):
    """A time without a zone is taken as UTC everywhere."""
    turn = say(memory, clock, FACTS[0])
    naive = (clock.now + timedelta(hours=1)).replace(tzinfo=None)
    assert [hit.id for hit in memory.recent(until=naive, as_of=naive)] == [turn.turn_id]
    assert [hit.id for hit in memory.search("redis port", until=naive, as_of=naive)] == [turn.turn_id]
    assert memory.search("redis port", since=naive, lane="turns") == []


def test_a_turn_from_a_clock_that_runs_ahead_is_found(memory, clock):
    """A host whose clock is ahead of ours makes no blind spot."""
    turn = Turn.exchange("The walrus is early.", "ok", session_id="s1", created_at=clock.now + timedelta(minutes=2))
    memory.capture(turn)
    assert memory.search("walrus early", lane="turns")[0].id == turn.turn_id
    assert memory.recent()[0].id == turn.turn_id
    assert memory.recent(as_of=clock.now) == []


def test_a_worker_in_other_processes_needs_a_shared_store(tmp_path):
    """The setting worker = none with the embedded store is refused with what to do."""
    with pytest.raises(InputError, match="qdrant_url"):
        NeuralStream(Settings(home=tmp_path, worker="none"), embedder=FakeEmbedder())


def test_weights_tuned_with_another_embedder_are_refused(tmp_path):
    """A file whose weights were fitted to another model's cosines says to tune anew; the model's own is taken."""
    home = f'home = "{tmp_path / "home"}"\nworker = "inline"\n'
    tuned = (
        '[retrieval.tuned]\nversion = "0"\ncommand = "neuralstream tune"\nembedder = "{0.name}"\n'
        'embedder_digest = "{0.digest}"\nanalyser = "a"\nseed = 0\nfeatures = ["bm25"]\nregularisation = {{}}\n'
        "datasets = []\n"
    )
    file = tmp_path / "tuned.toml"
    file.write_text(home + tuned.format(FakeEmbedder(64)))
    with pytest.raises(StoreMismatchError, match=r"fake-64.*fake-128.*`neuralstream tune`"):
        NeuralStream(Settings.load(file), embedder=FakeEmbedder(128))
    NeuralStream(Settings.load(file), embedder=FakeEmbedder(64)).close()


def test_what_was_opened_is_closed_when_a_later_part_is_missing(settings):
    """A buffer that cannot be reached leaves the store free for the next try."""
    from neuralstream.errors import MissingPartError

    broken = settings.model_copy(update={"redis_url": Settings(redis_url="redis://127.0.0.1:1").redis_url})
    with pytest.raises(MissingPartError):
        NeuralStream(broken, embedder=FakeEmbedder())
    NeuralStream(settings, embedder=FakeEmbedder()).close()


def test_a_full_disk_limit_refuses_with_what_to_do(tmp_path, clock):
    """Beyond max_disk_mb capture says how to make room."""
    settings = Settings(home=tmp_path / "home", worker="inline", max_disk_mb=150)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ballast").write_bytes(b"0" * 160_000_000)
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        with pytest.raises(StoreError, match="max_disk_mb"):
            say(memory, clock, FACTS[0])
        (tmp_path / "home" / "ballast").unlink()
        say(memory, clock, FACTS[0])


def test_retention_forgets_what_is_old(tmp_path, clock):
    """With a retention of 30 days, tick removes turns and gems older than that."""
    settings = Settings(home=tmp_path / "home", worker="inline", retention="30d")
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        for fact in FACTS:
            say(memory, clock, fact)
        clock.advance(days=31)
        kept = say(memory, clock, "A fresh fact about walruses.", session="s2")
        memory.tick()
        assert [hit.id for hit in memory.recent(50)] == [kept.turn_id]
        assert all(gem.source.session_id == "s2" for gem in memory.gems())


def test_the_async_twin_has_every_method_and_works(settings, clock):
    """Each public method of NeuralStream can be awaited."""

    async def use():
        async with AsyncNeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
            await memory.capture(Turn.exchange(FACTS[0], "ok", session_id="s1"))
            return await memory.search("redis port", lane="turns")

    assert asyncio.run(use())[0].item.session_id == "s1"
    public = {name for name in vars(NeuralStream) if not name.startswith("_")}
    assert public - set(vars(AsyncNeuralStream)) == {"reindex"}


def test_the_asynchronous_twin_has_to_be_entered(settings):
    """The message shows how, instead of naming an attribute that is missing."""
    with pytest.raises(InputError, match="async with AsyncNeuralStream"):
        asyncio.run(AsyncNeuralStream(settings).recent())


def test_what_is_no_turn_and_no_usage_is_told_what_to_write(memory):
    """A text, a dict, a bare percent: the message names the call that makes the right thing."""
    with pytest.raises(InputError, match=r"got the str 'hello'; Turn\.exchange"):
        memory.capture("hello")
    with pytest.raises(InputError, match=r"got the dict"):
        memory.capture_all([{"user": "hello"}])
    with pytest.raises(InputError, match=r"write Usage\(percent=52\)"):
        memory.turn_end("s1", 52)
    with pytest.raises(InputError, match="got '52'; unknown is None"):
        Usage(percent="52")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda memory: memory.recent(kind="turns"), "use turn or gem"),
        (lambda memory: memory.recent(limit=0), "at least 1, got 0"),
        (lambda memory: memory.end_session("s1", reason="done"), "use one of end, reset, compaction, shutdown"),
        (lambda memory: memory.search("redis", tags="fact"), r"write \['fact'\]"),
        (lambda memory: memory.search("redis", tags=["facts"]), "use decision, fact, preference, todo, code"),
        (lambda memory: memory.search(None), "a query is text, got None"),
        (lambda memory: memory.search("redis", k=1.5), "whole and at least 1, got 1.5"),
    ],
)
def test_a_slip_of_the_caller_is_named(memory, call, says):
    """A wrong word or number is refused by name, and says what would do."""
    with pytest.raises(InputError, match=says):
        call(memory)


def test_a_whole_number_of_numpy_counts_hits(memory, clock):
    """As a loop over an array has it."""
    for fact in FACTS[:3]:
        say(memory, clock, fact)
    assert len(memory.recent(np.int64(2))) == len(memory.search("the", k=np.int64(2), mode="substring")) == 2


def test_a_path_is_not_taken_for_settings():
    """Who names a file is told how one is read."""
    with pytest.raises(InputError, match=r"Settings.load\('neuralstream.toml'\) reads a file"):
        NeuralStream("neuralstream.toml")


def test_a_closed_memory_says_so(settings, clock):
    """What is asked after closing is refused as such, not as a server that is down."""
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        say(memory, clock, FACTS[0])
    for call in (memory.recent, lambda: say(memory, clock, FACTS[1])):
        with pytest.raises(InputError, match="this memory was closed"):
            call()
    memory.close()
