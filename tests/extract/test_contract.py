"""What every extractor promises, run on each one the settings can name."""

import json
import re

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from neuralstream.config import Settings
from neuralstream.extract import make_extractor
from neuralstream.extract.base import Extractor
from neuralstream.extract.llm_extractor import LlmExtractor
from neuralstream.extract.prompts import load_prompt
from neuralstream.types import Gem

STRANGE = {
    "20 KB": "The pump in hall 4 runs at 1450 rpm and drips. " * 430,
    "one endless word": "a1" * 10_000,
    "emoji only": "🎉🎉🎉",
    "code only": "```python\nTIMEOUT = 30\n```",
    "unclosed fence": "here:\n```\nport = 6381",
    "right to left": "הזזנו את השרת לפורט 6381 אתמול בערב. زرنا المدينة القديمة يوم الجمعة الماضي",
    "Chinese": "我们昨天把数据库迁移到了6381端口。以后请用简短的回答。",
    "Japanese": "昨日、京都で新しいカメラを買いました。とても気に入っています。",
    "lone surrogates": "moved the \ud83d server to port 6381 \udc00 yesterday",
    "controls": "moved\x00 the\u200b server to\u202e port 6381",
    "table only": "| host | port |\n|---|---|\n| merlin | 6381 |",
    "punctuation only": "... !!! ???",
}


def quote(request):
    """Answers as an honest model would: each new turn's first words, cited; nothing where there is only small talk."""
    transcript = request.prompt.split("New turns")[-1]
    first = re.findall(r"^\[(\d+)\] (?:\w+ [\d-]+ [\d:]+ )?[^:]+: ?(.*)$", transcript, re.MULTILINE)
    said = [(int(number), text[:200]) for number, text in first if any(char.isdigit() for char in text)]
    return json.dumps(
        {"gems": [{"source_turns": [number], "content": text, "tags": ["fact"]} for number, text in said]}
    )


@pytest.fixture(params=["extractive", "llm"])
def extractor(request, scripted):
    """Each extractor in turn."""
    if request.param == "llm":
        return LlmExtractor(scripted(quote), load_prompt("curator"), Settings())
    return make_extractor(Settings(extract={"extractor": request.param}))


def check(extractor, batch):
    """Extract, and hold the answer against the promises."""
    gems = extractor.extract(batch).gems
    known = [turn.turn_id for turn in batch.turns]
    for gem in gems:
        assert gem.source_turns
        assert [turn_id for turn_id in known if turn_id in gem.source_turns] == list(gem.source_turns)
        assert (gem.user_id, gem.source.session_id) == (batch.turns[0].user_id, batch.turns[0].session_id)
        assert gem.gem_id == Gem.make_id(gem.user_id, gem.source.session_id, gem.source_turns, gem.content)
        assert gem.created_at == batch.turns[-1].at()
        cited = [turn for turn in batch.turns if turn.turn_id in gem.source_turns]
        assert gem.valid_from in {turn.at() for turn in cited}
        assert gem.source.date == cited[0].at().date().isoformat()
        assert gem.source.turn_range == f"{cited[0].index}-{cited[-1].index}"
        assert gem.model == extractor.name
        assert Gem.from_dict(json.loads(json.dumps(gem.to_dict()).encode("utf-8"))) == gem
    assert len({gem.gem_id for gem in gems}) == len(gems)
    return gems


def test_it_is_an_extractor(extractor):
    """It has the seam's name and method."""
    assert isinstance(extractor, Extractor)


def test_gems_cite_the_batch_alone(extractor, batch_of, exchange):
    """History is read, never cited."""
    batch = batch_of(
        exchange("We moved the redis server to port 6381 last Friday.", "Noted."),
        exchange("The backup of merlin runs at 02:30 every night.", "Noted."),
        exchange("I prefer short answers without any lists.", "Understood."),
        history=1,
    )
    gems = check(extractor, batch)
    assert gems
    assert {turn_id for gem in gems for turn_id in gem.source_turns} <= {"t1", "t2"}


def test_small_talk_gives_nothing(extractor, batch_of, say):
    """Greetings, thanks and praise are an empty answer, which is no error."""
    batch = batch_of(
        say("Caroline", "Hey Mel! Good to see you! How have you been?"),
        say("Melanie", "Thanks, Caroline! That's so sweet of you!"),
        say("Caroline", "Bye, talk to you soon!"),
    )
    assert extractor.extract(batch).gems == ()


def test_the_same_batch_gives_the_same_gems(extractor, batch_of, exchange):
    """Doing a batch again changes nothing."""
    batch = batch_of(*(exchange(f"Machine {n} has {n * 8} GB of memory in rack {n}.", "Noted.") for n in range(1, 6)))
    assert extractor.extract(batch) == extractor.extract(batch)


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_strange_turns_are_read(extractor, batch_of, exchange, text):
    """Whatever a turn holds, the answer keeps the promises, can be stored, and stays short."""
    for turn in (exchange(text, "Noted."), exchange("What is it?", text)):
        for gem in check(extractor, batch_of(turn)):
            assert len(gem.content) < 1500


@hypothesis_settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_any_text_keeps_the_promises(extractor, batch_of, exchange, texts):
    """No text breaks an extractor, or makes a gem that says nothing."""
    gems = check(extractor, batch_of(*(exchange(text, text[::-1]) for text in texts)))
    assert all(gem.content.strip() for gem in gems)
