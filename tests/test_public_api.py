"""What users import: names and signatures, as `public_api.txt` has them, and how little it costs.

What is public changes on purpose only: `python tests/test_public_api.py > tests/public_api.txt` writes it anew, and a
review sees the difference.
"""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.resources import files
from pathlib import Path

import neuralstream
from neuralstream.config import Settings, setting_facts
from neuralstream.errors import NeuralStreamError

SNAPSHOT = Path(__file__).with_name("public_api.txt")
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


def public_api() -> str:
    """Every public name, with what can be called or read of it, a line each."""
    return "\n\n".join("\n".join(described(name, getattr(neuralstream, name))) for name in neuralstream.__all__) + "\n"


def described(name: str, public: object) -> Iterator[str]:
    """A name's lines: what it is, and what it has."""
    if not isinstance(public, type):
        yield f"{name}: {type(public).__name__}"
    elif issubclass(public, NeuralStreamError):
        bases = ", ".join(base.__name__ for base in public.__bases__)
        yield f"class {name}({bases}), exit code {public.exit_code}"
    elif public is Settings:
        yield f"class {name}"
        for fact in setting_facts():
            default = "as tuned" if fact.name.endswith(".weights") else repr(fact.default)
            yield f"    {fact.name} = {default}" + (f"  ({fact.allowed})" if fact.allowed else "")
        yield from methods(public)
    else:
        yield f"class {name}{signature(public)}"
        yield from methods(public)


def methods(public: type) -> Iterator[str]:
    """Public methods and properties by name, those that a class of ours gives."""
    for name, member in sorted(inspect.getmembers_static(public)):
        fields = getattr(public, "__dataclass_fields__", {}) if is_dataclass(public) else getattr(public, "_fields", ())
        ours = any(name in vars(base) and base.__module__.startswith("neuralstream") for base in public.__mro__)
        if name.startswith(("_", "model_")) or name in fields or not ours:
            continue
        if isinstance(member, property):
            yield f"    {name} -> {member.fget.__annotations__['return']}"
        elif isinstance(member, staticmethod | classmethod) or callable(member):
            waits = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"    {waits}{name}{signature(getattr(public, name))}"


def signature(called: object) -> str:
    """Annotations stand as they were written."""
    found = inspect.signature(called)
    parameters = [part.replace(annotation=Written(part.annotation)) for part in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=Written(found.return_annotation)))


class Written:
    """An annotation whose `repr` is its source."""

    def __new__(cls, annotation):
        return super().__new__(cls) if annotation is not inspect.Signature.empty else annotation

    def __init__(self, annotation):
        written = getattr(annotation, "__forward_arg__", annotation)
        self.text = written if isinstance(written, str) else inspect.formatannotation(written)

    def __repr__(self):
        return self.text


def test_what_is_public_is_on_record():
    """Names, signatures, settings and exit codes are those of the snapshot."""
    assert public_api() == SNAPSHOT.read_text(encoding="utf-8"), "renew it: see this module's docstring"


def test_importing_is_quick_and_loads_nothing_heavy():
    """`import neuralstream` takes under half a second (best of three) and loads nothing heavy."""
    runs = [in_a_fresh_interpreter() for _ in range(3)]
    assert min(seconds for seconds, _ in runs) < 0.5
    assert runs[0][1] & HEAVY == set()


def test_types_ship_with_the_package():
    """Type checkers find the package's annotations."""
    assert (files("neuralstream") / "py.typed").is_file()


if __name__ == "__main__":
    sys.stdout.write(public_api())
