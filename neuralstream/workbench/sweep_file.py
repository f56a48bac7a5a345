"""The file that describes sweeps: a data set, settings that are fixed, and what is varied.

    dataset: workdays@dev              # SPEC
    lanes: [gems]                      # and modes, k, depth: as `eval` takes them, for every cell
    settings: {context_window: 2048}   # of every cell; names are nested or dotted
    sweeps:
      - name: capture
        grid: {batch_size: [5, 10, 20], context_threshold: [40, 60, 80]}
      - name: fusion
        sampler: tpe                   # or random: Optuna proposes `trials` cells
        trials: 40
        maximise: nDCG@10
        space: {retrieval.exchange.weights.dense: {low: 0, high: 1}}

A cell's settings are those of the command line and its file, then the file's, then the sweep's, then the varied ones.
Paths in the file are relative to its folder. A name that is unknown is refused, wherever it stands.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from neuralstream.config import Settings
from neuralstream.errors import InputError, SettingsError
from neuralstream.types import Lane
from neuralstream.workbench import require
from neuralstream.workbench.evaluate import DEPTH, MODES

__all__ = ["Range", "SweepFile", "SweepPart", "read_sweep_file", "settings_of"]

_PATHS = ("llm.cassette", "extract.prompts", "retrieval.reranker")
"""Settings that name a file or folder, and that a sweep may vary."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Range(_Strict):
    """Numbers that a sampler draws from: `low`, `low + step`, and so on, whole ones where the step is; any without."""

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if self.log and (self.step is not None or self.low <= 0):
            raise ValueError("a logarithmic range has no step and begins above 0")
        if isinstance(self.step, int) and (self.low % 1 or self.high % 1):
            raise ValueError(f"a whole step needs whole ends, got low {self.low} and high {self.high}")
        return self


_Drawn = Annotated[
    Annotated[Range, Tag("range")] | Annotated[list[Any], Tag("choice")],
    Discriminator(lambda value: "choice" if isinstance(value, list) else "range"),
]


class SweepPart(_Strict):
    """One sweep of a file: the product of a grid, or what a sampler proposes.

    Attributes:
        name: for reports.
        needs: a file without which this sweep is passed over, such as recorded answers.
        settings: of this sweep's cells.
        grid: by setting, the values it takes.
        sampler: Optuna's, instead of a grid; `space` says what it draws, a list being a choice.
        trials: cells it proposes.
        at_once: cells proposed before the first of them is known; the same number gives the same cells again.
        maximise: the measure it looks at, on the first lane and the mode that the settings name.
        seed: of the sampler.
    """

    name: str = Field(min_length=1)
    needs: Path | None = None
    settings: dict[str, Any] = {}
    grid: dict[str, list[Any]] | None = None
    sampler: Literal["tpe", "random"] | None = None
    space: dict[str, _Drawn] | None = None
    trials: int = Field(20, ge=1)
    at_once: int = Field(4, ge=1)
    maximise: str | None = None
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.grid is None) == (self.sampler is None):
            raise ValueError("a sweep has a grid, or a sampler with its space; give one of the two")
        if self.sampler and not (self.space and self.maximise):
            raise ValueError("a sampler draws from a space and maximises a measure; give space and maximise")
        if self.grid is not None:
            idle = sorted(self.model_fields_set & {"space", "trials", "at_once", "maximise", "seed"})
            if idle:
                raise ValueError(f"{', '.join(idle)} belong to a sampler, and this is a grid")
        empty = [name for name, values in {**(self.grid or {}), **(self.space or {})}.items() if values == []]
        if empty:
            raise ValueError(f"{', '.join(empty)} has no value")
        return self

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The grid's cells, the last name varying fastest."""
        grid = self.grid or {}
        for values in itertools.product(*grid.values()):
            yield dict(zip(grid, values, strict=True))


