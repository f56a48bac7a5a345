"""Settings: one frozen model, read from defaults < file < environment < arguments.

A file is TOML (`neuralstream.toml`); a variable is `NEURALSTREAM_` plus the setting's name, `__` between a table and
its key (`NEURALSTREAM_RETRIEVAL__MODE`); an empty one is as if unset. Durations are written `15m`, `900s` or as
seconds; thresholds are percent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin

from platformdirs import user_cache_path, user_data_path
from pydantic import AfterValidator, BaseModel, Field, SecretStr, ValidationError

from neuralstream.errors import SettingsError
from neuralstream.provenance import PromotedSettings, doubt
from neuralstream.sections import (
    BufferSettings,
    Duration,
    EmbedSettings,
    ExtractSettings,
    Folder,
    LlmSettings,
    RetrievalSettings,
    ServeSettings,
    Table,
    address,
    seconds,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = [
    "CONFIG_NAME",
    "CONFIG_VARIABLE",
    "ENV_PREFIX",
    "TOKEN_VARIABLE",
    "BufferSettings",
    "EmbedSettings",
    "ExtractSettings",
    "LlmSettings",
    "PromotedSettings",
    "RetrievalSettings",
    "ServeSettings",
    "SettingFact",
    "Settings",
    "assignments",
    "service_token",
    "setting_facts",
    "wants_tracebacks",
]

_log = logging.getLogger(__name__)

ENV_PREFIX = "NEURALSTREAM_"
CONFIG_NAME = "neuralstream.toml"
CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"
TOKEN_VARIABLE = f"{ENV_PREFIX}TOKEN"
"""Where the token for a running service is. It is the caller's and no setting: settings are the memory's."""

_DEBUG_VARIABLE = f"{ENV_PREFIX}DEBUG"
_NOT_SETTINGS = re.compile(rf"(?:{CONFIG_VARIABLE}|{TOKEN_VARIABLE}|{_DEBUG_VARIABLE})$|{ENV_PREFIX}TEST_")
"""Variables with our prefix that name a file, a token, ask for tracebacks or steer the tests."""


class Settings(Table):
    """Every setting. An empty configuration is the embedded default: no server needed.

    Naming a `redis_url`, `qdrant_url` or `ollama_url` switches that one part to the server.
    """

    # The seed's settings, under the seed's names.
    batch_size: int = Field(5, ge=1, le=100, description="undistilled turns that make a batch")
    context_threshold: float = Field(50, ge=40, le=80, description="context use that triggers distilling, percent")
    idle_timeout: Duration = Field(timedelta(minutes=15), description="silence after which a session is distilled")
    gem_model: str = Field(
        "qwen3", min_length=1, description="language model that distils gems (with ollama_url or openai_url)"
    )
    max_gems_injected: int = Field(10, ge=0, le=100, description="most gems in one context block")
    embedding: str = Field(
        "snowflake-arctic-embed2",
        min_length=1,
        description="embedding model on Ollama (with ollama_url); without: the packaged all-MiniLM-L6-v2. "
        "`sentence-transformers:PATH` names any local model",
    )
    collection: str = Field(
        "neuralstream", pattern=r"^[A-Za-z0-9_-]+$", description="collection of gems; turns add `_turns`"
    )

    home: Folder = Field(
        default_factory=lambda: user_data_path("neuralstream", appauthor=False), description="data folder"
    )
    cache_dir: Folder = Field(
        default_factory=lambda: user_cache_path("neuralstream", appauthor=False), description="embedding cache's folder"
    )
    redis_url: Annotated[SecretStr | None, AfterValidator(address("redis://", "rediss://", "unix://"))] = Field(
        None, description="redis://, rediss:// or unix://; unset: embedded Valkey"
    )
    qdrant_url: Annotated[SecretStr | None, AfterValidator(address("http://", "https://", ":memory:"))] = Field(
        None, description="http(s):// of a Qdrant server, or :memory:; unset: embedded"
    )
    qdrant_api_key: SecretStr | None = Field(None, description="Qdrant's key")
    ollama_url: Annotated[SecretStr | None, AfterValidator(address("http://", "https://"))] = Field(
        None, description="http(s):// of an Ollama server; unset: the packaged embedder"
    )
    openai_url: Annotated[SecretStr | None, AfterValidator(address("http://", "https://"))] = Field(
        None, description="http(s)://…/v1 of an OpenAI-compatible server for `gem_model`, which wins over Ollama's"
    )
    openai_api_key: SecretStr | None = Field(None, description="the OpenAI-compatible server's key")
    worker: Literal["thread", "inline", "none"] = Field("thread", description="who indexes and distils")
    user_id: str = Field("default", min_length=1, description="whose memory where a call names nobody")
    redact: bool = Field(True, description="mask secrets before a turn is stored")
    store_timeout: Duration = Field(timedelta(seconds=30), description="longest wait for one Qdrant request")
    context_budget: int = Field(1500, ge=50, description="tokens of a context block where a call names none")
    retention: Duration | None = Field(None, description="age after which `tick` forgets turns and gems; unset: never")
    max_disk_mb: int | None = Field(
        None, ge=16, description="data folder size above which capture refuses; unset: no limit"
    )
    close_timeout: Duration = Field(timedelta(seconds=30), description="longest wait for unfinished work at close")
    max_turn_chars: int = Field(200_000, ge=1000, description="a turn's text beyond this is cut, and marked")
    max_tool_chars: int = Field(400, ge=0, description="a tool result beyond this is cut when logs are read")
    context_window: int | None = Field(
        None, ge=512, description="tokens a replayed host's model holds; unset: not simulated"
    )
    compact_at: float = Field(90, ge=10, le=100, description="context use at which a replayed host compacts, percent")
    compact_to: float = Field(20, ge=0, le=90, description="context use left after a replayed compaction, percent")

    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    extract: ExtractSettings = Field(default_factory=ExtractSettings)
    embed: EmbedSettings = Field(default_factory=EmbedSettings)
    llm: LlmSettings = Field(default_factory=LlmSettings)
    buffer: BufferSettings = Field(default_factory=BufferSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    promoted: PromotedSettings | None = Field(
        None, description="on what evidence these settings are served; written by `neuralstream promote`"
    )

    _CANNOT_CHANGE_A_RESULT = frozenset(
        {
            "home", "cache_dir", "redis_url", "qdrant_url", "qdrant_api_key", "ollama_url", "openai_url",
            "openai_api_key", "worker", "user_id", "store_timeout", "buffer", "max_disk_mb", "collection", "retention",
            "promoted", "serve",
        }
    )  # fmt: skip

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    @classmethod
    def load(cls, path: Path | str | None = None, **arguments: Any) -> Self:
        """Settings from defaults < file < environment < arguments.

        Args:
            path: a TOML file; None takes `$NEURALSTREAM_CONFIG`, else `neuralstream.toml` in the working folder, else
                none.
            arguments: settings that win over all else; a table is a mapping.

        Raises:
            SettingsError: the file is missing or not TOML; a setting is unknown, malformed or out of range.
        """
        merged: dict[str, Any] = {}
        for origin, layer in cls.layers(path, arguments):
            if "promoted" in layer and (why := cls(**layer).doubt()):
                _log.warning("%s: %s", origin, why)
            _merge(merged, layer)
        return cls(**merged)

    @classmethod
    def layers(
        cls, path: Path | str | None = None, arguments: Mapping[str, Any] | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """The layers `load` merges, lowest first, each with the name of where it came from."""
        file = _config_file(path)
        found = [(str(file), _read_toml(file))] if file else []
        found.append(("environment", _read_environment()))
        found.append(("arguments", dict(arguments or {})))
        return found

    def doubt(self) -> str | None:
        """Why these settings are not the ones that were promoted; None where they are, or none were."""
        return doubt(self.promoted, self.digest()) if self.promoted else None

    def digest(self) -> str:
        """SHA-256 over `deciding`, 16 hex digits."""
        return hashlib.sha256(json.dumps(self.deciding(), sort_keys=True).encode()).hexdigest()[:16]

    def deciding(self) -> dict[str, Any]:
        """The settings that can change a result, as JSON has them: no paths, addresses, timeouts or records.

        `retention` is none of them, because what is measured forgets nothing by age.
        """
        kept: dict[str, Any] = self.model_dump(mode="json", exclude=set(self._CANNOT_CHANGE_A_RESULT))
        kept["retrieval"].pop("tuned")
        kept["embed"].pop("timeout")
        kept["embed"].pop("cache")
        kept["extract"].pop("prompts")
        for name in ("timeout", "tries", "keep_alive", "mode", "cassette"):
            kept["llm"].pop(name)
        return kept


class SettingFact(NamedTuple):
    """What there is to know about one setting.

    Attributes:
        name: dotted, such as "retrieval.mode".
        default: as it would be written; None where it is unset, or where it depends on the machine.
        allowed: its range ("40 to 80") or choices ("turns, gems, all"); empty where any value of its type will do.
        meaning: one line.
    """

    name: str
    default: Any
    allowed: str
    meaning: str


def setting_facts(model: type[BaseModel] = Settings) -> Iterator[SettingFact]:
    """Every setting, in the order of the model, tables last."""
    for name, field in model.model_fields.items():
        table = _table(field)
        if table is None:
            default = None if field.annotation is Path else _written(field)
            yield SettingFact(name, default, _allowed(field), field.description or "")
        else:
            yield from (fact._replace(name=f"{name}.{fact.name}") for fact in setting_facts(table))


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts as arguments for `Settings.load`; a table's key is written `retrieval.mode=bm25`.

    Raises:
        SettingsError: a text has no `=`, names no setting, or a value is given to a table.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"{text!r} sets nothing; write name=value, such as retrieval.mode=bm25")
        path = name.strip().split(".")
        if path[0] not in Settings.model_fields:
            raise SettingsError(_unknown(name.strip()))
        _put(found, path, value)
    return found


def service_token() -> str | None:
    """The token to show to a running service; None where none is set."""
    return os.environ.get(TOKEN_VARIABLE) or None


def wants_tracebacks() -> bool:
    """Whether errors are to be shown with where they came from."""
    return bool(os.environ.get(_DEBUG_VARIABLE))


def _config_file(path: Path | str | None) -> Path | None:
    named = path or os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(CONFIG_NAME) if Path(CONFIG_NAME).is_file() else None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}; name an existing file or unset it") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}; correct it there") from error


def _read_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in sorted(os.environ.items()):
        if value and variable.startswith(ENV_PREFIX) and not _NOT_SETTINGS.match(variable):
            _put(found, variable.removeprefix(ENV_PREFIX).lower().split("__"), value)
    return found


def _put(layer: dict[str, Any], path: Sequence[str], value: str) -> None:
    *tables, key = path
    for table in tables:
        layer = layer.setdefault(table, {})
        if not isinstance(layer, dict):
            raise SettingsError(f"{table} is given a value and is a table with {key!r} in it; set one of the two")
    layer[key] = _json_or_text(value)


def _json_or_text(value: str) -> Any:
    """A mapping or list is written as JSON; everything else stays text, which pydantic converts."""
    if value[:1] in "{[":
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        # Weights are one decision: a file that names some means just these.
        if isinstance(value, Mapping) and isinstance(into.get(key), dict) and key != "weights":
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _explain(error: ValidationError) -> str:
    """One line per wrong setting: its name, the value seen, what is allowed."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(_unknown(name))
            continue
        field = _field(problem["loc"])
        seen = "(hidden)" if field and "Secret" in str(field.annotation) else repr(problem["input"])
        # A choice's message already lists the choices.
        allowed = "" if field is None or problem["type"] == "literal_error" else _allowed(field)
        reason = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name} = {seen}: {reason}" + (f" (allowed: {allowed})" if allowed else ""))
    return "\n".join(lines)


def _unknown(name: str) -> str:
    return f"unknown setting {name!r}; `neuralstream config show` lists every setting"


def _field(location: Sequence[int | str]) -> FieldInfo | None:
    """The setting a validation error points at, or the one that holds the entry it points at."""
    model: type[BaseModel] = Settings
    field = None
    for part in location:
        found = model.model_fields.get(str(part))
        if found is None:
            break
        field, model = found, _table(found) or BaseModel
    return field


def _table(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _written(field: FieldInfo) -> Any:
    """A default as it would be written in a file."""
    value = field.get_default(call_default_factory=True)
    return seconds(value) if isinstance(value, timedelta) else value


def _allowed(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(get_args(field.annotation))
    limit = {name: getattr(m, name) for m in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(m, name)}
    low = f"{limit['ge']}" if "ge" in limit else f"above {limit['gt']}" if "gt" in limit else ""
    high = f"{limit['le']}" if "le" in limit else f"below {limit['lt']}" if "lt" in limit else ""
    if low and high:
        return f"{low} to {high}"
    return f"from {low}" if low else f"up to {high}" if high else ""
