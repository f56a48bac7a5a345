"""Finding a run: its own folder, or a sweep's folder followed by the first characters of the run's digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neuralstream.config import Settings
from neuralstream.errors import NotFoundError
from neuralstream.workbench.runs import read_run

if TYPE_CHECKING:
    from neuralstream.workbench.runs import Run

__all__ = ["open_run", "run_settings", "spec_of", "swept_with"]

COMPLETE = "metrics.json"
"""The file of a run that is written last."""

SWEEP = "sweep.json"
"""What tells a sweep's folder from others."""


def open_run(path: Path | str) -> Run:
    """The run at `path`, a folder or SWEEP/PREFIX.

    Raises:
        NotFoundError: no run, or more than one, is there.
    """
    path = Path(path)
    if path.exists() or not path.parent.is_dir():
        return read_run(path)
    found = sorted(folder.parent for folder in path.parent.glob(f"{_plain(path.name)}*/{COMPLETE}"))
    if len(found) == 1:
        return read_run(found[0])
    if not found:
        raise NotFoundError(
            f"there is no run {path}; make one with `neuralstream eval --dataset SPEC --out {path}`, or name a run's "
            "folder, or the beginning of its digest"
        )
    runs = ", ".join(folder.name for folder in found)
    raise NotFoundError(f"{path} names {len(found)} runs ({runs}); name a run's folder, or enough of its digest")


def swept_with(run: Run) -> list[Run]:
    """The other runs of the sweep that a run belongs to, on the same data; none where it belongs to none."""
    folder = run.path.absolute().parent
    if not (folder / SWEEP).is_file():
        return []
    others = (read_run(file.parent) for file in sorted(folder.glob(f"*/{COMPLETE}")))
    return [
        other
        for other in others
        if other.manifest["run"] != run.manifest["run"]
        and other.manifest["dataset"]["sha256"] == run.manifest["dataset"]["sha256"]
    ]


def run_settings(run: Run) -> Settings:
    """What a run measured: its settings as far as they can change a result, all others as by default.

    Raises:
        SettingsError: it was made by a version with other settings.
    """
    recorded = run.manifest["settings"]
    return Settings(**{name: recorded[name] for name in Settings().deciding() if name in recorded})


def spec_of(run: Run) -> str:
    """The SPEC of the data set that a run was made on."""
    data = run.manifest["dataset"]
    if data["shipped"]:
        return str(data["name"])
    return f"{data['format']}:{data['path']}" + (f"@{data['split']}" if data["split"] else "")


def _plain(name: str) -> str:
    """A name in which nothing is a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
