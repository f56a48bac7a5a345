"""Prompts: Markdown files with TOML front matter, read as typed templates.

    +++
    name = "minimal"
    version = 1
    description = "What this variant is."
    hypothesis = "What it would show if it did better."
    variables = ["history", "batch", "numbers"]
    schema = 1
    +++

    # System

    What the model is told about its task.

    # User

    The turns: $history, then $batch.

Front matter is TOML between `+++`, because Python reads TOML itself and YAML needs another package. A variable is
written `$name`, a dollar sign `$$` (`string.Template`). Variables that are missing or not used are errors, and so are
unknown keys: a prompt says what it needs, or it does not load.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from neuralstream.errors import SettingsError
from neuralstream.extract.schemas import SCHEMAS
from neuralstream.shipped import SHIPPED

__all__ = ["VARIABLES", "Prompt", "Rendered", "list_prompts", "load_prompt", "parse_prompt"]

VARIABLES: Mapping[str, str] = {
    "history": "earlier turns of the session, oldest first, inside a fence; for understanding only",
    "batch": "the turns to distil, oldest first, inside a fence",
    "numbers": "the numbers of the turns to distil, such as 12, 13, 14",
}
"""What an extractor can put into a prompt; `batch` and `numbers` it has to use."""

_NEEDED = frozenset({"batch", "numbers"})
_FRONT = re.compile(r"\A\+\+\+\n(?P<front>.*?)^\+\+\+\n(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)
_BODY = re.compile(r"\A\s*^# System\n(?P<system>.*?)^# User\n(?P<user>.*)\Z", re.DOTALL | re.MULTILINE)
_EXAMPLE = re.compile(r'"content"\s*:\s*("(?:[^"\\]|\\.)*")')
_NOT_A_PROMPT = "README"


class Rendered(NamedTuple):
    """A prompt with its variables filled in."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One way to ask for gems.

    Attributes:
        name: its file's name without `.md`.
        version: raised whenever its words change.
        description: what it is.
        hypothesis: what would be shown if it did better than another.
        variables: what it is filled with; see `VARIABLES`.
        schema: version of the answer's JSON schema; see `schemas.SCHEMAS`.
        system, user: the two parts of its body, as templates.
    """

    name: str
    version: int
    description: str
    hypothesis: str
    variables: tuple[str, ...]
    schema: int
    system: str
    user: str

    def __str__(self) -> str:
        """What a gem records: name and version, such as "curator@1"."""
        return f"{self.name}@{self.version}"

    @property
    def digest(self) -> str:
        """SHA-256 of what a model sees of it: its words and its schema."""
        seen = json.dumps([self.system, self.user, SCHEMAS[self.schema].json_schema((0,))], sort_keys=True)
        return hashlib.sha256(seen.encode()).hexdigest()

    @property
    def examples(self) -> tuple[str, ...]:
        """Contents of the gems it shows as examples, which are not to come back as answers."""
        return tuple(json.loads(match[1]) for match in _EXAMPLE.finditer(f"{self.system}\n{self.user}"))

    def render(self, **values: str) -> Rendered:
        """The prompt filled in.

        Raises:
            SettingsError: a variable has no value, or a value has no variable; the message names it.
        """
        if missing := sorted(set(self.variables) - set(values)):
            raise SettingsError(f"prompt {self} got no value for {', '.join(missing)}; give every variable one")
        if unused := sorted(set(values) - set(self.variables)):
            raise SettingsError(
                f"prompt {self} does not use {', '.join(unused)}; its variables are {', '.join(self.variables)}"
            )
        return Rendered(Template(self.system).substitute(values), Template(self.user).substitute(values))


def load_prompt(name: str, folder: Path | None = None) -> Prompt:
    """The prompt of a name, from a user's folder where it is there, else the shipped one.

    Raises:
        SettingsError: no such prompt, or its file cannot be used.
    """
    files = _files(folder)
    if name not in files:
        raise SettingsError(
            f"there is no prompt {name!r}; there are {', '.join(sorted(files))} (extract.prompts adds more)"
        )
    return parse_prompt(_read(files[name]), files[name].stem, str(files[name]))


def list_prompts(folder: Path | None = None) -> list[Prompt]:
    """Every prompt by name, a user's own in place of shipped ones of the same name.

    Raises:
        SettingsError: one of the files cannot be used.
    """
    return [load_prompt(name, folder) for name in sorted(_files(folder))]


def parse_prompt(text: str, name: str, where: str = "") -> Prompt:
    """A prompt from a file's text.

    Args:
        text: front matter and body.
        name: the file's name without `.md`, which the front matter has to repeat.
        where: what messages call the file.

    Raises:
        SettingsError: what is wrong with it, by name.
    """
    where = where or f"prompt {name}"
    parts = _FRONT.match(text.replace("\r\n", "\n"))
    if parts is None:
        raise SettingsError(f"{where} has no front matter; begin it with TOML between two lines of +++")
    try:
        front = tomllib.loads(parts["front"])
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{where}: the front matter is not TOML: {error}") from error
    body = _BODY.match(parts["body"])
    if body is None:
        raise SettingsError(f"{where}: the body needs the headings `# System` and `# User`, each once, in this order")
    _check_front(front, name, where)
    prompt = Prompt(
        **{**front, "variables": tuple(front["variables"])}, system=body["system"].strip(), user=body["user"].strip()
    )
    _check_variables(prompt, where)
    return prompt


def _check_front(front: Mapping[str, Any], name: str, where: str) -> None:
    keys = {field.name: field.type for field in fields(Prompt) if field.name not in {"system", "user"}}
    if unknown := sorted(set(front) - set(keys)):
        raise SettingsError(
            f"{where}: unknown key {', '.join(unknown)} in the front matter; known are {', '.join(keys)}"
        )
    if missing := [key for key in keys if key not in front]:
        raise SettingsError(f"{where}: the front matter lacks {', '.join(missing)}")
    for key, kind in (("version", int), ("schema", int), ("variables", list)):
        if type(front[key]) is not kind:
            raise SettingsError(
                f"{where}: {key} = {front[key]!r} is not {'a list' if kind is list else 'a whole number'}"
            )
    for key in ("name", "description", "hypothesis"):
        if not isinstance(front[key], str) or not front[key].strip():
            raise SettingsError(f"{where}: {key} = {front[key]!r} is not a text")
    if front["name"] != name:
        raise SettingsError(f'{where}: name = {front["name"]!r} is not the file\'s name; write name = "{name}"')
    if front["schema"] not in SCHEMAS:
        raise SettingsError(
            f"{where}: schema = {front['schema']} is unknown; use one of {', '.join(map(str, SCHEMAS))}"
        )


def _check_variables(prompt: Prompt, where: str) -> None:
    templates = [Template(prompt.system), Template(prompt.user)]
    if not all(template.is_valid() for template in templates):
        raise SettingsError(f"{where}: a $ stands before something that is no variable; write a dollar sign as $$")
    used = {name for template in templates for name in template.get_identifiers()}
    declared = set(prompt.variables)
    if wrong := sorted(used - declared):
        raise SettingsError(f"{where}: the body uses ${', $'.join(wrong)}, which `variables` does not declare")
    if wrong := sorted(declared - used):
        raise SettingsError(f"{where}: `variables` declares {', '.join(wrong)}, which the body does not use")
    if wrong := sorted(declared - set(VARIABLES)):
        raise SettingsError(f"{where}: nothing fills ${', $'.join(wrong)}; there are {', '.join(VARIABLES)}")
    if wrong := sorted(_NEEDED - declared):
        raise SettingsError(f"{where}: the body has to use ${', $'.join(wrong)}")


def _files(folder: Path | None) -> dict[str, Path]:
    if folder is not None and not folder.is_dir():
        raise SettingsError(f"there is no folder {folder} with prompts; create it, or unset extract.prompts")
    return {
        file.stem: file
        for place in (SHIPPED / "prompts", folder)
        if place is not None
        for file in sorted(place.glob("*.md"))
        if file.stem != _NOT_A_PROMPT
    }


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {file}: {error}; write it as UTF-8") from error
