"""The seam to a language model: a request in, an answer out; and what has to fit into its context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from neuralstream.errors import ContextOverflowError
from neuralstream.tokens import count_tokens

__all__ = [
    "Answer",
    "Finish",
    "LanguageModel",
    "LiveModel",
    "ModelFacts",
    "Request",
    "check_fits",
    "check_whole",
    "fewest_tokens",
    "without_thinking",
]

Finish = Literal["stop", "length"]
"""Why an answer ended: the model was done, or `max_tokens` were written."""

_THINKING = re.compile(
    r"\A\s*(?:<think>.*?(?:</think>|\Z)"  # also cut off while it still thought
    r"|(?![\s<\[{`]).*?</think>)",  # models whose chat template opens the tag answer without the opening one
    re.DOTALL,
)

_WORD = re.compile(r"[A-Za-z\u00c0-\u052f]+|\d+")
"""Latin, Greek and Cyrillic words, and numbers. Other alphabets are left out: their vowel signs split words."""

_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WIDE_PER_TOKEN = 4
"""Characters of Chinese, Japanese or Korean in the longest tokens, such as Qwen's for laughter; the mean is under 2."""

_HALF_KEPT = 8
"""What a cut prompt may have beyond half of the context."""

_NOTABLY_LESS = 1.2


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked.

    Attributes:
        prompt: what the user says.
        system: what the model is told about its task before.
        schema: JSON schema that the answer has to follow; None leaves the form to the model.
        max_tokens: longest answer.
        about: who asks, such as {"prompt": "curator@1", "turns": [ids], "history": [ids]}: kept beside a recorded
            answer, no part of what is asked.
    """

    prompt: str
    system: str = ""
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 512
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens of system and prompt together, estimated."""
        return count_tokens(self.system) + count_tokens(self.prompt)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The request as chat messages."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.prompt}]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered.

    Attributes:
        text: without thinking and without white space around it; it may be empty.
        finish: whether the model was done, or cut off.
        prompt_tokens: tokens it read, as its server counts; the estimate where it does not tell.
        answer_tokens: tokens it wrote, likewise.
        seconds: from request to answer, when it was made.
        recorded: it came from a cassette.
    """

    text: str
    finish: Finish
    prompt_tokens: int
    answer_tokens: int
    seconds: float
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a server says of a model.

    Attributes:
        where: the server in words, without credentials.
        trained_context: tokens the model was made for, or is served with; None where the server does not say.
        thinks: whether it can think before it answers; None where the server does not say.
    """

    where: str
    trained_context: int | None = None
    thinks: bool | None = None


class LanguageModel(Protocol):
    """Answers requests. A context manager; threads may share it."""

    @property
    def name(self) -> str:
        """What the model is called where it runs."""
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together: `llm.num_ctx`, or what the server says where that is less.

        Raises:
            MissingPartError: the server has to be asked, and does not answer.
        """
        ...

    def answer(self, request: Request) -> Answer:
        """Answer.

        Raises:
            ContextOverflowError: prompt and longest answer exceed the context, or the server cut the prompt.
            MissingPartError: the server does not answer, does not have the model, or refuses.
        """
        ...

    def close(self) -> None:
        """Close the connections to the server."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class LiveModel(LanguageModel, Protocol):
    """A model on a server."""

    def look(self) -> ModelFacts:
        """What the server says of the model, without loading it.

        Raises:
            MissingPartError: the server does not answer, or does not have the model.
        """
        ...


def check_fits(request: Request, context_tokens: int) -> None:
    """Refuse, before the call, what the context has no room for.

    Raises:
        ContextOverflowError: prompt, by estimate, and longest answer exceed it.
    """
    if request.tokens + request.max_tokens > context_tokens:
        raise ContextOverflowError(
            f"a prompt of about {request.tokens} tokens and an answer of {request.max_tokens} exceed the context of "
            f"{context_tokens}; raise llm.num_ctx, or lower batch_size or llm.max_tokens"
        )


def check_whole(request: Request, prompt_tokens: int | None, answer_tokens: int | None, context_tokens: int) -> None:
    """Notice, after the call, that the server cut the prompt without a word.

    A server counts what is left after cutting, so a count is suspicious in three ways. It fills the context together
    with the answer. It is less than the fewest tokens the text can have. Or it is half of the context, which is what
    Ollama from 0.30 keeps of a prompt that is too long (ollama/ollama#17427), and notably less than the estimate. The
    estimate alone would not do: code has more tokens than it says, Chinese or an indented table much fewer.

    Args:
        request: what was sent.
        prompt_tokens: what the server says it read; None or 0 where it does not tell, as Ollama before 0.4 did for
            prompts it had cached.
        answer_tokens: what it says it wrote.
        context_tokens: what prompt and answer share.

    Raises:
        ContextOverflowError: the prompt was cut, or the answer pushed it out of the context.
    """
    if not prompt_tokens:
        return
    full = prompt_tokens + (answer_tokens or 0) >= context_tokens
    half = context_tokens // 2
    halved = half <= prompt_tokens <= half + _HALF_KEPT and request.tokens > prompt_tokens * _NOTABLY_LESS
    if full or halved or prompt_tokens < fewest_tokens(request.system) + fewest_tokens(request.prompt):
        raise ContextOverflowError(
            f"the server read {prompt_tokens} tokens of a prompt of about {request.tokens}, and the context of "
            f"{context_tokens} is shared with the answer: it was cut; raise llm.num_ctx, or the server's own limit, or "
            "lower batch_size"
        )


def fewest_tokens(text: str) -> int:
    """A number of tokens that no usual tokenizer stays below: they join letters of one word, never two words."""
    return len(_WORD.findall(text)) + len(_WIDE.findall(text)) // _WIDE_PER_TOKEN


def without_thinking(text: str) -> str:
    """An answer without what the model thought before it, and without white space around it."""
    return _THINKING.sub("", text).strip()
