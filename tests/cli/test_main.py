import subprocess
import sys

import pytest

import neuralstream
from neuralstream.stream import NeuralStream


def test_errors_are_one_line(cli, tmp_path):
    """An error is one line on stderr that starts with `error:`, without a traceback."""
    ran = cli("replay", tmp_path / "missing")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "Traceback" not in ran.err


def test_what_the_system_refuses_is_one_line_too(cli, tmp_path):
    """A data folder that cannot be made is an error like any other."""
    (tmp_path / "home").write_text("a file")
    ran = cli("recent")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.startswith("error: ")


def test_debug_shows_where_an_error_came_from(cli, tmp_path, monkeypatch):
    """With NEURALSTREAM_DEBUG the traceback is shown above the same line."""
    monkeypatch.setenv("NEURALSTREAM_DEBUG", "1")
    ran = cli("replay", tmp_path / "missing")
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("bogus",),
        ("search", "x", "--bogus"),
        ("search", "x", "-k", "0"),
        ("search", "x", "--mode", "fuzzy"),
        ("search", "x", "--tag", "gossip"),
        ("search", "x", "--since", "yesterday"),
        ("recent", "--kind", "theme"),
        ("remember", "x", "--importance", "2"),
        (),
    ],
)
def test_wrong_use(cli, arguments):
    """Wrong use is exit code 2, with nothing on stdout."""
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_interrupted(cli, recorder):
    """Ctrl-C is exit code 130."""
    recorder.answers["recent"] = KeyboardInterrupt()
    assert cli("recent").code == 130


def test_a_locked_store_is_exit_code_3(memory):
    """A data folder that another process owns is a missing part, and the line says who holds it."""
    from neuralstream import Settings

    with NeuralStream(Settings.load(worker="inline")):
        ran = memory("recent")
    assert (ran.code, ran.out) == (3, "")
    assert "held by" in ran.err


def test_options_after_the_command_win(cli):
    """The shared options stand before or after the command; those after it win, and overrides add up."""
    shown = cli(
        "--user", "ada", "--set", "batch_size=3", "config", "--set", "batch_size=4", "show",
        "--set", "retrieval.k=7", "--user", "eve", "--json",
    ).json  # fmt: skip
    assert (shown["user_id"]["value"], shown["batch_size"]["value"], shown["retrieval.k"]["value"]) == ("eve", 4, 7)


def test_version(cli):
    """--version prints the version alone."""
    assert cli("--version") == (0, f"{neuralstream.__version__}\n", "")


def test_python_m(tmp_path):
    """`python -m neuralstream` is the same command, and passes the exit code on."""
    ran = subprocess.run(
        [sys.executable, "-m", "neuralstream", "--set", "batch_size=0", "config", "show"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: batch_size = '0'")
