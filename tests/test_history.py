"""Knowledge that changes, through the whole memory: what is found now, then, and after a correction or forgetting."""

from datetime import UTC, datetime, timedelta

import pytest

from neuralstream import Gem, InputError, NeuralStream, NotFoundError, Source, Turn
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
SAID = ["Redis listens on port 6379", "Redis listens on port 6381", "Redis listens on port 6391"]
ASKED = "which port does redis listen on"


def as_said(batch):
    """A gem per turn, of the user's own words."""
    for turn in batch.turns:
        content = turn.parts[0].text
        yield Gem(
            gem_id=Gem.make_id(turn.user_id, turn.session_id, (turn.turn_id,), content),
            content=content,
            source=Source(turn.session_id, turn.at().date().isoformat(), f"{turn.index}-{turn.index}"),
            source_turns=(turn.turn_id,),
            created_at=turn.at(),
            user_id=turn.user_id,
            valid_from=turn.at(),
        )


@pytest.fixture
def memory(settings):
    """Three sessions, a week apart, each with another port, and something that never changes."""
    clock = FakeClock("2026-03-01T12:00:00Z")
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder(), extractor=ScriptedExtractor(as_said)) as opened:
        for week, text in enumerate(SAID):
            for number, said in enumerate((text, f"The kettle of week {week} is blue")):
                at = MARCH + timedelta(weeks=week, minutes=number)
                turn_id = f"w{week}-{number}"
                session_id = f"s{week}"
                opened.capture(Turn.exchange(said, "Noted.", session_id=session_id, turn_id=turn_id, created_at=at))
            opened.end_session(f"s{week}")
        clock.advance(30 * 86400)
        yield opened


def ports(memory, **options):
    """What a search among gems says of redis, best first."""
    hits = memory.search(ASKED, lane="gems", k=10, **options)
    return [hit.text for hit in hits if hit.text.startswith("Redis")]


def test_only_the_newest_version_is_found_now(memory):
    """Neither search nor a context block gives what holds no more, nor the turn that said it."""
    assert ports(memory) == [SAID[2]]
    text = memory.context(ASKED, budget_tokens=2000).text
    assert SAID[2] in text
    assert SAID[0] not in text
    assert SAID[1] not in text
    assert {gem.content for gem in memory.gems(status="superseded")} == set(SAID[:2])


@pytest.mark.parametrize("week", range(3))
def test_an_earlier_moment_sees_what_held_then(memory, week):
    """As of a date between two changes, the version of that time is the only one."""
    seen_from = MARCH + timedelta(weeks=week, days=3)
    assert ports(memory, as_of=seen_from) == [SAID[week]]
    assert SAID[week] in memory.context(ASKED, budget_tokens=2000, as_of=seen_from).text


@pytest.mark.parametrize("week", range(3))
def test_recent_gems_are_those_that_held_at_the_moment(memory, week):
    """As of a date, what was replaced since is there, and what replaced it is not; the limit counts what holds."""
    seen_from = MARCH + timedelta(weeks=week, days=3)
    recent = [hit.text for hit in memory.recent(kind="gem", as_of=seen_from)]
    assert [text for text in recent if text.startswith("Redis")] == [SAID[week]]
    assert [hit.text for hit in memory.recent(2, kind="gem", as_of=seen_from)] == recent[:2]
    assert [hit.text for hit in memory.recent(kind="gem")] == [
        hit.text for hit in memory.recent(kind="gem", as_of=MARCH + timedelta(weeks=9))
    ]


def test_history_shows_every_version_and_who_said_it(memory):
    """From any version: all of them, oldest first, with what replaced them and the turns that say them."""
    newest = next(gem for gem in memory.gems() if gem.content == SAID[2])
    versions = memory.history(newest.gem_id[:8])
    assert [version.gem.content for version in versions] == SAID
    assert [[turn.turn_id for turn in version.evidence] for version in versions] == [["w0-0"], ["w1-0"], ["w2-0"]]
    ids = [version.gem.gem_id for version in versions]
    assert [version.replaced_by for version in versions] == [(ids[1],), (ids[2],), ()]
    assert memory.history(ids[0]) == versions
    with pytest.raises(NotFoundError):
        memory.history("ffffffff")


def test_forgetting_the_newest_version_brings_the_one_before_back(memory):
    """As if it had never been said: the gem is gone, proved, and what it replaced holds again."""
    newest = next(gem for gem in memory.gems() if gem.content == SAID[2])
    assert memory.forget(gem_id=newest.gem_id).proved
    assert ports(memory) == [SAID[1]]
    assert next(gem for gem in memory.gems() if gem.content == SAID[1]).valid_until is None


def test_forgetting_a_session_in_between_joins_the_chain(memory):
    """The versions left are one chain, and the forgotten one is in none of them."""
    result = memory.forget(session_id="s1")
    assert result.proved, result.checks
    newest = next(gem for gem in memory.gems() if gem.content == SAID[2])
    assert [version.gem.content for version in memory.history(newest.gem_id)] == [SAID[0], SAID[2]]
    assert ports(memory) == [SAID[2]]


def test_a_correction_replaces_and_keeps_the_source(memory):
    """The corrected gem cites the same turns, is the one that is found, and the old one stays on record."""
    old = next(gem for gem in memory.gems() if gem.content == SAID[2])
    new = memory.correct(old.gem_id[:8], "Redis listens on port 6399, token=ghp_" + "a1B2" * 9)
    assert (new.source, new.source_turns, new.supersedes) == (old.source, old.source_turns, (old.gem_id,))
    assert "a1B2a1B2" not in new.content
    assert ports(memory) == [new.content]
    assert memory.gem(old.gem_id).valid_until == new.valid_from
    assert memory.correct(new.gem_id, new.content) == new
    with pytest.raises(InputError, match="replaced already"):
        memory.correct(old.gem_id, "Redis listens nowhere")
    with pytest.raises(InputError, match="nothing to correct"):
        memory.correct(new.gem_id, "  ")


def test_questions_find_a_gem_and_are_not_shown(settings):
    """A question that shares no word with the content finds the gem; the block holds the content only."""

    def asking(batch):
        for gem in as_said(batch):
            yield Gem(**{name: getattr(gem, name) for name in gem.__slots__} | {"questions": ("how patient are we",)})

    with NeuralStream(settings, embedder=FakeEmbedder(), extractor=ScriptedExtractor(asking)) as memory:
        memory.capture(Turn.exchange("The lease lasts 75 seconds", "Noted.", session_id="s1"))
        memory.end_session("s1")
        for mode in ("bm25", "semantic", "hybrid"):
            assert [hit.text for hit in memory.search("how patient are we", mode=mode, lane="gems")][:1] == [
                "The lease lasts 75 seconds"
            ]
        text = memory.context("how patient are we", budget_tokens=800, session_id="other").text
        assert "75 seconds" in text
        assert "patient" not in text
