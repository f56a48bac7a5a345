"""What a sweep's processes do: fill a memory, ask it as each of its cells says, write the runs.

    OUT/<digest>/              a cell's run, with its summary.md
    OUT/failed/<digest>.json   why a cell has none; gone once it has
    OUT/.work/                 what is being worked on, by machine and process
    OUT/.shared/               answers that cells share, until the sweep is through

A process works on cells that can share a memory, one after the other.
"""

from __future__ import annotations

import os
import platform
import shutil
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.config import Settings
from neuralstream.errors import CassetteMissError, InputError
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.prepared import prepared_memory
from neuralstream.workbench.recorded import how_to_record
from neuralstream.workbench.report import write_markdown
from neuralstream.workbench.runs import pretty, write_text
from neuralstream.workbench.shared_answers import SharedAnswers

if TYPE_CHECKING:
    from neuralstream.embed.base import Embedder
    from neuralstream.workbench.cells import Asked, Cell
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.prepared import Prepared

__all__ = ["FAILED", "Outcome", "Work", "clear_shared", "clear_work", "embed_texts", "is_done", "run_cells"]

FAILED = "failed"
_WORK = ".work"
_SHARED = ".shared"


class Work(NamedTuple):
    """What is the same for every cell: the data set's SPEC, what is asked, and where runs are written."""

    spec: str
    asked: Asked
    out: Path


class Outcome(NamedTuple):
    """What became of a cell; `error` is empty where it has a run now."""

    digest: str
    error: str


def is_done(out: Path, cell: Cell) -> bool:
    """Whether a cell has its run: a folder is renamed into place when it is whole."""
    return (out / cell.digest / "metrics.json").is_file()


def embed_texts(work: Work, settings: Settings) -> None:
    """Put the vectors of a data set's turns and questions into the cache on disk, those that are not there yet."""
    from neuralstream.indexing import texts_of

    if not settings.embed.cache:
        return
    dataset = _dataset(work.spec)
    with _embedder(settings) as embedder:
        embedder.embed_chunks([text for one in dataset.conversations for turn in one.turns for text in texts_of(turn)])
        for _, question in dataset.questions():
            embedder.embed_query(question.text)
            # It needs the model itself, which a warm cache does not: joblib takes a process's size after its first task
            # for its usual one, and ends a process that grows by a model later.
            embedder.known_share(question.text)


def run_cells(work: Work, cells: Sequence[Cell]) -> list[Outcome]:
    """Run cells that can share a memory. What goes wrong with one is written down and does not stop the others."""
    outcomes = []
    prepared: Prepared | None = None
    with ExitStack() as opened:
        for cell in cells:
            try:
                prepared = prepared or opened.enter_context(_filled(work, cell))
                _run(work, cell, prepared)
            except Exception as error:  # noqa: BLE001 - the cell's boundary: no error of one may stop the others
                outcomes.append(_failed(work, cell, error))
            else:
                (work.out / FAILED / f"{cell.digest}.json").unlink(missing_ok=True)
                outcomes.append(Outcome(cell.digest, ""))
    return outcomes


def clear_work(out: Path) -> None:
    """Remove what processes of this machine left that are no more, and end the servers that they left running."""
    from neuralstream.capture.valkey import EmbeddedValkey

    for folder in (out / _WORK).glob(f"{platform.node()}-*-*"):
        process = folder.name.removeprefix(f"{platform.node()}-").partition("-")[0]
        if process.isdecimal() and not _lives(int(process)):
            for buffer in folder.rglob("buffer"):
                # Who opens it last closes it.
                EmbeddedValkey(Settings(home=buffer.parent)).close()
            shutil.rmtree(folder, ignore_errors=True)


def clear_shared(out: Path) -> None:
    """Remove shared answers: a sweep is through, and what others may still be working on stays."""
    shutil.rmtree(out / _SHARED, ignore_errors=True)
    with suppress(OSError):
        (out / _WORK).rmdir()  # refused where another process still works


@contextmanager
def _filled(work: Work, cell: Cell) -> Iterator[Prepared]:
    with _working_folder(work.out, cell.filled) as folder, _embedder(cell.settings) as embedder:
        dataset = _dataset(work.spec)
        with prepared_memory(dataset, cell.settings, folder, lanes=work.asked.lanes, embedder=embedder) as prepared:
            yield prepared


def _run(work: Work, cell: Cell, prepared: Prepared) -> None:
    dataset, asked = _dataset(work.spec), work.asked
    shared = SharedAnswers(work.out / _SHARED, cell.settings, dataset.sha256, k=asked.k, depth=asked.depth)
    with _working_folder(work.out, cell.digest) as folder:
        run = evaluate(dataset, cell.settings, out=folder, prepared=prepared, shared=shared, **asked._asdict())
        if run.manifest["run"] != cell.digest:
            raise InputError(
                f"the run is {run.manifest['run']} and not {cell.digest}: data, code or recorded answers changed while "
                "the sweep ran; run it again"
            )
        write_markdown(run, folder / "summary.md")
        try:
            folder.rename(work.out / cell.digest)
        except OSError:
            # Where another process put it there meanwhile, it says the same.
            if not is_done(work.out, cell):
                raise


def _failed(work: Work, cell: Cell, error: Exception) -> Outcome:
    if isinstance(error, CassetteMissError):
        said = how_to_record(work.spec, cell.settings.retrieval.mode, cell.settings)
    else:
        said = str(error) or type(error).__name__
    about = {
        "digest": cell.digest,
        "sweep": cell.sweep,
        "varied": cell.varied,
        "settings": cell.settings.deciding(),
        "error": said,
        "traceback": traceback.format_exception(error),
    }
    (work.out / FAILED).mkdir(exist_ok=True)
    write_text(work.out / FAILED / f"{cell.digest}.json", pretty(about))
    return Outcome(cell.digest, said)


@contextmanager
def _working_folder(out: Path, name: str) -> Iterator[Path]:
    """A folder of this process, gone afterwards."""
    folder = out / _WORK / f"{platform.node()}-{os.getpid()}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=1)
def _dataset(spec: str) -> Dataset:
    return datasets.load(spec)


@contextmanager
def _embedder(settings: Settings) -> Iterator[Embedder]:
    from neuralstream.embed import make_embedder

    embedder = make_embedder(settings)
    try:
        yield embedder
    finally:
        getattr(embedder, "close", lambda: None)()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
