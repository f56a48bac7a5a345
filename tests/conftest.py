"""What every test stands on: no setting from outside, no network, a data folder of its own."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from neuralstream.config import Settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# A busy machine is no failure: how long an example takes says nothing about what it shows.
hypothesis_settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("any machine")


def pytest_configure(config):
    """Keep temporary folders in memory where the machine can: a new store waits for the disk some thousand times."""
    memory = Path("/dev/shm")
    if config.option.basetemp is None and os.access(memory, os.W_OK):
        config.option.basetemp = Path(tempfile.mkdtemp(prefix="neuralstream-tests-", dir=memory)) / "pytest"


def pytest_unconfigure(config):
    """Leave nothing behind in memory."""
    folder = Path(config.option.basetemp or "").parent
    if folder.name.startswith("neuralstream-tests-"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("NEURALSTREAM_") and not name.startswith("NEURALSTREAM_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NEURALSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(tmp_path):
    """Settings of an embedded memory in a folder of its own, worked on inside each call."""
    return Settings(home=tmp_path / "home", cache_dir=tmp_path / "cache", worker="inline")


@pytest.fixture(scope="session")
def minilm():
    """The packaged model with its real weights, loaded once for all tests, with no cache before it."""
    from neuralstream.embed.sentence_transformer import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder()


@pytest.fixture(scope="session")
def benchmark_data():
    """The folder of public benchmark files, which are not part of the project."""
    folder = Path(os.environ.get("NEURALSTREAM_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the public benchmark files are not here: set NEURALSTREAM_TEST_DATA, looked in {folder}")
    return folder
