"""A model whose answers are recorded on a cassette, or come from it alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from neuralstream.errors import CassetteMissError, ContextOverflowError, SettingsError
from neuralstream.llm.base import Answer, LanguageModel, Request, check_fits
from neuralstream.llm.cassette import Cassette, Recording, key_of, options_of

if TYPE_CHECKING:
    from neuralstream.config import LlmSettings

__all__ = ["RecordedModel"]


class RecordedModel:
    """Answers from a cassette; what that lacks is asked and recorded, or an error where nobody can be asked.

    That a server cut a prompt is recorded too: whoever then asks with less does so again in replay.

    Args:
        cassette: the recorded answers.
        name: the model's name, part of what an answer is found by.
        settings: context and choices, likewise.
        live: who is asked what is not recorded; None replays alone, and opens no connection.
    """

    def __init__(self, cassette: Cassette, name: str, settings: LlmSettings, live: LanguageModel | None = None) -> None:
        self.cassette = cassette
        self.name = name
        self._settings = settings
        self._live = live

    @property
    def context_tokens(self) -> int:
        """`llm.num_ctx`: what is asked must not depend on whether there is a server."""
        return self._settings.num_ctx

    def answer(self, request: Request) -> Answer:
        """The recorded answer, or the live one; see `LanguageModel`.

        Raises:
            CassetteMissError: nothing is recorded, and nobody can be asked.
            SettingsError: the server's context is smaller than `llm.num_ctx`.
        """
        check_fits(request, self.context_tokens)
        options = options_of(request, self._settings)
        key = key_of(self.name, request, options)
        found = self.cassette.find(key)
        if found is None:
            if self._live is None:
                raise self._miss(request)
            answer = self._ask(self._live, request)
            mine = Recording(
                key=key,
                model=self.name,
                about=dict(request.about),
                options=options,
                answer=answer.text if answer else "",
                finish=answer.finish if answer else "overflow",
                prompt_tokens=answer.prompt_tokens if answer else 0,
                answer_tokens=answer.answer_tokens if answer else 0,
                seconds=round(answer.seconds, 3) if answer else 0.0,
            )
            found = self.cassette.add(mine)
            if found is mine and answer:
                return answer
        if found.finish == "overflow":
            raise ContextOverflowError(
                f"this prompt of about {request.tokens} tokens was cut when {self.name} was recorded; lower "
                "batch_size, or raise llm.num_ctx, and its server's limit, and record again"
            )
        return Answer(
            found.answer, found.finish, found.prompt_tokens, found.answer_tokens, found.seconds, recorded=True
        )

    def close(self) -> None:
        """Close the model that is asked."""
        if self._live is not None:
            self._live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, live: LanguageModel, request: Request) -> Answer | None:
        """A live answer; None where the server cut the prompt."""
        if live.context_tokens < self._settings.num_ctx:
            raise SettingsError(
                f"the server gives {self.name} {live.context_tokens} tokens of context, less than llm.num_ctx = "
                f"{self._settings.num_ctx}; set llm.num_ctx = {live.context_tokens}, so that what is recorded can be "
                "replayed without the server"
            )
        try:
            return live.answer(request)
        except ContextOverflowError:
            return None

    def _miss(self, request: Request) -> CassetteMissError:
        models = Counter(recording.model for recording in self.cassette)
        holds = ", ".join(f"{number} of {model}" for model, number in sorted(models.items())) or "none"
        prompt = request.about.get("prompt")
        return CassetteMissError(
            f"{self.cassette.path} has no answer of {self.name} to this prompt{f' ({prompt})' if prompt else ''}; it "
            f"holds these answers: {holds}. Record what is missing with --set llm.mode=record "
            f"--set llm.cassette={self.cassette.path} --set gem_model={self.name} --set openai_url="
            "http://HOST:PORT/v1 (or ollama_url)"
        )
