"""`doctor` and `config show`: what memory is made of here, and which settings are in force."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import typer

from neuralstream import __version__
from neuralstream.cli.options import Call, JsonOption, command, group
from neuralstream.cli.output import print_json, print_table
from neuralstream.config import Settings, setting_facts
from neuralstream.errors import MissingPartError, NeuralStreamError
from neuralstream.provenance import evidence_line

__all__ = ["add_to"]

_SECONDS = 5.0
"""Longest wait for a server's version."""

_ABSENT = object()

commands = typer.Typer()
config = group("The settings.")


class Part(NamedTuple):
    """What a part is, and its version."""

    what: str
    version: str = ""


class Finding(NamedTuple):
    """A part that was looked at: whether it can be used, and where not, what to do."""

    part: str
    ok: bool
    what: str
    version: str
    detail: str


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands)
    app.add_typer(config, name="config")


@command(commands, "doctor")
def doctor(call: Call, as_json: JsonOption = False) -> None:
    """Look at each part: what it is, whether it can be used, its version; exit 3 where one cannot."""
    settings = call.settings()
    with _try_out(settings) as tried:
        findings = [
            _look("settings", lambda: _settings_part(call)),
            *_evidence(settings),
            _look("data folder", lambda: _folder_part(settings.home)),
            _look("buffer", lambda: _buffer_part(tried)),
            _look("store", lambda: _store_part(tried)),
            _look("embedder", lambda: _embedder_part(tried)),
            _look("extractor", lambda: _extractor_part(tried)),
            _look("gem model", lambda: _gem_model_part(tried)),
        ]
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table(
            ("part", "state", "what", "version", "detail"),
            [(found.part, "ok" if found.ok else "DOWN", *found[2:]) for found in findings],
        )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(MissingPartError.exit_code)


@command(config, "show")
def show(call: Call, as_json: JsonOption = False) -> None:
    """Show every setting's value and where it came from; secrets are masked."""
    values = call.settings().model_dump(mode="json")
    layers = Settings.layers(call.config, call.arguments())
    rows = []
    for fact in setting_facts():
        origins = [origin for origin, layer in layers if _within(layer, fact.name) is not _ABSENT]
        rows.append((fact.name, _within(values, fact.name), origins[-1] if origins else "default"))
    if as_json:
        print_json({name: {"value": value, "from": origin} for name, value, origin in rows})
    else:
        print_table(("setting", "value", "from"), rows)


