from concurrent.futures import ThreadPoolExecutor

import pytest

from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm import Answer, Calls, CountedModel, Request


class Script:
    """A model that answers the prompt's own instruction."""

    name = "scripted"
    context_tokens = 4096
    closed = False

    def answer(self, request):
        """An answer that ends so, or the error of that name."""
        if request.prompt == "overflow":
            raise ContextOverflowError("too long")
        if request.prompt == "failed":
            raise MissingPartError("down")
        return Answer("x", request.prompt, 10, 2, 0.5, recorded=request.system == "recorded")

    def close(self):
        """Remember it."""
        self.closed = True


def test_each_call_is_counted_by_how_it_ended():
    """With its tokens and seconds, and whether it was recorded; errors pass through."""
    with CountedModel(Script()) as model:
        model.answer(Request("stop"))
        model.answer(Request("stop", system="recorded"))
        model.answer(Request("length"))
        for prompt, error in (("overflow", ContextOverflowError), ("failed", MissingPartError)):
            with pytest.raises(error):
                model.answer(Request(prompt))
        assert model.calls == Calls(2, 1, 1, 1, recorded=1, prompt_tokens=30, answer_tokens=6, seconds=1.5)
        assert model.calls.total == 5
        assert (model.name, model.context_tokens) == ("scripted", 4096)
    assert model.model.closed


def test_threads_lose_no_count():
    """Many at once are all counted."""
    model = CountedModel(Script())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(model.answer, [Request("stop")] * 800))
    assert model.calls.ok == 800
    assert model.calls.prompt_tokens == 8000
