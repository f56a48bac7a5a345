"""What the embedder and the language model share when they talk to an Ollama server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from neuralstream.errors import MissingPartError
from neuralstream.transport import Address, retried

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

__all__ = ["OllamaError", "OllamaServer"]


class OllamaError(Exception):
    """The server refused, or answered with something else than Ollama does; the message names server and model."""


class OllamaServer:
    """The way to one model on an Ollama server. Threads may share it.

    Args:
        url: http(s):// of the server, with credentials where it wants them.
        model: the model's name there, with or without a tag.
        timeout: longest wait for one answer.
        too_slow: what to do when that was too short, for the message.
        tries: calls before a transport fault counts as the server being down.
        sleep: waits between tries, seconds.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        timeout: timedelta,
        too_slow: str,
        tries: int,
        sleep: Callable[[float], None],
    ) -> None:
        self._address = Address.parse(url)
        self._model = model
        self._timeout = timeout.total_seconds()
        self._too_slow = too_slow
        self._tries = tries
        self._sleep = sleep
        self._lock = threading.RLock()
        self._opened: Any = None
        self._shown: Any = None

    @property
    def where(self) -> str:
        """The server in words, without credentials."""
        return f"Ollama at {self._address.url}"

    def request(self, call: Callable[[Any], Any]) -> Any:
        """What `call` gets from the official client; transport faults are tried again.

        Raises:
            MissingPartError: no server answers, it does not have the model, or it took too long.
            OllamaError: it refused, or is no Ollama.
        """
        import httpx
        from ollama import ResponseError

        try:
            return retried(lambda: call(self._client()), tries=self._tries, sleep=self._sleep)
        except ResponseError as error:
            if error.status_code == 404:
                raise self.not_pulled() from error
            reason = str(error.error)[:200]
            raise OllamaError(f"{self.where} refused {self._model} ({error.status_code}): {reason}") from error
        except httpx.ReadTimeout as error:
            raise MissingPartError(
                f"{self.where} did not answer {self._model} within {self._timeout:g} s; {self._too_slow}"
            ) from error
        except (ConnectionError, httpx.TransportError) as error:
            raise MissingPartError(
                f"no Ollama server answers at {self._address.url} ({type(error).__name__}); start `ollama serve` "
                "there, or unset ollama_url"
            ) from error
        except (ValueError, TypeError) as error:
            raise OllamaError(
                f"{self.where} answered with something else than Ollama does: {str(error)[:200]}; check ollama_url"
            ) from error

    def show(self) -> Any:
        """What the server knows of the model, asked once."""
        with self._lock:
            if self._shown is None:
                self._shown = self.request(lambda client: client.show(self._model))
            return self._shown

    def trained_context(self) -> int | None:
        """Tokens the model was made for; None where the server does not say."""
        about = self.show().modelinfo or {}
        return min((int(value) for key, value in about.items() if key.endswith(".context_length")), default=None)

    def not_pulled(self) -> MissingPartError:
        """The error for a model that is not there."""
        return MissingPartError(
            f"{self.where} does not have {self._model}; run `ollama pull {self._model}` there, or name another model"
        )

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                from ollama import Client

                self._opened = Client(self._address.url, timeout=self._timeout, auth=self._address.auth)
            return self._opened
