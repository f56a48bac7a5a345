"""What the scripted servers share: HTTP on this machine, scripts by path, and the models that chat."""

from __future__ import annotations

import json
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from neuralstream.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Chatted", "Reply", "ScriptedChat", "ScriptedServer", "ServerRequest"]


@dataclass(frozen=True)
class ServerRequest:
    """What a client sent: path such as "/api/embed", JSON body (empty for a GET), headers by lower-case name."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """What a server does.

    Attributes:
        body: the JSON answer; a list is streamed, one JSON line each.
        status: HTTP status.
        delay: seconds before answering.
        drop: close the connection without an answer.
    """

    body: Any = field(default_factory=dict)
    status: int = 200
    delay: float = 0
    drop: bool = False


class ScriptedServer(ABC):
    """An HTTP server on this machine that answers as told, else as `behave` says. A context manager.

    Attributes:
        url: where it listens.
        requests: what was asked, in order.
    """

    def __init__(self) -> None:
        self.requests: list[ServerRequest] = []
        self._scripts: dict[str, list[Any] | Callable[[ServerRequest], Any]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @abstractmethod
    def behave(self, request: ServerRequest) -> Any:
        """The unscripted answer: a Reply or a JSON body."""

    def script(self, path: str, answers: Sequence[Any] | Callable[[ServerRequest], Any]) -> None:
        """Answer the next requests to a path as told, instead of what was told before.

        Args:
            path: such as "/api/chat".
            answers: a Reply or a JSON body for each of the next requests, or a function of the request that gives one.
                None, and the end of the list, leave the request to the unscripted behaviour.
        """
        with self._lock:
            self._scripts[path] = answers if callable(answers) else list(answers)

    def asked(self, path: str) -> list[ServerRequest]:
        """The requests to a path, in order."""
        return [request for request in self.requests if request.path == path]

    def close(self) -> None:
        """Stop listening; requests that wait for a delay are dropped."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reply(self, request: ServerRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get(request.path)
            answer = script.pop(0) if isinstance(script, list) and script else None
        if callable(script):
            answer = script(request)
        if answer is None:
            answer = self.behave(request)
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(ConnectionError):  # whoever asked was killed
                    super().handle()

            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._reply(ServerRequest(self.path, json.loads(body or b"{}"), headers))
                if server._closing.wait(reply.delay) or reply.drop:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                lines = reply.body if isinstance(reply.body, list) else [reply.body]
                content = "\n".join(json.dumps(line) for line in lines).encode()
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Say nothing on standard error."""

        return Handler


class Chatted(NamedTuple):
    """An answer of a scripted model; `cut`: the prompt was longer than the context."""

    text: str
    finish: str
    prompt_tokens: int
    answer_tokens: int
    cut: bool


class ScriptedChat:
    """A model that a scripted server has chat.

    Args:
        script: the answer, or a function of the system and user prompts, joined by an empty line, that gives it.
        capabilities: what Ollama's `/api/show` says that it can do.
    """

    def __init__(
        self, script: str | Callable[[str], str] = '{"gems": []}', *, capabilities: Sequence[str] = ("completion",)
    ) -> None:
        self.capabilities = list(capabilities)
        self._script = script

    def chat(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, context: int) -> Chatted:
        """Answer. Of a prompt longer than the context only its end is read, for half of the context, as Ollama does."""
        prompt = "\n\n".join(message["content"] for message in messages)
        tokens = count_tokens(prompt)
        cut = tokens > context
        if cut:
            tokens = context // 2 + 2
            prompt = prompt[-tokens * 4 :]
        text = self._script if isinstance(self._script, str) else self._script(prompt)
        longest = max_tokens if max_tokens > 0 else context
        finish = "length" if count_tokens(text) > longest else "stop"
        text = text[: longest * 4] if finish == "length" else text
        return Chatted(text, finish, tokens, count_tokens(text), cut)
