"""The seam to a language model: a prompt in, text out.

    with make_language_model(settings) as model:
        print(model.complete("Say hello."))

What is asked twice is answered alike as far as the server allows it: temperature 0 and a fixed seed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import unquote, urlsplit

from neuralstream.errors import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from neuralstream.config import LlmSettings, Settings

__all__ = ["LanguageModel", "OllamaModel", "make_language_model"]

_KEEP_ALIVE = "30m"
"""How long the server keeps the model loaded: longer than the pauses between calls."""

_SEED = 0

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""What servers before 0.9, which tell no capabilities, leave in an answer."""


class LanguageModel(Protocol):
    """Answers prompts."""

    @property
    def name(self) -> str:
        """What the model is called where it runs."""
        ...

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 512) -> str:
        """The model's answer, without its thinking and without white space around it; it may be empty.

        Args:
            prompt: what the user says.
            system: what the model is told about its task before.
            max_tokens: longest answer.

        Raises:
            MissingPartError: the server does not answer, does not have the model, or refuses.
        """
        ...


class OllamaModel:
    """A model on an Ollama server, asked at the first need. A context manager.

    Args:
        url: http(s):// of the server.
        model: its name there, with or without a tag.
        settings: context size and timeout.
    """

    def __init__(self, url: str, model: str, settings: LlmSettings) -> None:
        self.name = model
        self._url = url
        self._settings = settings
        self._opened: Any = None
        self._thinks: bool | None = None

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 512) -> str:
        """The model's answer; see `LanguageModel`."""
        messages = [{"role": "system", "content": system}] if system else []
        answer = self._request(
            lambda client: client.chat(
                self.name,
                [*messages, {"role": "user", "content": prompt}],
                # The option is sent to models that can think only; others may refuse the request.
                think=False if self._can_think() else None,
                options={
                    "num_ctx": self._settings.num_ctx,
                    "num_predict": max_tokens,
                    "temperature": 0,
                    "seed": _SEED,
                },
                keep_alive=_KEEP_ALIVE,
            )
        )
        return _THINKING.sub("", answer.message.content or "").strip()

    def close(self) -> None:
        """Close the connections to the server."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _can_think(self) -> bool:
        if self._thinks is None:
            capabilities = self._request(lambda client: client.show(self.name)).capabilities
            self._thinks = "thinking" in (capabilities or ())
        return self._thinks

    def _request(self, call: Callable[[Any], Any]) -> Any:
        import httpx
        from ollama import ResponseError

        where = f"Ollama at {_without_credentials(self._url)}"
        try:
            return call(self._client())
        except ResponseError as error:
            if error.status_code == 404:
                raise MissingPartError(
                    f"{where} does not have {self.name}; run `ollama pull {self.name}` there, or set gem_model"
                ) from error
            raise MissingPartError(
                f"{where} refused {self.name} ({error.status_code}): {str(error.error)[:200]}; its log says more"
            ) from error
        except httpx.ReadTimeout as error:
            seconds = self._settings.timeout.total_seconds()
            raise MissingPartError(
                f"{where} did not answer {self.name} within {seconds:g} s; raise llm.timeout or set a smaller gem_model"
            ) from error
        except (ConnectionError, httpx.TransportError) as error:
            raise MissingPartError(
                f"no Ollama server answers at {_without_credentials(self._url)} ({type(error).__name__}); "
                "start `ollama serve` there, or unset ollama_url"
            ) from error
        except (ValueError, TypeError) as error:
            raise MissingPartError(
                f"{where} answered with something else than Ollama does: {str(error)[:200]}"
            ) from error

    def _client(self) -> Any:
        if self._opened is None:
            from ollama import Client

            parts = urlsplit(self._url)
            # The client drops the credentials of a URL.
            auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
            self._opened = Client(self._url, timeout=self._settings.timeout.total_seconds(), auth=auth)
        return self._opened


def make_language_model(settings: Settings) -> OllamaModel:
    """The model that the settings name.

    Raises:
        MissingPartError: they name no server.
    """
    if settings.ollama_url is None:
        raise MissingPartError(
            f"no language model is configured: set ollama_url, such as http://localhost:11434, where "
            f"`ollama pull {settings.gem_model}` was run"
        )
    return OllamaModel(settings.ollama_url.get_secret_value(), settings.gem_model, settings.llm)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
