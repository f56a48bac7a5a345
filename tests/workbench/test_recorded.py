"""What recorded answers cover."""

import json

import pytest

from neuralstream.config import Settings
from neuralstream.errors import InputError, SettingsError
from neuralstream.workbench import datasets, recorded

OPTIONS = {"num_ctx": 8192, "seed": 0, "temperature": 0.0, "max_tokens": 600}


def write(file, *answers, **more):
    """A cassette of answers: each a prompt and the turns that it was asked to distil."""
    lines = [
        {"key": f"{more}{number}", "model": "small", "about": {"prompt": prompt, "turns": turns}, "options": OPTIONS}
        | {"answer": "[]", "finish": "stop"}
        | more
        for number, (prompt, turns) in enumerate(answers)
    ]
    with file.open("a") as out:
        out.writelines(f"{json.dumps(line)}\n" for line in lines)
    return file


def turns(user, count=6):
    """Ids of a user's first turns."""
    return [f"{user}-{number}" for number in range(count)]


def test_users_are_covered_by_every_prompt_in_full(tiny, tmp_path):
    """A user counts whose every turn each of the prompts was asked about, whatever the batches and the version."""
    cassette = write(
        tmp_path / "answers.jsonl",
        ("minimal@1", turns("ada")[:3]), ("minimal@1", turns("ada")[3:]), ("curator@2", turns("ada")),
        ("minimal@1", turns("bo")), ("curator@2", turns("bo", 5)),
        ("minimal@1", turns("cy")),
    )  # fmt: skip
    data = datasets.load(str(tiny))
    assert recorded.users_covered(data, cassette, ["minimal", "curator"]) == ["ada"]
    assert recorded.users_covered(data, cassette, ["minimal"]) == ["ada", "bo", "cy"]
    assert recorded.users_covered(data, cassette, []) == []


def test_model_is_asked_as_it_was(tmp_path):
    """Model and options are those of most answers, to be replayed from the file."""
    cassette = write(tmp_path / "answers.jsonl", ("minimal@1", ["t1"]), ("minimal@1", ["t2"]))
    write(cassette, ("minimal@1", ["t3"]), model="other")
    assert recorded.asked_as(cassette) == {
        "extract.extractor": "llm",
        "gem_model": "small",
        "llm.mode": "replay",
        "llm.cassette": str(cassette),
        "llm.num_ctx": 8192,
        "llm.seed": 0,
        "llm.temperature": 0.0,
        "llm.max_tokens": 600,
    }


def test_empty_cassette_is_refused(tmp_path):
    """A file without an answer says how to record some."""
    (tmp_path / "answers.jsonl").touch()
    with pytest.raises(InputError, match=r"holds no recorded answer; record some with llm\.mode=record"):
        recorded.asked_as(tmp_path / "answers.jsonl")


def test_how_to_record_keeps_the_embedder(tmp_path):
    """A server is named for the model alone, unless the settings have one; a prompt that is not there is refused."""
    llm = {"mode": "replay", "cassette": tmp_path / "answers.jsonl"}
    told = recorded.how_to_record("set@dev", "hybrid", Settings(llm=llm))
    assert "lacks answers of qwen3 to prompt curator@1" in told
    assert "--dataset set@dev" in told
    assert "--set llm.mode=record" in told
    assert "--set ollama_url=" in told
    assert "--set embedding=sentence-transformers:all-MiniLM-L6-v2" in told
    served = recorded.how_to_record("set@dev", "hybrid", Settings(llm=llm, ollama_url="http://h:1"))
    assert "--set embedding=" not in served
    assert "ollama_url" not in served  # whoever replays has it among the settings; it may hold a password
    with pytest.raises(SettingsError, match="there is no prompt 'curatr'"):
        recorded.how_to_record("set", "hybrid", Settings(llm=llm, extract={"prompt": "curatr"}))


def test_answers_lie_beside_the_set(tmp_path, tiny):
    """The first file of a set's `answers`, none where it has none, or is no folder."""
    data = datasets.load(str(tiny))
    assert recorded.answers_of(data) is None
    root = tmp_path / "set"
    (root / "answers").mkdir(parents=True)
    for name in ("b.jsonl", "a.jsonl", "PROVENANCE.md"):
        (root / "answers" / name).touch()
    (root / "dataset.json").symlink_to(tiny / "dataset.json")
    for name in ("conversations", "queries"):
        (root / name).symlink_to(tiny / name)
    assert recorded.answers_of(datasets.load(str(root))) == root / "answers" / "a.jsonl"
