"""One's own logs as a labelled set's folder in the native format, and the lines that are added to it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neuralstream.capture.intake import prepare
from neuralstream.clock import utc_now
from neuralstream.errors import DatasetError
from neuralstream.files import write_whole
from neuralstream.logs import FORMATS, detect_format, read_log
from neuralstream.logs.native import CONVERSATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from neuralstream.config import Settings
    from neuralstream.logs.base import Unit
    from neuralstream.types import Turn

__all__ = ["append_line", "read_lines", "read_own_logs", "write_set"]


def read_own_logs(
    logs: Iterable[Path], settings: Settings, *, log_format: str, unit: Unit | None, by_file: bool
) -> dict[str, list[Turn]]:
    """The turns of logs by user, in the order of time, as capture would keep them: cleaned, their secrets masked.

    Args:
        logs: files, or folders of files.
        settings: what capture masks and cuts, and whose turns they are where the logs name nobody.
        log_format, unit: as `read_log` takes them.
        by_file: each file is a conversation of its own, as where each is another person's.

    Raises:
        DatasetError: there is no turn in them, or by file two people would have one name.
        LogFormatError: one cannot be read.
    """
    turns: dict[str, dict[str, Turn]] = {}
    folder_of: dict[str, Path] = {}
    for path in _files(logs, log_format, by_file=by_file):
        person = path.name.partition(".")[0]
        if by_file and folder_of.setdefault(person, path.parent) != path.parent:
            raise DatasetError(
                f"{folder_of[person]} and {path.parent} each hold a file of {person}, and by file they would be one "
                "person; give the files their people's names"
            )
        log = read_log(path, log_format, user_id=settings.user_id, unit=unit, max_tool_chars=settings.max_tool_chars)
        for turn in log:
            kept = prepare(turn, settings, utc_now())
            if kept:
                # The name becomes a file's.
                user = quote(person if by_file else kept.user_id, safe="")
                turns.setdefault(user, {}).setdefault(kept.turn_id, replace(kept, user_id=user))
    if not turns:
        raise DatasetError(f"no turn to label in {', '.join(map(str, logs))}; name logs that `replay` can read")
    return {user: sorted(held.values(), key=lambda turn: turn.at()) for user, held in sorted(turns.items())}


def _files(logs: Iterable[Path], log_format: str, *, by_file: bool) -> Iterator[Path]:
    """What to read one by one: a format that knows no folders has its files read, as by hand."""
    for path in logs:
        one = not path.is_dir()
        if not one and not by_file:
            name = detect_format(path) if log_format == "auto" else log_format
            one = name in FORMATS and FORMATS[name].folders
        if one:
            yield path
        else:
            yield from sorted(file for file in path.rglob("*.json*") if file.is_file())


def write_set(folder: Path, conversations: Mapping[str, Sequence[Turn]]) -> None:
    """Write conversations into a set's folder, made where there is none; labels that are there stay.

    A label that a killed process left half written is taken away.

    Raises:
        DatasetError: the folder holds turns that these conversations do not have.
    """
    (folder / CONVERSATIONS).mkdir(parents=True, exist_ok=True)
    (folder / "queries").mkdir(exist_ok=True)
    held = {file.stem for file in (folder / CONVERSATIONS).glob("*.jsonl")}
    if held - conversations.keys():
        others = ", ".join(sorted(held - conversations.keys()))
        raise DatasetError(
            f"{folder} holds conversations of {others}, which these logs do not have; name the same logs as before, or "
            "another folder"
        )
    for user, turns in conversations.items():
        file = folder / CONVERSATIONS / f"{user}.jsonl"
        gone = {row["turn_id"] for row in read_lines(file)} - {turn.turn_id for turn in turns}
        if gone:
            raise DatasetError(
                f"{file} holds {len(gone)} turns that these logs do not have, and labels may cite them; name the same "
                "logs as before, or another folder"
            )
        lines = "".join(json.dumps(turn.to_dict(), ensure_ascii=False) + "\n" for turn in turns)
        write_whole(file, [lines.encode()])
    for file in (folder / "queries").glob("*.jsonl"):
        read_lines(file)
    about = folder / "dataset.json"
    if not about.is_file():
        told = {
            "name": folder.name,
            "description": "Questions about our own logs, labelled with `neuralstream datasets label`.",
            "licence": "LicenseRef-proprietary",
            "languages": [],
        }
        write_whole(about, [json.dumps(told, indent=2).encode() + b"\n"])


def read_lines(file: Path) -> list[dict[str, Any]]:
    """A JSONL file's objects, none where there is no file; a last line that was left half written is taken away."""
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_whole(file, [whole.encode()])
    return [json.loads(line) for line in whole.splitlines()]


def append_line(file: Path, row: Mapping[str, Any]) -> None:
    """Add an object to a JSONL file; it is on disk on return."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
        out.flush()
        os.fsync(out.fileno())