def _within(layer: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted name in nested mappings."""
    found: Any = layer
    for key in name.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return _ABSENT
        found = found[key]
    return found


@contextmanager
def _try_out(settings: Settings) -> Iterator[Settings]:
    """Settings to try the parts with: looking leaves no data folder behind, and no cache answers for the embedder."""
    tried = settings.model_copy(update={"embed": settings.embed.model_copy(update={"cache": False})})
    if settings.home.exists():
        yield tried
        return
    with tempfile.TemporaryDirectory(prefix="neuralstream-doctor-") as home:
        yield tried.model_copy(update={"home": Path(home)})


def _look(part: str, look: Callable[[], Part]) -> Finding:
    try:
        found = look()
    except (NeuralStreamError, OSError) as error:
        return Finding(part, False, "", "", str(error))
    return Finding(part, True, found.what, found.version, "")


def _settings_part(call: Call) -> Part:
    layers = dict(Settings.layers(call.config, call.arguments()))
    file = next((name for name in layers if name not in {"environment", "arguments"}), None)
    overridden = [
        f"{name} overrides {fact.name}"
        for fact in setting_facts()
        for name in ("environment", "arguments")
        if file and _within(layers[file], fact.name) is not _ABSENT and _within(layers[name], fact.name) is not _ABSENT
    ]
    return Part("; ".join([file or "no file", *overridden]), f"neuralstream {__version__}")


def _evidence(settings: Settings) -> list[Finding]:
    """What a promoted file is served on; its detail says where the settings in force are others."""
    record = settings.promoted
    if record is None:
        return []
    return [Finding("evidence", True, evidence_line(record), f"neuralstream {record.version}", settings.doubt() or "")]


def _folder_part(home: Path) -> Part:
    existing = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise MissingPartError(f"{existing} is not a folder that can be written to; set home to another folder")
    free = shutil.disk_usage(existing).free / 1e9
    return Part(f"{home}{'' if home.exists() else ' (made on first use)'}, {free:.1f} GB free")


def _buffer_part(settings: Settings) -> Part:
    from neuralstream.capture.buffer import open_buffer

    buffer = open_buffer(settings, sole_owner=False)
    try:
        return Part(buffer.where, buffer.version())
    finally:
        buffer.close()


def _store_part(settings: Settings) -> Part:
    from neuralstream.embed import make_embedder
    from neuralstream.indexing import fingerprint
    from neuralstream.store import open_store

    open_store(settings, fingerprint(make_embedder(settings))).close()
    if settings.qdrant_url is None:
        return Part("embedded Qdrant", f"qdrant-edge-py {version('qdrant-edge-py')}")
    address = settings.qdrant_url.get_secret_value()
    if address == ":memory:":
        return Part("Qdrant in memory", f"qdrant-client {version('qdrant-client')}")
    key = settings.qdrant_api_key
    return _server("Qdrant", address, "/", {"api-key": key.get_secret_value()} if key else {})


def _embedder_part(settings: Settings) -> Part:
    from neuralstream.embed import make_embedder

    embedder = make_embedder(settings)
    dim = len(embedder.embed_query("Does the embedder answer?"))
    what = f"{embedder.name}, {dim} dimensions, weights {embedder.digest[:12]}"
    if settings.ollama_url is None or settings.embedding.startswith("sentence-transformers:"):
        return Part(what, f"sentence-transformers {version('sentence-transformers')}")
    server = _server("Ollama", settings.ollama_url.get_secret_value(), "/api/version")
    return Part(f"{what}, on {server.what}", server.version)


def _extractor_part(settings: Settings) -> Part:
    from neuralstream.extract import make_extractor

    return Part(make_extractor(settings).name, f"neuralstream {__version__}")


def _gem_model_part(settings: Settings) -> Part:
    """The language model: asked for what it is, not to answer, which would load it."""
    if settings.llm.mode == "replay" and settings.llm.cassette is not None:
        return Part(f"{settings.gem_model}, replayed from {_cassette_facts(settings.llm.cassette)}")
    if settings.openai_url is None and settings.ollama_url is None:
        return Part("none: set ollama_url or openai_url to distil with one")
    from neuralstream.llm import live_model

    with live_model(settings) as model:
        found = model.look()
    facts = [f"{model.name} at {found.where}", f"{model.context_tokens} tokens of context"]
    if found.trained_context:
        facts[1] += f" of {found.trained_context}"
    if found.thinks is not None:
        facts.append("thinks" if found.thinks else "does not think")
    if settings.llm.mode == "record" and settings.llm.cassette is not None:
        facts.append(f"recorded on {_cassette_facts(settings.llm.cassette)}")
    return Part(", ".join(facts))


def _cassette_facts(path: Path) -> str:
    from neuralstream.llm.cassette import Cassette

    return f"{path} with {len(Cassette(path))} answers"


def _server(name: str, address: str, path: str, headers: Mapping[str, str] | None = None) -> Part:
    """A server that answered a moment ago, and the version it tells."""
    import httpx

    url = httpx.URL(address)
    try:
        told = httpx.get(url.join(path), headers=headers, timeout=_SECONDS).raise_for_status().json()["version"]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        # The client's own message holds the address with its password.
        reason = type(error).__name__
        raise MissingPartError(
            f"{name} at {url.host} does not tell its version ({reason}); look at the server"
        ) from None
    return Part(f"{name} at {url.host}", f"{name} {told}")
