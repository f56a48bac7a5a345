"""What Optuna proposes: the cells of a sweep whose space is too large for a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neuralstream.workbench import require

if TYPE_CHECKING:
    from neuralstream.workbench.sweep_file import SweepPart

__all__ = ["Proposals"]


class Proposals:
    """Settings to try, some at a time; what they were worth decides what comes next.

    The same seed, told the same, proposes the same: that is how a sweep is taken up again.

    Args:
        part: a sweep with a sampler.

    Raises:
        MissingPartError: Optuna is not installed.
    """

    def __init__(self, part: SweepPart) -> None:
        self._part = part
        self._optuna = require("optuna")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        samplers = self._optuna.samplers
        sampler = samplers.TPESampler if part.sampler == "tpe" else samplers.RandomSampler
        self._study = self._optuna.create_study(direction="maximize", sampler=sampler(seed=part.seed))
        self._asked: list[Any] = []

    def next(self) -> list[dict[str, Any]]:
        """The next settings to try, by dotted name; none where all trials were asked for."""
        left = self._part.trials - len(self._study.trials)
        self._asked = [self._study.ask() for _ in range(min(self._part.at_once, left))]
        return [{name: self._drawn(trial, name) for name in self._part.space or {}} for trial in self._asked]

    def tell(self, values: Sequence[float | None]) -> None:
        """What those that `next` gave were worth, in its order; None for one that could not be run."""
        failed = self._optuna.trial.TrialState.FAIL
        for trial, value in zip(self._asked, values, strict=True):
            self._study.tell(trial, value, state=failed if value is None else None)

    def _drawn(self, trial: Any, name: str) -> Any:
        space = (self._part.space or {})[name]
        if isinstance(space, list):
            # Optuna's choices are plain values; a choice may be a mapping, such as weights.
            return space[trial.suggest_categorical(name, list(range(len(space))))]
        if isinstance(space.step, int):
            return trial.suggest_int(name, int(space.low), int(space.high), step=space.step)
        return trial.suggest_float(name, space.low, space.high, step=space.step, log=space.log)
