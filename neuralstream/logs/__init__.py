"""Reading conversation logs: one module per format, each giving turns."""

from __future__ import annotations

from pathlib import Path

from neuralstream.errors import InputError, LogFormatError
from neuralstream.logs import native
from neuralstream.logs.base import Conversation, Log, Problem, Question, Unit
from neuralstream.logs.detect import FORMATS, detect_format

__all__ = ["FORMATS", "Conversation", "Log", "Problem", "Question", "detect_format", "read_log"]

AUTO = "auto"


def read_log(
    path: Path | str,
    format: str = AUTO,  # noqa: A002 - the word users know from `--format`
    *,
    user_id: str = "default",
    unit: Unit | None = None,
    max_tool_chars: int = 400,
    branches: bool = False,
) -> Log:
    """A log to iterate over. Reading it again gives the same turn ids, also after it has grown.

    A turn that was read before its reply was written keeps its id, so a memory that has it does not take the reply in:
    read a log when its session has paused.

    Args:
        path: a file, plain or gzip; or a folder, whose session files are read in order of their names.
        format: a name of `FORMATS`, or "auto".
        user_id: whose turns they are, where the log names nobody.
        unit: what a turn is; None is the format's own.
        max_tool_chars: characters kept of a tool's result; 0 keeps the call alone.
        branches: also read the branches that a conversation left.

    Raises:
        LogFormatError: the log does not exist, or its format is unknown.
        InputError: a unit is asked of a native log, which holds turns already.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise LogFormatError(f"no log at {path}; name an existing file or folder")
    name = detect_format(path) if format == AUTO else format
    if name not in FORMATS:
        raise LogFormatError(f"log format {name!r} is unknown; use {AUTO} or one of {', '.join(FORMATS)}")
    chosen = FORMATS[name]
    if path.is_dir() and not chosen.folders:
        raise LogFormatError(f"{path} is a folder, and a {name} log is a file; name the file")
    if unit and chosen is native.FORMAT:
        raise InputError(f"{path} holds turns already, so the unit {unit!r} cannot be applied; leave it out")
    return Log(path, name, chosen.read, user_id, unit or chosen.unit, max_tool_chars, branches)
