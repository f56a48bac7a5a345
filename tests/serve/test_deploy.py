"""The files that deploy the service say what the service understands."""

import re
from pathlib import Path

import pytest
import typer
import yaml

from neuralstream.cli import app
from neuralstream.config import Settings
from neuralstream.serve.auth import Tokens, refuse_an_open_door
from neuralstream.serve.metrics import Metrics, open_memory
from neuralstream.testing import FakeEmbedder

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"


def test_compose_sets_settings_that_a_service_starts_with(monkeypatch, tmp_path):
    """Every variable is a setting, tokens are asked for, and the published port is the one listened on."""
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["neuralstream"]
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'me = "{"0123456789abcdef" * 4}"\n', encoding="utf-8")
    monkeypatch.setenv("NEURALSTREAM_SERVE__TOKEN_FILE", str(tokens))
    settings = Settings.load()
    refuse_an_open_door(settings.serve, Tokens.read(settings.serve))
    assert settings.gem_model == "qwen3:4b-instruct"
    assert service["ports"] == [f"127.0.0.1:{settings.serve.port}:{settings.serve.port}"]


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("*.service")), ids=lambda unit: unit.name)
def test_units_start_a_command_that_exists(unit):
    """Its name is one of ours."""
    (command,) = re.findall(r"^ExecStart=\S+/neuralstream (\w+)", unit.read_text(encoding="utf-8"), re.MULTILINE)
    assert command in typer.main.get_command(app).commands


def test_what_is_to_be_watched_is_told_by_the_service(settings):
    """Every metric that the page on deployment names is one that `/metrics` has."""
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    metrics = Metrics()
    with open_memory(settings, metrics, embedder=FakeEmbedder()) as memory:
        metrics.watch(memory)
        told = set(re.findall(r"^# TYPE (\w+)", metrics.render().decode(), re.MULTILINE))
    named = set(re.findall(r"neuralstream_\w+", page))
    assert len(named) >= 8
    assert named <= told


def test_what_the_page_on_deployment_names_is_a_setting():
    """Settings and variables in its text are ours."""
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for section, name in re.findall(r"`(buffer|llm|embed|serve)\.(\w+)`", page):
        assert name in type(getattr(Settings(), section)).model_fields, f"{section}.{name}"
