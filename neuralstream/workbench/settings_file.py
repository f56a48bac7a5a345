"""A settings file that is edited for its owner: comments, order and all that is not touched stay as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import ParseError

from neuralstream.config import Settings
from neuralstream.errors import NeuralStreamError, SettingsError
from neuralstream.provenance import seal
from neuralstream.workbench.comparing import Changed
from neuralstream.workbench.runs import write_text

if TYPE_CHECKING:
    from neuralstream.provenance import PromotedSettings

__all__ = ["SettingsFile"]

_RECORD = "promoted"
_ONE_VALUE = "weights"
"""A table that is one decision: a file that names some of its entries means just these."""

_ALSO = ("retrieval.tuned", "extract.prompts")
"""What goes along with settings that can change a result: where weights come from, and where prompts lie."""


class SettingsFile:
    """A TOML file of settings, which need not exist yet.

    Attributes:
        path: where it lies.
        settings: what it says by itself, without the environment.

    Raises:
        SettingsError: it is not TOML, or its settings are wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        try:
            self._document = tomlkit.parse(text)
        except ParseError as error:
            raise SettingsError(f"{path} is not TOML: {error}; repair it, or name another file") from error
        self.settings = Settings(**self._document.unwrap())

    def serve(self, settings: Settings, record: PromotedSettings) -> list[Changed]:
        """Make the file say these settings, as far as they can change a result, and the record of their evidence.

        A setting that the file does not name, and that has its default, is not written.

        Returns:
            The settings that the file now says otherwise.
        """
        before, wanted, defaults = _named(self.settings), _named(settings), _named(Settings())
        changed = [Changed(name, before[name], value) for name, value in wanted.items() if before[name] != value]
        for name, _, value in changed:
            if value is None or (value == defaults[name] and name in _ALSO):
                self._remove(name.split("."))
            else:
                self._put(name.split("."), value)
        self._document.pop(_RECORD, None)
        self._document[_RECORD] = seal(record).model_dump(mode="json", exclude_none=True)
        text = tomlkit.dumps(self._document)
        written = Settings(**tomllib.loads(text))
        if written.digest() != settings.digest() or written.doubt():
            raise NeuralStreamError(
                f"{self.path} would not say what was measured; nothing was written. Name a new file"
            )
        mode = self.path.stat().st_mode if self.path.exists() else None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        real = self.path.resolve()
        write_text(real, text)
        if mode is not None:
            real.chmod(mode)  # it may hold a key that only its owner reads
        return changed

    def _put(self, path: list[str], value: Any) -> None:
        *tables, key = path
        table: MutableMapping[str, Any] = self._document
        for name in tables:
            if name not in table:
                table[name] = tomlkit.table(is_super_table=False)
            table = table[name]
        if isinstance(value, Mapping):
            table.pop(key, None)
        table[key] = value

    def _remove(self, path: list[str]) -> None:
        *tables, key = path
        table: MutableMapping[str, Any] = self._document
        for name in tables:
            table = table.get(name, {})
        table.pop(key, None)


def _named(settings: Settings) -> dict[str, Any]:
    """Settings by dotted name, as JSON has them: those that can change a result, and those that go along."""
    found = dict(_flat(settings.deciding()))
    written = settings.model_dump(mode="json", exclude_none=True)
    for name in _ALSO:
        table, key = name.split(".")
        found[name] = written[table].get(key)
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and name != _ONE_VALUE:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
