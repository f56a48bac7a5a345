"""What notebooks call, so that they hold parameters, calls, tables, pictures and prose; and how one is run.

Parameters cannot be mistaken: `check_parameters` fails by name on one that the notebook does not declare, whoever runs
it; `run_notebook` fails before a kernel starts, and calls it a success only when the result file echoes them.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import InputError, NeuralStreamError
from neuralstream.shipped import CHECKOUT, SHIPPED
from neuralstream.workbench import figures, require
from neuralstream.workbench.datasets import description
from neuralstream.workbench.page import failing_html
from neuralstream.workbench.runs import pretty, write_text

if TYPE_CHECKING:
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.evaluate import Progress
    from neuralstream.workbench.runs import QueryResult

__all__ = [
    "check_parameters",
    "failures",
    "held_out",
    "names",
    "output_folder",
    "picture",
    "plain_progress",
    "run_notebook",
    "table",
    "write_result",
]

RESULT = "result.json"

_LAST = "test"
"""The split that nothing is chosen on."""

_INJECTED = "# Parameters"
"""First line of the cell that papermill injects."""

_NOTEBOOKS = SHIPPED / "notebooks"
_RUNS = (CHECKOUT or Path()) / "reports" / "runs"
_PROGRESS_SECONDS = 15.0


def check_parameters(**declared: Any) -> dict[str, Any]:
    """Fail by name on an injected parameter that is not declared or of another type; called in the cell after them.

    Text is read as the declared default's type, whoever injected it: plain papermill passes `bm25,hybrid` as it stands.

    JupyterLab starts a kernel beside the notebook, commands are given in the checkout: from here on the working folder
    is the checkout in both, so that a path, and `neuralstream.toml`, means the same.

    Args:
        declared: every parameter under its own name.

    Returns:
        The parameters, for `write_result` to echo.

    Raises:
        InputError: an injected name is none of them, or its value is of another type.
    """
    for defaults, cell in pairwise(_executed_cells()):
        if cell.startswith(_INJECTED):
            injected = _assigned(cell)
            _refuse_unknown(injected, declared)
            read = {name: _coerce(name, value, _assigned(defaults).get(name)) for name, value in injected.items()}
            declared |= read
            require("IPython").get_ipython().user_ns.update(read)
    if CHECKOUT and Path.cwd() == CHECKOUT / _NOTEBOOKS.name:
        os.chdir(CHECKOUT)
    return declared


def names(value: str | Sequence[str]) -> tuple[str, ...]:
    """A list of names, also written as one text with commas, as a command line does."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in parts if name.strip())


def output_folder(out: str, name: str) -> Path:
    """The folder `out`, made if it is missing; empty means `reports/runs/NAME`, in a checkout or the working folder."""
    folder = Path(out).expanduser() if out else _RUNS / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def table(rows: Sequence[Sequence[Any]]) -> Any:
    """Rows under a header as a pandas data frame; one measure has three decimals."""
    frame = require("pandas").DataFrame(rows[1:], columns=rows[0], dtype=object)
    return frame.style.format(precision=3, na_rep="–").hide(axis="index")


def picture(figure: Any) -> Any:
    """A matplotlib figure as a picture that stays sharp in print."""
    return require("IPython.display").SVG(figures.svg(figure))


def failures(failed: Sequence[QueryResult], dataset: Dataset) -> Any:
    """Failing queries to open and read: what was asked, what should have been, what came with each signal's score."""
    return require("IPython.display").HTML(failing_html(failed, dataset))


