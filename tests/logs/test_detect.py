"""A log's format is told by what it holds; what is unknown is refused with what was seen."""

import gzip
import json

import pytest

from neuralstream.errors import LogFormatError
from neuralstream.logs import FORMATS, detect_format, read_log
from neuralstream.types import Usage

EXAMPLES = {
    "native": {"turn_id": "t", "session_id": "s", "parts": [{"role": "user", "text": "x"}]},
    "openclaw": {"type": "session", "version": 3, "id": "s"},
    "claude-code": {"type": "user", "uuid": "u", "sessionId": "s"},
    "codex": {"type": "session_meta", "payload": {"id": "s"}},
    "chatgpt": {"id": "c", "mapping": {}},
    "claude-ai": {"uuid": "c", "chat_messages": []},
    "engram": {"nodes": [{"type": "Conversation", "content": '{"q": "x", "a": "y"}'}]},
    "memredis": {"role": "user", "content": "x", "timestamp": 1770717600},
    "openai": {"messages": [{"role": "user", "content": "x"}]},
    "sharegpt": {"conversations": [{"from": "human", "value": "x"}]},
    "locomo": {"sample_id": "c", "conversation": {"session_1": []}, "qa": []},
    "longmemeval": {"question_id": "q", "haystack_sessions": []},
}


def test_every_format_has_an_example():
    """No format escapes these tests."""
    assert EXAMPLES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_format_is_told_by_its_content(write, name):
    """The file's name says nothing; a damaged first line does not matter, nor does packing."""
    line = json.dumps(EXAMPLES[name])
    assert detect_format(write("whatever.txt", line)) == name
    assert detect_format(write("damaged.txt", '{"torn": \n' + line)) == name
    assert detect_format(write("array.txt", "[torn\n" + line)) == name
    assert detect_format(write("packed", gzip.compress(line.encode()))) == name
    assert sum(known.recognises(EXAMPLES[name]) for known in FORMATS.values()) == 1


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("", "it is empty"),
        ("Dear diary", "'Dear diary', which is not JSON"),
        ('{"type": "user", "uuid": 1}', "an object with 'type', 'uuid'"),
        ("[]", "which is not JSON|it is empty|'\\[\\]'"),
        ("[[1]]", r"'\[1\]'"),
    ],
)
def test_an_unknown_file_is_refused(write, content, seen):
    """The message names the known formats and what the file holds."""
    with pytest.raises(LogFormatError, match=seen) as caught:
        read_log(write("x.jsonl", content))
    assert all(name in str(caught.value) for name in FORMATS)


def test_wrong_use_is_refused(write, tmp_path):
    """A missing file, an unknown name, an empty folder, and a folder of what is a file."""
    for call, reason in [
        (lambda: read_log(tmp_path / "gone.jsonl"), "no log at"),
        (lambda: read_log(tmp_path), r"no \.jsonl"),
        (
            lambda: read_log(write("a.jsonl", [EXAMPLES["openai"]]), "gpt"),
            "'gpt' is unknown; use auto or one of native",
        ),
        (lambda: read_log(tmp_path, "openai"), "is a folder"),
    ]:
        with pytest.raises(LogFormatError, match=reason):
            call()


def test_a_log_can_be_read_again(write):
    """Iterating twice gives the same turns and counts afresh."""
    log = read_log(write("a.jsonl", [EXAMPLES["openai"], 5]))
    turns = list(log)
    log.usage["of a turn that went away"] = Usage(tokens=1)
    assert list(log) == turns
    assert log.usage == {}
    assert (log.used, len(log.problems)) == (1, 1)
