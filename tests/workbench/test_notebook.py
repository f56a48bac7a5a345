"""Running notebooks with parameters that cannot be mistaken."""

import json
from pathlib import Path

import nbformat
import numpy as np
import pytest

from neuralstream.errors import InputError, NeuralStreamError
from neuralstream.workbench import datasets, notebook

# jupyter_client and its dependencies warn about themselves.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def small(tmp_path):
    """A notebook that only echoes its parameters."""
    return _write(
        tmp_path / "small.ipynb",
        'threshold = 50\nratio = 0.5\nmodes = ["bm25"]\nsizes = [5]\n'
        'name = "a=b # c"\nlimit: int | None = None\nout = ""',
        """from pathlib import Path
import json
from neuralstream.workbench import notebook
parameters = notebook.check_parameters(
    threshold=threshold, ratio=ratio, modes=modes, sizes=sizes, name=name, limit=limit, out=out
)
assert threshold != 99, "too high"
(Path(out) / "result.json").write_text(json.dumps({"parameters": parameters, "answer": threshold + 1}))""",
    )


def test_values_are_read_as_declared(small, tmp_path):
    """Text from a command line, numpy numbers, paths and tuples arrive as plain values of the default's type."""
    given = {
        "threshold": "40",
        "ratio": np.float64(0.25),
        "modes": ("a", "b"),
        "sizes": (np.int64(3), "5"),
        "name": Path("x"),
        "out": tmp_path / "o",
    }
    result = notebook.run_notebook(small, given)
    assert result["answer"] == 41
    assert result["parameters"] == {
        "threshold": 40,
        "ratio": 0.25,
        "modes": ["a", "b"],
        "sizes": [3, 5],
        "name": "x",
        "limit": None,
        "out": str(tmp_path / "o"),
    }
    assert (tmp_path / "o" / "small.ipynb").is_file()


def test_misspelt_parameter_fails_before_a_kernel(small, monkeypatch):
    """Our runner refuses an undeclared name, suggests the declared one, and starts nothing."""
    monkeypatch.setattr(notebook, "require", lambda module: pytest.fail(f"{module} was loaded"))
    with pytest.raises(InputError, match=r"'thresold' is not declared; did you mean 'threshold'\?"):
        notebook.run_notebook(small, {"thresold": 40})


def test_misspelt_parameter_fails_under_plain_papermill(small, tmp_path):
    """Without our runner the cell after the parameters fails by name."""
    import papermill

    with pytest.raises(papermill.PapermillExecutionError, match="'thresold' is not declared"):
        papermill.execute_notebook(
            str(small), str(tmp_path / "done.ipynb"), parameters={"thresold": 40}, progress_bar=False
        )


def test_text_is_read_as_declared_under_plain_papermill(small, tmp_path):
    """What a command line gives as text is the declared type in the notebook; what cannot be is refused by name."""
    import papermill

    def run(**parameters):
        given = {"out": str(tmp_path)} | parameters
        papermill.execute_notebook(str(small), str(tmp_path / "done.ipynb"), parameters=given, progress_bar=False)
        return json.loads((tmp_path / "result.json").read_text())

    result = run(modes="bm25,hybrid", threshold="60")
    assert result["parameters"]["modes"] == ["bm25", "hybrid"]
    assert result["answer"] == 61
    with pytest.raises(papermill.PapermillExecutionError, match="threshold = 'forty': write a value like 50"):
        run(threshold="forty")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", "forty"),
        ("threshold", 1.5),
        ("modes", 3),
        ("modes", ["a", 3]),
        ("sizes", "5,many"),
        ("ratio", [1]),
        ("name", 7),
    ],
)
def test_wrong_type_is_refused(small, name, value):
    """A value of another type than the default's is refused with an example."""
    with pytest.raises(InputError, match=f"{name} = .*write a value like"):
        notebook.run_notebook(small, {name: value})


def test_failing_cell_is_reported(small, tmp_path):
    """A cell that raises is an error that names its cause and the executed notebook."""
    with pytest.raises(NeuralStreamError, match=r"AssertionError: too high; see .*done\.ipynb"):
        notebook.run_notebook(small, {"threshold": 99, "out": tmp_path / "o"}, tmp_path / "done.ipynb")


def test_success_needs_the_result_file(tmp_path):
    """A notebook that ends early with exit code 0, or leaves another run's result, did not succeed."""
    silent = _write(tmp_path / "silent.ipynb", 'out = ""', "import sys; sys.exit(0)")
    stale = tmp_path / "o" / "result.json"
    stale.parent.mkdir()
    stale.write_text(json.dumps({"parameters": {"out": str(stale.parent)}}))
    with pytest.raises(NeuralStreamError, match="without writing"):
        notebook.run_notebook(silent, {"out": str(stale.parent)})


def test_success_needs_the_parameters_echoed(tmp_path):
    """A result of other parameters than were asked for is no success."""
    other = """from pathlib import Path
(Path(out) / "result.json").write_text('{"parameters": {"k": 5, "out": "%s"}}' % out)"""
    deaf = _write(tmp_path / "deaf.ipynb", 'k = 5\nout = ""', other)
    with pytest.raises(NeuralStreamError, match="made with another k than was asked for"):
        notebook.run_notebook(deaf, {"k": 7, "out": str(tmp_path / "o")})


@pytest.mark.parametrize(
    ("spec", "named", "expected"),
    [
        ("{tiny}@dev", "", "native:{tiny}@test"),
        ("{tiny}@bo", "", "native:{tiny}@test"),
        ("{tiny}@dev", "workdays@test", "workdays@test"),
        ("{tiny}@test", "", ""),
        ("{tiny}", "", ""),
    ],
)
def test_what_is_held_out(tiny, spec, named, expected):
    """The split `test` of the same set, where the set has one and is not asked as a whole, or what is named."""
    data = datasets.load(spec.format(tiny=tiny))
    assert notebook.held_out(named, data) == expected.format(tiny=tiny)


def test_notebook_without_parameters_is_refused(tmp_path):
    """A notebook without the tag would run every cell of a sweep on its own defaults."""
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]), tmp_path / "none.ipynb")
    with pytest.raises(InputError, match="no cell tagged `parameters`"):
        notebook.run_notebook(tmp_path / "none.ipynb", {})
    with pytest.raises(InputError, match="is not a notebook"):
        notebook.run_notebook(tmp_path / "missing.ipynb", {})


def test_names():
    """Names come as a list or as text with commas."""
    assert notebook.names("bm25, hybrid,") == notebook.names(["bm25", "hybrid"]) == ("bm25", "hybrid")


def _write(path, parameters, *sources):
    cells = [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    return path


def test_paths_start_at_the_checkout(monkeypatch, tmp_path):
    """A kernel that JupyterLab started beside the shipped notebooks works where commands are given; others stay."""
    checkout = Path(__file__).parents[2]
    monkeypatch.chdir(checkout / "notebooks")
    notebook.check_parameters(out="")
    assert Path.cwd() == checkout
    monkeypatch.chdir(tmp_path)
    notebook.check_parameters(out="")
    assert Path.cwd() == tmp_path
