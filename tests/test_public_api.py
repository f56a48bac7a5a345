"""What users import: the names, and how little it costs."""

import subprocess
import sys
from importlib.resources import files

import neuralstream

NAMES = [
    "AsyncNeuralStream",
    "CassetteMissError",
    "ContextBlock",
    "ContextOverflowError",
    "DatasetError",
    "EmbeddingError",
    "ExtractionError",
    "Gem",
    "Hit",
    "InputError",
    "LogFormatError",
    "MissingPartError",
    "NeuralStream",
    "NeuralStreamClient",
    "NeuralStreamError",
    "NotFoundError",
    "Part",
    "Settings",
    "SettingsError",
    "Source",
    "Status",
    "StoreError",
    "StoreLockedError",
    "StoreMismatchError",
    "Summary",
    "Theme",
    "Turn",
    "Usage",
    "__version__",
]
HEAVY = {"torch", "pandas", "numba", "grpc", "jupyter", "redis", "qdrant_client", "sentence_transformers", "scipy"}
MEASURE = """
import sys, time
began = time.process_time()
import neuralstream
print(time.process_time() - began, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def in_a_fresh_interpreter() -> tuple[float, set[str]]:
    """Seconds that importing takes, of processor time so that a busy machine changes nothing, and what it loads."""
    ran = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    seconds, *modules = ran.stdout.split()
    return float(seconds), set(modules)


def test_public_names_are_these():
    """The public names are pinned, and each is there."""
    assert neuralstream.__all__ == NAMES
    assert all(hasattr(neuralstream, name) for name in NAMES)


def test_importing_is_quick_and_loads_nothing_heavy():
    """`import neuralstream` takes under half a second (best of three) and loads nothing heavy."""
    runs = [in_a_fresh_interpreter() for _ in range(3)]
    assert min(seconds for seconds, _ in runs) < 0.5
    assert runs[0][1] & HEAVY == set()


def test_types_ship_with_the_package():
    """Type checkers find the package's annotations."""
    assert (files("neuralstream") / "py.typed").is_file()
