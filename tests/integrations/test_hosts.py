"""The TypeScript extensions in `integrations/`; their own tests run in Node, against `neuralstream serve`."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from neuralstream.logs import read_log

INTEGRATIONS = Path(__file__).parents[2] / "integrations"
LOCK = INTEGRATIONS / "package-lock.json"
INSTALLED = INTEGRATIONS / "node_modules" / ".package-lock.json"


@pytest.fixture(scope="module")
def npm():
    """Run npm in a folder of `integrations/`, with what its lock file names installed."""
    program = shutil.which("npm")
    if program is None:
        pytest.skip("npm is not here; install Node.js 20 or later")

    def npm(*arguments, folder=INTEGRATIONS):
        command, environment = [program, *arguments], os.environ | {"NEURALSTREAM_TEST_PYTHON": sys.executable}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < LOCK.stat().st_mtime:
        npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
    return npm


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("host", ["openclaw", "pi"])
def test_an_extension_type_checks_and_passes_its_tests(npm, host):
    """`npm test` passes: the compiler finds nothing, and the fake host is served by a service of its own."""
    said = npm("test", folder=INTEGRATIONS / host)
    passed, failed = (int(re.search(rf"^\W*{word} (\d+)$", said, re.MULTILINE)[1]) for word in ("pass", "fail"))
    assert passed > 0
    assert failed == 0


@pytest.mark.parametrize("name", ["exchanges.ts", "memory.ts"])
def test_what_the_extensions_share_is_the_same_in_both(name):
    """A host installs its extension's folder alone, so each has a copy: they do not differ."""
    assert (INTEGRATIONS / "openclaw" / name).read_bytes() == (INTEGRATIONS / "pi" / name).read_bytes()


def test_a_log_reader_makes_the_turns_that_an_extension_sends():
    """The same file, ids, times and words as in `exchanges.test.ts`: captured twice, a session is kept once."""
    turns = [
        {
            "turn_id": turn.turn_id,
            "created_at": turn.at().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "parts": [{"role": part.role, "text": part.text} for part in turn.parts],
        }
        for turn in read_log(INTEGRATIONS / "testing" / "session.jsonl")
    ]
    assert turns == json.loads((INTEGRATIONS / "testing" / "session.turns.json").read_text(encoding="utf-8"))
