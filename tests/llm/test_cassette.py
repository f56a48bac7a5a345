import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from neuralstream.config import LlmSettings
from neuralstream.errors import InputError
from neuralstream.llm import Request
from neuralstream.llm.cassette import Cassette, Recording, key_of, merge, options_of

OPTIONS = {"num_ctx": 8192, "seed": 0, "temperature": 0.0, "max_tokens": 512}


def recording(key, answer="[]", **changes):
    """An answer about turn `key`."""
    about = {"prompt": "curator@1", "turns": [key], "history": []}
    return replace(Recording(key, "qwen3", about, OPTIONS, answer, "stop", 812, 96, 4.1), **changes)


@pytest.fixture
def path(tmp_path):
    """Where a cassette will be."""
    return tmp_path / "answers" / "curator.jsonl"


def test_an_answer_is_found_again(path):
    """Also by whoever opens the file later; nothing is written but lines that can be read."""
    cassette = Cassette(path)
    assert cassette.find("a") is None
    hostile = recording("a", 'Grüße "quoted"\n\u2028 \ud800 end')
    assert cassette.add(hostile) is hostile
    assert cassette.find("a") == hostile
    assert Cassette(path).find("a") == hostile
    (line,) = path.read_bytes().splitlines()
    assert list(json.loads(line)) == [
        "key", "model", "about", "options", "answer", "finish", "prompt_tokens", "answer_tokens", "seconds",
    ]  # fmt: skip
    assert "Grüße".encode() in line


def test_the_first_answer_counts(path):
    """Another to the same question is not written, and a file that has both gives the first."""
    Cassette(path).add(recording("a", "first"))
    assert Cassette(path).add(recording("a", "second")).answer == "first"
    with path.open("ab") as file:
        file.write(recording("a", "third").line())
    cassette = Cassette(path)
    assert (len(cassette), cassette.find("a").answer) == (1, "first")


@pytest.mark.parametrize(
    "change",
    [{"prompt": "b"}, {"system": "b"}, {"schema": {"type": "array"}}, {"max_tokens": 9}],
    ids=["prompt", "system", "schema", "max_tokens"],
)
def test_whatever_decides_an_answer_is_in_its_key(change):
    """Prompts, schema and longest answer."""
    request, settings = Request("a"), LlmSettings()
    other = replace(request, **change)
    assert key_of("m", request, options_of(request, settings)) != key_of("m", other, options_of(other, settings))


@pytest.mark.parametrize("change", [{"num_ctx": 4096}, {"seed": 1}, {"temperature": 0.5}])
def test_options_are_in_the_key(change):
    """And the model; who asks, where and how patiently are not."""
    request = Request("a", schema={"x": 1, "y": 2})

    def key(model="m", request=request, **settings):
        return key_of(model, request, options_of(request, LlmSettings(**settings)))

    assert key(**change) != key()
    assert key("n") != key()
    same = replace(request, about={"turns": ["t"]}, schema={"y": 2, "x": 1})
    assert key(request=same, timeout=1, tries=9, keep_alive=1, temperature=0) == key()


def test_a_key_is_the_same_on_every_machine_and_for_ever():
    """Whoever changes what it is made of loses every cassette."""
    key = key_of("qwen3", Request("Grüße", "be brief", {"type": "array"}), OPTIONS)
    assert key == "c2512c77db7e1c2a3184b5be95d7cab0d6cb3028073396a39ab874a80cce0163"


@pytest.mark.parametrize("torn", [b'{"key": "b", "mod', "Grü".encode()[:-1], b"{}"])
def test_a_torn_last_line_costs_nothing_else(path, torn):
    """It is not read, and gone when the next answer is written."""
    Cassette(path).add(recording("a"))
    with path.open("ab") as file:
        file.write(torn)
    cassette = Cassette(path)
    assert [found.key for found in cassette] == ["a"]
    cassette.add(recording("c"))
    assert [json.loads(line)["key"] for line in path.read_bytes().splitlines()] == ["a", "c"]