def plain_progress() -> Progress:
    """Progress as a printed line every few seconds, which reads well in a stored output too."""
    printed_at = time.monotonic()

    def report(stage: str, done: int, total: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= _PROGRESS_SECONDS or done == total:
            printed_at = time.monotonic()
            print(f"{stage}: {done} of {total}", flush=True)  # noqa: T201 - a notebook's output is what it prints

    return report


def held_out(named: str, data: Dataset) -> str:
    """The SPEC of what is kept for the end: `named`, or where that is empty the split `test` of the same set.

    Empty where the set has no such split, or is it.
    """
    spec = data.spec
    if named or spec.split in {None, _LAST} or _LAST not in description(spec).get("splits", {}):
        return named
    return f"{spec.format}:{spec.path}@{_LAST}"


def write_result(folder: Path, parameters: Mapping[str, Any], **found: Any) -> Path:
    """Write `result.json`: the parameters as they were, and what came out. Written last, it says the work is done."""
    return write_text(folder / RESULT, pretty({"parameters": dict(parameters), **found}))


def run_notebook(path: Path | str, parameters: Mapping[str, Any], out: Path | str | None = None) -> dict[str, Any]:
    """Run a notebook with papermill.

    Args:
        path: an .ipynb file with a cell tagged `parameters` that declares at least `out`, the folder of its results; or
            the name of a shipped one, such as `02_compare_retrievers`.
        parameters: values by name. Text is read as the declared default's type, as a command line needs it.
        out: the executed notebook; None puts it into the results' folder.

    Returns:
        What the notebook wrote to its result file.

    Raises:
        InputError: a parameter is not declared or of another type, or the notebook declares none.
        NeuralStreamError: a cell failed, or no result file echoes the parameters.
    """
    path = _shipped().get(str(path), Path(path))
    defaults = _declared(path)
    _refuse_unknown(parameters, defaults)
    values = {name: _coerce(name, value, defaults[name]) for name, value in parameters.items()}
    folder = output_folder(values.get("out", defaults["out"]), path.stem).resolve()
    values["out"] = str(folder)
    executed = Path(out) if out else folder / path.name
    (folder / RESULT).unlink(missing_ok=True)
    papermill = require("papermill")
    try:
        papermill.execute_notebook(
            str(path), str(executed), parameters=values, progress_bar=sys.stderr.isatty(), log_output=False
        )
    except papermill.PapermillExecutionError as error:
        raise NeuralStreamError(
            f"{path.name} failed in cell {error.exec_count}: {error.ename}: {error.evalue}; see {executed}"
        ) from error
    return _echoed(folder / RESULT, values)


def _shipped() -> dict[str, Path]:
    """The notebooks that come with NeuralStream, by name."""
    return {file.stem: file for file in sorted(_NOTEBOOKS.glob("*.ipynb"))}


def _declared(path: Path) -> dict[str, Any]:
    """Defaults of the parameters that a notebook declares, by name, in order."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        shipped = ", ".join(_shipped())
        raise InputError(f"{path} is not a notebook: {error}; name an .ipynb file, or one of {shipped}") from error
    for cell in cells:
        if "parameters" in cell["metadata"].get("tags", []):
            declared = _assigned("".join(cell["source"]))
            if "out" in declared:
                return declared
    raise InputError(f"{path} has no cell tagged `parameters` that declares `out`; tag it in JupyterLab's side bar")


def _assigned(source: str) -> dict[str, Any]:
    """Names and literals that a cell assigns, by `ast`: papermill's own reading trips over `=` and `#` in values."""
    found = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id] = ast.literal_eval(statement.value)
    return found


def _refuse_unknown(given: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    for name in given:
        if name not in declared:
            near = difflib.get_close_matches(name, declared, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(f"parameter {name!r} is not declared; {meant}the notebook declares {', '.join(declared)}")


def _coerce(name: str, value: Any, default: Any) -> Any:
    """A value as papermill can write it: plain Python of the declared default's type."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # numpy numbers and arrays
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str) and isinstance(default, list):
        value = names(value)
    if isinstance(value, tuple | list):
        member = default[0] if isinstance(default, list) and default else None
        value = [_coerce(name, one, member) for one in value]
    if isinstance(value, str) and not isinstance(default, str | None):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            raise InputError(f"parameter {name} = {value!r}: write a value like {default!r}") from None
    same = type(value) is type(default) or (isinstance(default, float) and type(value) is int)
    if default is not None and not same:
        raise InputError(
            f"parameter {name} = {value!r} is of type {type(value).__name__}; write a value like {default!r}"
        )
    return value


def _echoed(file: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    if not file.is_file():
        raise NeuralStreamError(f"the notebook ended without writing {file}; its last cell must call write_result")
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    differing = [name for name, value in values.items() if result["parameters"].get(name) != value]
    if differing:
        raise NeuralStreamError(f"{file} was made with another {', '.join(differing)} than was asked for; run it again")
    return result


def _executed_cells() -> list[str]:
    """Sources of the cells that this kernel has executed; none outside a kernel."""
    shell = require("IPython").get_ipython()
    return [] if shell is None else list(shell.user_ns.get("In", []))
