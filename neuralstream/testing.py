"""Fakes for tests of NeuralStream and of what is built on it: an embedder, a clock, an extractor, an Ollama server.

    memory = NeuralStream(settings, clock=FakeClock(), embedder=FakeEmbedder(), extractor=ScriptedExtractor())

They need no network and no weights, and what they answer is the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from neuralstream.analysis import analyse_whole_words
from neuralstream.embed.vectors import means_of_chunks
from neuralstream.extract.base import Extraction
from neuralstream.tokens import count_tokens
from neuralstream.types import Gem, Source, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.extract.base import Batch

__all__ = ["FakeClock", "FakeEmbedder", "OllamaReply", "OllamaRequest", "ScriptedExtractor", "ScriptedOllama"]


class FakeClock:
    """A clock that moves only when told to.

    Args:
        start: the first time it tells.
    """

    def __init__(self, start: datetime | str = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.now = parse_time(start)

    def __call__(self) -> datetime:
        """The time, aware UTC."""
        return self.now

    def advance(self, by: timedelta | float = 0, **units: float) -> datetime:
        """Move on by a duration or seconds, plus units as `timedelta` names them: `advance(minutes=15)`."""
        self.now += (by if isinstance(by, timedelta) else timedelta(seconds=by)) + timedelta(**units)
        return self.now

    def set(self, now: datetime | str) -> datetime:
        """Jump to a time."""
        self.now = parse_time(now)
        return self.now


class FakeEmbedder:
    """A hashed bag of stemmed words: texts that share words are near, the rest is nearly orthogonal.

    Each word has a fixed random vector of +1 and -1 (a random projection); a text's vector is their sum, normalised.

    Args:
        dim: length of a vector, a multiple of 8.
        window: words a chunk of a stored text holds; a longer text is cut every so many words, without overlap.
    """

    def __init__(self, dim: int = 64, *, window: int = 256) -> None:
        self.dim = dim
        self.name = f"fake-{dim}"
        self.digest = hashlib.sha256(f"{self.name} {window}".encode()).hexdigest()
        self._window = window

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts: for each text (chunks, dim) float32, rows L2-normalised."""
        return [np.stack([self.embed_query(chunk) for chunk in self._cut(text)]) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised."""
        return means_of_chunks(self.embed_chunks(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        """Vector of a text: (dim,) float32, L2-normalised; a text without words has a vector of its own."""
        total = np.zeros(self.dim, dtype=np.float32)
        for word in analyse_whole_words(text):
            total += _word_vector(word, self.dim)
        if not total.any():
            total += _word_vector("\0" + text, self.dim)
        normalised: Vectors = total / np.float32(np.linalg.norm(total))
        return normalised

    def known_share(self, text: str) -> float:  # noqa: ARG002 - every word has a vector
        """1: it reads everything."""
        return 1.0

    def _cut(self, text: str) -> list[str]:
        words = text.split()
        if len(words) <= self._window:
            return [text]
        return [" ".join(words[start : start + self._window]) for start in range(0, len(words), self._window)]


class ScriptedExtractor:
    """Distils as told, and records the batches it saw in `batches`.

    Args:
        script: answers a batch with an extraction or with gems, or raises ExtractionError. None answers every call with
            one new random gem, as a language model would answer the same batch differently each time.
        name: what gems record as their model.
    """

    def __init__(
        self, script: Callable[[Batch], Extraction | Iterable[Gem]] | None = None, *, name: str = "scripted"
    ) -> None:
        self.name = name
        self.batches: list[Batch] = []
        self._script = script or self._improvise

    def extract(self, batch: Batch) -> Extraction:
        """What the script says."""
        self.batches.append(batch)
        answer = self._script(batch)
        return answer if isinstance(answer, Extraction) else Extraction(tuple(answer))

    def _improvise(self, batch: Batch) -> Sequence[Gem]:
        first, last = batch.turns[0], batch.turns[-1]
        content = f"Answer {uuid.uuid4().hex} to {len(batch.turns)} turns."
        source_turns = tuple(turn.turn_id for turn in batch.turns)
        return [
            Gem(
                gem_id=Gem.make_id(first.user_id, first.session_id, source_turns, content),
                content=content,
                source=Source(first.session_id, first.at().date().isoformat(), f"{first.index}-{last.index}"),
                source_turns=source_turns,
                created_at=last.at(),
                user_id=first.user_id,
                model=self.name,
            )
        ]


@dataclass(frozen=True)
class OllamaRequest:
    """What a client sent: path such as "/api/embed", JSON body (empty for a GET), headers by lower-case name."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class OllamaReply:
    """What the server does.

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

    @classmethod
    def error(cls, message: str, status: int = 500) -> OllamaReply:
        """An error as Ollama words it."""
        return cls({"error": message}, status)


class ScriptedOllama:
    """An HTTP server on this machine that answers like Ollama, or as told. A context manager.

        with ScriptedOllama() as server:
            server.script("/api/chat", [{"message": {"role": "assistant", "content": "[]"}, "done": True}])
            settings = Settings(ollama_url=server.url)

    Unscripted, it has its models embed (an input longer than the context is refused, or cut if the request allows it),
    lists and shows them, and tells a version; anything else is an error.

    Args:
        models: embedders by model name.
        context_length: tokens the models can hold.

    Attributes:
        url: where it listens.
        requests: what was asked, in order.
    """

    def __init__(self, models: Mapping[str, Embedder] | None = None, *, context_length: int = 8192) -> None:
        self.models = {"snowflake-arctic-embed2": FakeEmbedder()} if models is None else dict(models)
        self.context_length = context_length
        self.requests: list[OllamaRequest] = []
        self._scripts: dict[str, list[Any] | Callable[[OllamaRequest], Any]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def script(self, path: str, answers: Sequence[Any] | Callable[[OllamaRequest], Any]) -> None:
        """Answer the next requests to a path as told, instead of what was told before.

        Args:
            path: such as "/api/chat".
            answers: an OllamaReply or a JSON body for each of the next requests, or a function of the request that
                gives one. None, and the end of the list, leave the request to the unscripted behaviour.
        """
        with self._lock:
            self._scripts[path] = answers if callable(answers) else list(answers)

    def asked(self, path: str) -> list[OllamaRequest]:
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

    def _reply(self, request: OllamaRequest) -> OllamaReply:
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get(request.path)
            answer = script.pop(0) if isinstance(script, list) and script else None
        if callable(script):
            answer = script(request)
        if answer is None:
            answer = self._behave(request)
        return answer if isinstance(answer, OllamaReply) else OllamaReply(answer)

    def _behave(self, request: OllamaRequest) -> Any:
        if request.path == "/api/version":
            return {"version": "0.12.6"}
        if request.path == "/api/tags":
            return {"models": [{"model": f"{name}:latest", "digest": m.digest} for name, m in self.models.items()]}
        name = str(request.body.get("model", "")).removesuffix(":latest")
        if name not in self.models:
            return OllamaReply.error(f'model "{name}" not found, try pulling it first', 404)
        if request.path == "/api/show":
            return {"model_info": {"bert.context_length": self.context_length}, "capabilities": ["embedding"]}
        if request.path == "/api/embed":
            return self._embed(name, request.body)
        return OllamaReply.error(f"{request.path} is not scripted", 501)

    def _embed(self, name: str, body: Mapping[str, Any]) -> Any:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        longest = min(self.context_length, body.get("options", {}).get("num_ctx", 4096))
        if body.get("truncate", True):
            texts = [text[: longest * 4] for text in texts]
        elif any(count_tokens(text) > longest for text in texts):
            return OllamaReply.error("the input length exceeds the context length", 400)
        model = self.models[name]
        return {"model": name, "embeddings": means_of_chunks(model.embed_chunks(texts), model.dim).tolist()}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        ollama = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = ollama._reply(OllamaRequest(self.path, json.loads(body or b"{}"), headers))
                if ollama._closing.wait(reply.delay) or reply.drop:
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


@lru_cache(maxsize=65_536)
def _word_vector(word: str, dim: int) -> Vectors:
    bits = np.unpackbits(np.frombuffer(hashlib.shake_256(word.encode("utf-8", "replace")).digest(dim // 8), np.uint8))
    return bits.astype(np.float32) * 2 - 1