def test_a_last_line_without_an_end_is_kept(path):
    """As editors leave it."""
    path.parent.mkdir()
    path.write_bytes(recording("a").line().rstrip())
    cassette = Cassette(path)
    assert cassette.find("a")
    cassette.add(recording("b"))
    assert [found.key for found in Cassette(path)] == ["a", "b"]
    assert [found.key for found in cassette] == ["a", "b"]


@pytest.mark.parametrize("line", [b"hello", b"{}", b'{"key": 1}', b"[]", b"\xff"])
def test_a_line_that_is_no_recording_is_an_error(path, line):
    """It names the file and shows the line."""
    path.parent.mkdir()
    path.write_bytes(line + b"\n" + recording("a").line())
    with pytest.raises(InputError, match=r"curator\.jsonl has a line that is no recorded answer"):
        Cassette(path)


def test_what_others_write_is_found(path):
    """A cassette that is open sees answers that another adds, and answers that are gone."""
    mine, other = Cassette(path), Cassette(path)
    other.add(recording("a"))
    assert mine.find("a")
    other.forget({"a"})
    assert mine.find("a") is None
    mine.add(recording("b"))
    assert other.find("b")


def test_threads_record_into_one_file(path):
    """Every answer once."""
    cassettes = [Cassette(path), Cassette(path)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: cassettes[number % 2].add(recording(f"{number // 4}")), range(80)))
    keys = [json.loads(line)["key"] for line in path.read_bytes().splitlines()]
    assert sorted(keys) == sorted({str(number) for number in range(20)})


WRITER = """
import sys
from pathlib import Path
from neuralstream.llm.cassette import Cassette, Recording
cassette = Cassette(Path(sys.argv[1]))
for number in range(100):
    cassette.add(Recording(str(number), "qwen3", {}, {}, "by " + sys.argv[2] + "x" * 5000, "stop"))
"""


def test_processes_record_into_one_file(path):
    """No line is torn, none is there twice."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    keys = [json.loads(line)["key"] for line in path.read_bytes().splitlines()]
    assert sorted(keys, key=int) == [str(number) for number in range(100)]


def test_forgetting_removes_what_was_made_of_turns(path):
    """By turns that were distilled, or read as history; the rest stays as it was, and the text leaves the disk."""
    cassette = Cassette(path)
    cassette.add(recording("a", "secret"))
    cassette.add(recording("b", "of a too", about={"prompt": "p", "turns": ["b"], "history": ["a"]}))
    cassette.add(recording("c"))
    assert cassette.mentions({"a"})
    assert cassette.forget({"a", "z"}) == 2
    assert not cassette.mentions({"a"})
    assert path.read_bytes() == recording("c").line()
    assert cassette.forget({"a"}) == 0
    assert list(path.parent.iterdir()) == [path]


def test_forgetting_from_no_file_makes_none(path):
    """There is nothing to forget."""
    assert Cassette(path).forget({"a"}) == 0
    assert not path.exists()


def test_cassettes_are_merged_in_one_order(tmp_path):
    """Whatever the order of recording; of two answers the first file's counts, and a file may be merged into."""
    one, two, out = (tmp_path / name for name in ("one.jsonl", "two.jsonl", "out.jsonl"))
    for path, keys in ((one, "ca"), (two, "bd")):
        for key in keys:
            Cassette(path).add(recording(key))
    Cassette(two).add(recording("a", "later"))
    assert merge([one, two], out) == 4
    assert [found.key for found in Cassette(out)] == ["a", "b", "c", "d"]
    assert Cassette(out).find("a").answer == "[]"
    merged = out.read_bytes()
    assert merge([out, one], out) == 4
    assert out.read_bytes() == merged
    with pytest.raises(InputError, match=r"no cassette .*three\.jsonl"):
        merge([tmp_path / "three.jsonl"], out)
