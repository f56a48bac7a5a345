"""Prompts are typed templates: what is shipped loads, and what is wrong with a file is named."""

import re

import pytest

from neuralstream.config import Settings
from neuralstream.errors import SettingsError
from neuralstream.extract import make_extractor
from neuralstream.extract.prompts import list_prompts, load_prompt, parse_prompt
from neuralstream.tokens import count_tokens

NAMES = ["checks", "curator", "fewshot", "minimal", "questions", "typed"]
FRONT = {
    "name": '"mine"',
    "version": "3",
    "description": '"A trial."',
    "hypothesis": '"None."',
    "variables": '["batch", "numbers"]',
    "schema": "2",
}
BODY = "# System\n\nDistil.\n\n# User\n\nTurns $numbers:\n$batch\n"


def file_of(body=BODY, **front):
    """A prompt file's text; a key that is None is left out."""
    lines = [f"{key} = {value}" for key, value in {**FRONT, **front}.items() if value is not None]
    return "\n".join(["+++", *lines, "+++", "", body])


def test_six_prompts_are_shipped_each_with_its_own_hypothesis():
    """They load, and differ in words and in what they would show."""
    prompts = list_prompts()
    assert [prompt.name for prompt in prompts] == NAMES
    assert len({prompt.hypothesis for prompt in prompts}) == len({prompt.digest for prompt in prompts}) == len(NAMES)


@pytest.mark.parametrize("prompt", list_prompts(), ids=str)
def test_instructions_are_short_and_turns_come_last(prompt):
    """A small model on a slow machine reads them with every batch; what is cut off is never the turns to distil."""
    assert count_tokens(prompt.system + prompt.user) <= (250 if prompt.name == "minimal" else 450)
    assert prompt.user.index("$history") < prompt.user.index("$batch")
    assert "$" not in prompt.system


@pytest.mark.parametrize("prompt", list_prompts(), ids=str)
def test_every_prompt_says_what_keeps_answers_usable(prompt):
    """Turns are quoted text, small talk gives nothing, turns are cited, and only the new ones."""
    said = " ".join(f"{prompt.system} {prompt.user}".lower().split())
    for needed in (
        "quoted text",
        "go on with",
        "small talk" if prompt.name == "typed" else "[]",
        "new turn",
        "understood alone",
    ):
        assert needed in said, needed


def test_a_prompt_is_known_by_name_and_version():
    """A gem records "curator@1"."""
    prompt = load_prompt("curator")
    assert str(prompt) == f"curator@{prompt.version}"


def test_rendering_fills_system_and_user():
    """Values land where the variables stand; a double dollar is a dollar."""
    prompt = parse_prompt(file_of(BODY + "It cost $$5.\n"), "mine")
    system, user = prompt.render(batch="[3] hello", numbers="3")
    assert system == "Distil."
    assert user == "Turns 3:\n[3] hello\nIt cost $5."


def test_what_a_value_holds_is_no_template():
    """A dollar sign in a conversation stays one."""
    prompt = parse_prompt(file_of(), "mine")
    assert prompt.render(batch="costs $numbers $$9", numbers="3").user == "Turns 3:\ncosts $numbers $$9"


@pytest.mark.parametrize(
    ("values", "named"),
    [({"batch": "x"}, "numbers"), ({"batch": "x", "numbers": "1", "history": "y"}, "history")],
)
def test_values_have_to_match_the_variables(values, named):
    """One too few or one too many is an error that names it."""
    with pytest.raises(SettingsError, match=named):
        parse_prompt(file_of(), "mine").render(**values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# System\n\nDistil.\n", "front matter"),
        (file_of(version="= 1"), "TOML"),
        (file_of(temperature="0.2"), "unknown key temperature"),
        (file_of(hypothesis=None), "lacks hypothesis"),
        (file_of(hypothesis='" "'), "hypothesis = ' '"),
        (file_of(version='"1"'), "version = '1'"),
        (file_of(version="true"), "version = True"),
        (file_of(variables='"batch"'), "variables = 'batch'"),
        (file_of(name='"other"'), "name = 'other'"),
        (file_of(schema="99"), "schema = 99"),
        (file_of("Distil $batch, $numbers.\n"), "# System"),
        (file_of("# User\n$batch $numbers\n# System\nx\n"), "# System"),
        (file_of(BODY + "$history\n"), "uses $history"),
        (file_of(variables='["batch", "numbers", "history"]'), "declares history"),
        (file_of(BODY + "$weather\n", variables='["batch", "numbers", "weather"]'), "nothing fills $weather"),
        (file_of("# System\n# User\n$batch\n", variables='["batch"]'), "has to use $numbers"),
        (file_of(BODY + "only $5\n"), r"$$"),
    ],
)
def test_a_wrong_file_is_refused_by_what_is_wrong(text, said):
    """The message names the key, the variable or the heading."""
    with pytest.raises(SettingsError, match=re.escape(said)):
        parse_prompt(text, "mine")


def test_windows_line_ends_are_read():
    """A file that was written elsewhere is the same prompt."""
    assert parse_prompt(file_of().replace("\n", "\r\n"), "mine") == parse_prompt(file_of(), "mine")


def test_the_digest_is_of_what_a_model_sees():
    """Other words or another schema are another prompt; another description is not."""
    digest = parse_prompt(file_of(), "mine").digest
    assert parse_prompt(file_of(description='"Other."', version="4"), "mine").digest == digest
    assert parse_prompt(file_of(schema="3"), "mine").digest != digest
    assert parse_prompt(file_of(BODY + "Now.\n"), "mine").digest != digest


def test_examples_are_found():
    """Every statement that a prompt shows as a gem is known, escapes read."""
    shown = BODY + '{"content": "Say \\"hi\\" to Ada."}\n'
    assert parse_prompt(file_of(shown), "mine").examples == ('Say "hi" to Ada.',)
    assert len(load_prompt("fewshot").examples) == 3


def test_a_folder_of_ones_own_adds_and_wins(tmp_path):
    """`extract.prompts` adds prompts, and one of the same name takes the shipped one's place; a README is none."""
    (tmp_path / "mine.md").write_text(file_of(), encoding="utf-8")
    (tmp_path / "minimal.md").write_text(file_of(name='"minimal"', version="7"), encoding="utf-8")
    (tmp_path / "README.md").write_text("About these.", encoding="utf-8")
    assert [str(prompt) for prompt in list_prompts(tmp_path)] == [
        "checks@1", "curator@1", "fewshot@1", "mine@3", "minimal@7", "questions@1", "typed@1",
    ]  # fmt: skip
    settings = Settings(
        extract={"extractor": "llm", "prompt": "mine", "prompts": tmp_path}, ollama_url="http://localhost:1"
    )
    assert make_extractor(settings).prompt == "mine@3"


def test_an_unknown_prompt_is_an_error_that_lists_the_known(tmp_path):
    """A misspelt name names what there is; a folder that is not there is named."""
    with pytest.raises(SettingsError, match=r"'curatr'.*checks, curator"):
        load_prompt("curatr")
    with pytest.raises(SettingsError, match="nowhere"):
        load_prompt("curator", tmp_path / "nowhere")


def test_a_file_that_is_not_text_is_named(tmp_path):
    """Bytes that are no UTF-8 are an error with the file's name."""
    (tmp_path / "mine.md").write_bytes(b"+++\n\xff\n+++\n")
    with pytest.raises(SettingsError, match=r"mine\.md"):
        load_prompt("mine", tmp_path)
