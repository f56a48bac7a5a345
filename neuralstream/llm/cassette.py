"""Recorded answers of language models: a file of JSON lines, an answer each.

    {"key": …, "model": …, "about": {"prompt": "curator@1", "turns": […]}, "options": {…}, "answer": …,
     "finish": "stop", "prompt_tokens": 812, "answer_tokens": 96, "seconds": 4.1}

`key` is the SHA-256 of everything an answer depends on: model, system and user prompt, options, schema. What was asked
is not in the file, but answers repeat what was said. A line is written at once and flushed to the disk; a last line
that a crash has torn is not read, and cut off before the next is written. Several processes may record into one file:
each takes its lock to write. Of two answers to one question the first counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from neuralstream.config import LlmSettings
from neuralstream.errors import InputError
from neuralstream.files import write_whole
from neuralstream.llm.base import Request

__all__ = ["Cassette", "Recording", "key_of", "merge", "options_of"]


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Attributes:
        key: digest of what was asked.
        model: who answered.
        about: who asked, see `Request.about`.
        options: num_ctx, seed, temperature and max_tokens.
        answer: the text.
        finish: "stop", "length", or "overflow" where the server was found to have cut the prompt.
        prompt_tokens, answer_tokens, seconds: see `Answer`.
    """

    key: str
    model: str
    about: Mapping[str, Any]
    options: Mapping[str, Any]
    answer: str
    finish: Literal["stop", "length", "overflow"]
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0

    @classmethod
    def parse(cls, line: bytes) -> Recording:
        """Read a line.

        Raises:
            ValueError: it is not one.
        """
        try:
            recording = cls(**json.loads(line))
        except TypeError as error:
            raise ValueError(str(error)) from error
        if not isinstance(recording.key, str) or not isinstance(recording.about, dict):
            raise ValueError("key is no text, or about no object")  # noqa: TRY004 - the line is wrong, no argument
        return recording

    def line(self) -> bytes:
        """The recording as it stands in the file, with its line end."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"

    def concerns(self, turn_ids: Collection[str]) -> bool:
        """Whether one of these turns was read for the answer, to distil it or to understand the rest."""
        read = {*self.about.get("turns", ()), *self.about.get("history", ())}
        return not read.isdisjoint(turn_ids)


def options_of(request: Request, settings: LlmSettings) -> dict[str, Any]:
    """What beside the prompt decides an answer."""
    return {
        "num_ctx": settings.num_ctx,
        "seed": settings.seed,
        "temperature": float(settings.temperature),
        "max_tokens": request.max_tokens,
    }


def key_of(model: str, request: Request, options: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of model, prompts, options and schema."""
    asked = {
        "model": model,
        "system": request.system,
        "prompt": request.prompt,
        "options": dict(options),
        "schema": None if request.schema is None else dict(request.schema),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Cassette:
    """The recorded answers in a file. Threads may share it; other processes may write to the file meanwhile.

    Args:
        path: the file; it need not be there yet.

    Raises:
        InputError: a line is no recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._found: dict[str, Recording] = {}
        self._inode = 0
        self._read = 0
        self._refresh()

    def __len__(self) -> int:
        with self._lock:
            return len(self._found)

    def __iter__(self) -> Iterator[Recording]:
        with self._lock:
            return iter(list(self._found.values()))

    def find(self, key: str) -> Recording | None:
        """The answer to a question."""
        with self._lock:
            self._refresh()
            return self._found.get(key)

    def add(self, recording: Recording) -> Recording:
        """Write an answer down, unless there is one.

        Returns:
            What the file holds now: another's answer where another was quicker.
        """
        with self._lock, self._held() as file:
            self._refresh()
            known = self._found.get(recording.key)
            if known is not None:
                return known
            self._end_last_line(file)
            file.write(recording.line())
            file.flush()
            os.fsync(file.fileno())
            self._refresh()
            return recording

    def forget(self, turn_ids: Collection[str]) -> int:
        """Remove the answers that were made of these turns; the file is written anew.

        Returns:
            How many were removed.
        """
        with self._lock:
            if not self.path.exists():
                return 0
            with self._held():
                self._refresh()
                kept = [recording for recording in self._found.values() if not recording.concerns(turn_ids)]
                removed = len(self._found) - len(kept)
                if removed:
                    write_whole(self.path, (recording.line() for recording in kept))
                    self._refresh()
                return removed

    def mentions(self, turn_ids: Collection[str]) -> bool:
        """Whether an answer was made of one of these turns."""
        with self._lock:
            self._refresh()
            return any(recording.concerns(turn_ids) for recording in self._found.values())

    @contextmanager
    def _held(self) -> Iterator[IO[bytes]]:
        """The file, opened to append, with its lock; made where it is missing."""
        import fcntl  # where it is missing, cassettes can still be replayed

        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Whoever forgets puts another file in its place: a lock on the old one would guard nothing.
                if self.path.exists() and os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                    yield file
                    return

    def _refresh(self) -> None:
        """Read what was added since; everything where the file is another one."""
        try:
            with self.path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                size = os.fstat(file.fileno()).st_size
                if inode != self._inode or size < self._read:
                    self._inode, self._read, self._found = inode, 0, {}
                file.seek(self._read)
                new = file.read(size - self._read)
        except FileNotFoundError:
            self._inode, self._read, self._found = 0, 0, {}
            return
        *lines, tail = new.split(b"\n")
        self._read += len(new) - len(tail)
        for line in lines:
            self._keep(_parse(line, self.path))
        if _is_whole(tail):
            self._keep(_parse(tail, self.path))

    def _keep(self, recording: Recording) -> None:
        self._found.setdefault(recording.key, recording)

    def _end_last_line(self, file: IO[bytes]) -> None:
        """Writers hold the lock, so that a last line without an end is what a crash, or an editor, left."""
        file.seek(self._read)
        tail = file.read()
        if _is_whole(tail):
            file.write(b"\n")
        elif tail:
            file.truncate(self._read)


def merge(paths: Sequence[Path], out: Path) -> int:
    """Join cassettes into one, ordered by key, so that the order of recording leaves no trace.

    Args:
        paths: where two files answer one question, the first counts.
        out: may be one of them.

    Returns:
        How many answers it holds.

    Raises:
        InputError: a file is missing, or a line is no recording.
    """
    merged: dict[str, Recording] = {}
    for path in paths:
        if not path.is_file():
            raise InputError(f"there is no cassette {path}; record one with --set llm.mode=record")
        for recording in Cassette(path):
            merged.setdefault(recording.key, recording)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, (merged[key].line() for key in sorted(merged)))
    return len(merged)


def _is_whole(line: bytes) -> bool:
    try:
        Recording.parse(line)
    except ValueError:
        return False
    return True


def _parse(line: bytes, path: Path) -> Recording:
    try:
        return Recording.parse(line)
    except ValueError as error:
        raise InputError(f"{path} has a line that is no recorded answer ({error}): {line[:80]!r}; remove it") from error
