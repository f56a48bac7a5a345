"""Which formats there are, and which one a file is in: told by what its records hold, not by its name."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from neuralstream.errors import LogFormatError
from neuralstream.logs import (
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    engram,
    locomo,
    longmemeval,
    memredis,
    native,
    openai,
    openclaw,
    sharegpt,
)
from neuralstream.logs.base import Log
from neuralstream.logs.files import log_files, read_lines, read_records
from neuralstream.logs.openclaw_database import is_database

__all__ = ["FORMATS", "detect_format"]

FORMATS = MappingProxyType(
    {
        chosen.name: chosen
        for chosen in (
            native.FORMAT,
            openclaw.FORMAT,
            claude_code.FORMAT,
            codex.FORMAT,
            chatgpt.FORMAT,
            claude_ai.FORMAT,
            engram.FORMAT,
            memredis.FORMAT,
            openai.FORMAT,
            sharegpt.FORMAT,
            locomo.FORMAT,
            longmemeval.FORMAT,
        )
    }
)
"""Every format by name."""

_PEEK = 50
"""Records looked at before a file counts as unknown; the first lines may be damaged."""


def detect_format(path: Path | str) -> str:
    """The name of the format that a log is in.

    Args:
        path: a file, or a folder of session files or of a data set.

    Raises:
        LogFormatError: it cannot be read, or is in no known format; the message says what was seen.
    """
    path = Path(path)
    if (path / native.CONVERSATIONS).is_dir():
        return native.FORMAT.name
    probe = Log(path, "unknown", lambda _: iter(()))
    files = log_files(probe)
    for file in files:
        if is_database(file):
            return openclaw.FORMAT.name
        # A damaged first line may look like the start of an array: then the lines are tried one by one.
        for lines_only in (False, True):
            for _, value in islice(read_records(probe, file, lines_only=lines_only), _PEEK):
                for chosen in FORMATS.values():
                    if chosen.recognises(value):
                        return chosen.name
    raise LogFormatError(
        f"{path} is in none of the known log formats ({', '.join(FORMATS)}): {_seen(probe, files[0])}; "
        "name its format (--format) where the command takes one"
    )


def _seen(probe: Log, file: Path) -> str:
    record = next(read_records(probe, file), None)
    if record is None:
        line = next(read_lines(probe, file), None)
        if line:
            return f"it starts with {line[1][:40]!r}, which is not JSON"
        return probe.problems[-1].reason if probe.problems else "it is empty"
    return f"its first record is {_outline(record.value)}"


def _outline(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:8])) or 'no key'}"
    return f"{str(value)[:40]!r}"