class SweepFile(_Strict):
    """A whole file.

    Attributes:
        dataset: SPEC of labelled logs.
        lanes, modes, k, depth: as `evaluate` takes them.
        measure: what the table is ordered by; None takes the first lane's headline measure.
        settings: of every cell.
        sweeps: at least one.
    """

    dataset: str
    lanes: tuple[Lane, ...] = Field(("gems",), min_length=1)
    modes: tuple[str, ...] = Field(MODES, min_length=1)
    k: int = Field(10, ge=1)
    depth: int = Field(DEPTH, ge=1)
    measure: str | None = None
    settings: dict[str, Any] = {}
    sweeps: tuple[SweepPart, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [part.name for part in self.sweeps]
        if len(set(names)) < len(names):
            raise ValueError(f"two sweeps have one name: {', '.join(names)}; rename one")
        return self


def read_sweep_file(file: Path | str) -> SweepFile:
    """Read and check a file; `needs` and settings that are paths become relative to the working folder.

    Raises:
        InputError: it cannot be read, is not YAML, or holds an unknown or malformed key.
        MissingPartError: PyYAML is not installed.
    """
    yaml = require("yaml")
    file = Path(file)
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise InputError(f"{file} describes no sweep: it needs dataset and sweeps at the top, got {found!r}")
    try:
        read = SweepFile.model_validate(found)
    except ValidationError as error:
        raise InputError("\n".join(f"{file}: {line}" for line in _explained(error))) from None
    return read.model_copy(
        update={
            "settings": _placed(read.settings, file.parent),
            "sweeps": tuple(_part_placed(part, file.parent) for part in read.sweeps),
        }
    )


def settings_of(base: Settings, *layers: Mapping[str, Any]) -> Settings:
    """`base` with settings put over it, by dotted or nested names; later layers win.

    A single weight can be named (`retrieval.exchange.weights.dense`); the others stay.

    Raises:
        SettingsError: a name is unknown, or a value is malformed or out of range.
    """
    merged: dict[str, Any] = base.model_dump()
    for layer in layers:
        for name, value in _flat(layer):
            *tables, key = name
            place = merged
            for table in tables:
                place = place.setdefault(table, {})
                if not isinstance(place, dict):
                    raise SettingsError(f"{'.'.join(name)} names a key of {table}, which is a value and no table")
            place[key] = value
    return Settings(**merged)


def _flat(layer: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting by its path. Weights under their own name are one value: a mapping that names all that count."""
    for name, value in layer.items():
        path = (*above, *str(name).split("."))
        if isinstance(value, Mapping) and path[-1] != "weights":
            yield from _flat(value, path)
        else:
            yield path, value


def _placed(layer: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return {".".join(path): _beside(".".join(path), value, folder) for path, value in _flat(layer)}


def _part_placed(part: SweepPart, folder: Path) -> SweepPart:
    update: dict[str, Any] = {"settings": _placed(part.settings, folder)}
    if part.needs:
        update["needs"] = folder / part.needs.expanduser()
    if part.grid:
        update["grid"] = {name: [_beside(name, one, folder) for one in part.grid[name]] for name in part.grid}
    return part.model_copy(update=update)


def _beside(name: str, value: Any, folder: Path) -> Any:
    if name not in _PATHS or not isinstance(value, str):
        return value
    return os.path.normpath(folder / Path(value).expanduser())


def _explained(error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"] if part not in {"range", "choice"})
        if problem["type"] == "extra_forbidden":
            yield f"unknown key {place!r}; use {', '.join(_keys(problem['loc']))}"
        elif problem["type"] == "missing":
            yield f"{place} is missing"
        elif problem["type"] != "too_short" or not problem["input"]:  # items that are wrong do not count as items
            yield f"{place or 'the file'}: {problem['msg'].removeprefix('Value error, ')}"


def _keys(place: Sequence[int | str]) -> list[str]:
    """What may stand where an unknown key stands."""
    model: type[BaseModel] = SweepFile if len(place) == 1 else SweepPart if len(place) == 3 else Range
    return list(model.model_fields)
