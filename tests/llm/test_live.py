"""Against a real Ollama server, named by NEURALSTREAM_TEST_OLLAMA_URL, with NEURALSTREAM_TEST_OLLAMA_MODEL on it."""

import json
import os

import pytest

from neuralstream.config import Settings
from neuralstream.errors import ContextOverflowError
from neuralstream.extract import make_extractor
from neuralstream.extract.base import Batch
from neuralstream.llm import Request, live_model, make_language_model
from neuralstream.types import Turn

URL = os.environ.get("NEURALSTREAM_TEST_OLLAMA_URL")
MODEL = os.environ.get("NEURALSTREAM_TEST_OLLAMA_MODEL", "qwen3:4b-instruct")

pytestmark = pytest.mark.skipif(URL is None, reason="set NEURALSTREAM_TEST_OLLAMA_URL to a running Ollama server")


@pytest.fixture
def settings():
    """Settings of the server."""
    return Settings(ollama_url=URL, gem_model=MODEL, llm={"num_ctx": 4096})


def test_it_is_there(settings):
    """The server says what the model can."""
    with live_model(settings) as model:
        assert model.look().trained_context


def test_it_chats(settings):
    """An answer has text, an end and counts."""
    with make_language_model(settings) as model:
        answer = model.answer(Request("Say hello.", max_tokens=50))
        assert answer.text
        assert answer.prompt_tokens > 0
        assert model.answer(Request("Count from 1 to 500.", max_tokens=10)).finish == "length"


def test_it_follows_a_schema(settings):
    """The answer is JSON of that form."""
    schema = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
    with make_language_model(settings) as model:
        answer = model.answer(Request("Redis listens on port 6381. Which port? Answer in JSON.", schema=schema))
    assert json.loads(answer.text) == {"port": 6381}


def test_a_prompt_that_is_cut_is_noticed(settings):
    """Dense text, whose estimate fits and whose tokens do not."""
    dense = " ".join(f"{number:x}{number * 7919:x};" for number in range(900))
    request = Request(dense, max_tokens=16)
    assert request.tokens < 4096 - 16
    with make_language_model(settings) as model, pytest.raises(ContextOverflowError):
        model.answer(request)


def test_it_distils(settings):
    """Gems cite the turns they were given."""
    turns = tuple(
        Turn.exchange(said, "Noted.", session_id="s", index=index)
        for index, said in enumerate(["We move redis to port 6381.", "I prefer tabs over spaces.", "Thanks!"])
    )
    extraction = make_extractor(settings).extract(Batch("b", turns))
    assert extraction.gems
    assert {cited for gem in extraction.gems for cited in gem.source_turns} <= {turn.turn_id for turn in turns}
