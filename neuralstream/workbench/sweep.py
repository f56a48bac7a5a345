"""Sweeps: many configurations of one data set, each a run in a folder of its own, `OUT/<digest>/`.

A cell's folder appears whole or not at all, and its name is known before it is run, so running a sweep again runs what
is missing: after a kill, after a cell failed (`OUT/failed/<digest>.json` says why; it did not stop the others), after
the file was given more cells. Cells run in several processes, by joblib; those that can share a filled memory run in
the same one. All share embeddings (the cache on disk) and recorded answers (the cassette).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import InputError, MissingPartError
from neuralstream.workbench import datasets, require
from neuralstream.workbench.cells import Asked, Cell, CellMaker, grouped
from neuralstream.workbench.proposals import Proposals
from neuralstream.workbench.report import candidate
from neuralstream.workbench.runs import read_run
from neuralstream.workbench.sweep_file import read_sweep_file
from neuralstream.workbench.sweep_work import Outcome, Work, clear_shared, clear_work, embed_texts, is_done, run_cells

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.workbench.sweep_file import SweepFile, SweepPart

__all__ = ["Sweep", "Told", "sweep"]

Told = Callable[[int, int, float | None], object]
"""Told cells done, cells there are, and the seconds left at this pace (None before the first was run)."""

_CONNECT_SECONDS = 10
"""Longest wait for a Dask scheduler."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What running a file came to.

    Attributes:
        file: what was asked for.
        out: folder of the cells.
        cells: those that have a run, in the file's order.
        failed: why a cell has none, by its digest.
        passed_over: sweeps that were not run, with the file that they wait for.
        ran: cells that were run just now; the others were there.
        seconds: that took.
    """

    file: SweepFile
    out: Path
    cells: tuple[Cell, ...]
    failed: Mapping[str, str]
    passed_over: Mapping[str, Path]
    ran: int
    seconds: float


def sweep(
    file: Path | str,
    out: Path | str,
    base: Settings,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    told: Told | None = None,
) -> Sweep:
    """Run the cells of a file that `out` does not have yet.

    Args:
        file: YAML, as `sweep_file` says.
        out: folder of the cells; on Dask, one that every worker sees, as the data set and the settings' paths are.
        base: settings under those of the file.
        jobs: processes; None takes one a processor, on Dask all it has.
        dask: address of a Dask scheduler, instead of processes on this machine.
        told: how far it has come.

    Raises:
        InputError: the file is malformed, or names no data.
        SettingsError: a setting is unknown, malformed or out of range.
        MissingPartError: a package is not installed, or a server that names a model does not answer.
    """
    began = time.monotonic()
    described = read_sweep_file(file)
    place = Path(out).resolve()
    place.mkdir(parents=True, exist_ok=True)
    asked = Asked(described.modes, described.lanes, described.k, described.depth)
    maker = CellMaker(datasets.load(described.dataset), base, asked)
    ready = [part for part in described.sweeps if part.needs is None or part.needs.is_file()]
    grids = [part for part in ready if part.grid is not None]
    cells = [_cell(maker, described, part, varied) for part in grids for varied in part.combinations()]
    clear_work(place)
    with ExitStack() as opened:
        runner = _Runner(Work(described.dataset, asked, place), jobs, dask, told, opened)
        runner.run(cells)
        for part in ready:
            if part.sampler:
                _search(runner, maker, described, part)
    clear_shared(place)
    return Sweep(
        file=described,
        out=place,
        cells=tuple(cell for cell in runner.cells.values() if cell.digest not in runner.failed),
        failed=runner.failed,
        passed_over={part.name: part.needs for part in described.sweeps if part.needs and part not in ready},
        ran=runner.ran,
        seconds=time.monotonic() - began,
    )


def _cell(maker: CellMaker, described: SweepFile, part: SweepPart, varied: Mapping[str, Any]) -> Cell:
    return maker.cell(part.name, described.settings, part.settings, varied=varied)


def _search(runner: _Runner, maker: CellMaker, described: SweepFile, part: SweepPart) -> None:
    """Propose, run and tell until every trial is known. Told the same, a sampler proposes the same again."""
    proposals = Proposals(part)
    while proposed := proposals.next():
        cells = [_cell(maker, described, part, varied) for varied in proposed]
        runner.run(cells)
        proposals.tell([runner.value(cell, part.maximise or "") for cell in cells])


class _Runner:
    """Runs cells in other processes, those first that have no run yet."""

    def __init__(self, work: Work, jobs: int | None, dask: str | None, told: Told | None, opened: ExitStack) -> None:
        self._work = work
        self._jobs = jobs
        self._dask = dask
        self._told = told or (lambda _done, _total, _left: None)
        self._opened = opened
        self._connected = False
        self._spent = 0.0
        self.cells: dict[str, Cell] = {}
        self.failed: dict[str, str] = {}
        self.ran = 0

    def run(self, cells: Iterable[Cell]) -> None:
        """Run those that are missing; cells that are known already are one and the same."""
        new = [cell for cell in {one.digest: one for one in cells}.values() if cell.digest not in self.cells]
        self.cells |= {cell.digest: cell for cell in new}
        missing = [cell for cell in new if not is_done(self._work.out, cell)]
        left = len(missing)
        self._report(left)
        if not missing:
            return
        began = time.monotonic() - self._spent
        for outcomes in self._outcomes(missing):
            for outcome in outcomes:
                self.ran += 1
                left -= 1
                if outcome.error:
                    self.failed[outcome.digest] = outcome.error
            self._spent = time.monotonic() - began
            self._report(left)

    def value(self, cell: Cell, measure: str) -> float | None:
        """A measure of a cell's run, on the first lane and the mode that its settings name; None where it has no run.

        Raises:
            InputError: the run has no such measure.
        """
        if not is_done(self._work.out, cell):
            return None
        run = read_run(self._work.out / cell.digest)
        lane = run.lanes[0]
        measured = run.metrics["lanes"][lane][candidate(run, lane)]["overall"]
        if measure not in measured:
            raise InputError(f"maximise: {measure} is no measure of lane {lane}; use one of {', '.join(measured)}")
        return float(measured[measure])

    def _outcomes(self, missing: Sequence[Cell]) -> Iterator[list[Outcome]]:
        joblib = require("joblib")
        self._connect()
        with joblib.parallel_config("dask") if self._dask else joblib.parallel_config("loky", inner_max_num_threads=1):
            processes = joblib.effective_n_jobs(self._jobs or -1)
            parallel = joblib.Parallel(self._jobs or -1, return_as="generator_unordered", batch_size=1)
            if processes > 1:
                # Else every process would begin by embedding the same turns.
                texts = {one.settings.model_dump_json(include={"embedding", "embed"}): one.settings for one in missing}
                list(parallel(joblib.delayed(embed_texts)(self._work, settings) for settings in texts.values()))
            yield from parallel(
                joblib.delayed(run_cells)(self._work, group) for group in grouped(missing, at_least=processes)
            )

    def _connect(self) -> None:
        if self._dask is None or self._connected:
            return
        distributed = require("distributed")
        try:
            client = distributed.Client(self._dask, timeout=_CONNECT_SECONDS, set_as_default=True)
        except (OSError, ValueError) as error:
            raise MissingPartError(
                f"no Dask scheduler answers at {self._dask}: {error}; start one with `dask scheduler`"
            ) from error
        self._opened.callback(client.close)
        self._connected = True

    def _report(self, left: int) -> None:
        estimate = self._spent / self.ran * left if self.ran else None
        self._told(len(self.cells) - left, len(self.cells), estimate)
