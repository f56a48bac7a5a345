"""ChatGPT's export: the path to the current node, content of many kinds, zip files and numbered pieces."""

import json
import zipfile

import pytest

from neuralstream.errors import LogFormatError
from neuralstream.logs import detect_format, read_log


def _node(key, parent, role, parts, at=None, **message):
    content = {"content_type": "text", "parts": parts} if isinstance(parts, list) else parts
    said = {"id": key, "author": {"role": role}, "create_time": at, "content": content, "recipient": "all"} | message
    return {key: {"id": key, "message": said, "parent": parent, "children": []}}


def _conversation(*nodes, **fields):
    mapping = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    for node in nodes:
        mapping |= node
    return {"conversation_id": "c1", "title": "t", "create_time": 1772355600.25, "mapping": mapping} | fields


def _words(turns):
    return [[(part.role, part.text) for part in turn.parts] for turn in turns]


PYTHON = {"role": "tool", "name": "python"}
TALK = _conversation(
    _node("h", "root", "system", [""]),
    _node("i", "h", "user", {"content_type": "user_editable_context", "user_profile": "p"}),
    _node("a", "i", "user", [{"content_type": "image_asset_pointer"}, "Which port?"], 1772355601.5),
    _node("b", "a", "assistant", {"content_type": "thoughts", "thoughts": []}),
    _node("d", "b", "assistant", {"content_type": "code", "text": "ls()"}, recipient="python"),
    _node("e", "d", "", {"content_type": "execution_output", "text": "7443"}, author=PYTHON),
    _node("x", "e", "assistant", ["hidden"], metadata={"is_visually_hidden_from_conversation": True}),
    _node("f", "x", "assistant", ["Port 7443\ue200cite\ue202turn0\ue201."], 1772355609),
    _node("g", "f", "user", ["And staging?"], 1772355700),
    _node("old", "f", "user", ["abandoned"], 1772355650),
    current_node="g",
)  # fmt: skip


def test_the_path_to_the_current_node_becomes_exchanges(write):
    """Words, pictures and tool lines stay; system, hidden, thoughts and other branches go."""
    log = read_log(write("conversations.json", json.dumps([TALK], indent=1)))
    turns = list(log)
    assert _words(turns) == [
        [("user", "[image]\nWhich port?"), ("tool", "python(ls()) -> 7443"), ("assistant", "Port 7443.")],
        [("user", "And staging?")],
    ]
    assert [turn.turn_id for turn in turns] == ["c1:a", "c1:g"]
    assert turns[0].created_at.isoformat() == "2026-03-01T09:00:01.500000+00:00"
    assert (log.format, log.problems, log.used, log.skipped) == ("chatgpt", [], 5, 6)


def test_other_branches_on_request(write):
    """A question that was edited is a session of its own, its turns under their own ids."""
    turns = list(read_log(write("conversations.json", json.dumps([TALK])), branches=True))
    assert [(turn.session_id, turn.turn_id) for turn in turns][2:] == [("c1~old", "c1:old")]


def test_without_a_current_node_the_newest_leaf_counts(write):
    """An export may lack it, or name a node that is not there."""
    for current in (None, "gone"):
        turns = list(read_log(write("conversations.json", json.dumps([TALK | {"current_node": current}]))))
        assert turns[-1].text == "And staging?"


def test_undated_messages_begin_with_the_conversation(write):
    """Where no message has a time, the conversation's own is the first one's."""
    talk = _conversation(_node("a", "root", "user", ["x"]), _node("b", "a", "user", ["y"]), current_node="b")
    turns = list(read_log(write("conversations.json", json.dumps([talk]))))
    assert turns[0].created_at.isoformat() == "2026-03-01T09:00:00.250000+00:00"
    assert [turn.time_estimated for turn in turns] == [False, True]


def test_a_zip_file_is_read_as_it_comes(tmp_path):
    """Every numbered piece of an export counts, and a problem names the piece."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations-000.json", json.dumps([TALK]))
        archive.writestr("conversations-001.json", json.dumps([TALK | {"conversation_id": "c2"}, 5]))
    assert detect_format(path) == "chatgpt"
    log = read_log(path)
    assert [turn.session_id for turn in log] == ["c1", "c1", "c2", "c2"]
    assert [problem.file for problem in log.problems] == ["conversations-001.json"]


def test_two_exports_of_a_chat_have_the_same_ids(write, tmp_path):
    """The later export, unpacked or not, knows the earlier one's turns by the same ids."""
    first = {turn.turn_id for turn in read_log(write("conversations.json", json.dumps([TALK])))}
    later = json.loads(json.dumps(TALK))
    later["mapping"] |= _node("j", "g", "assistant", ["Port 6379."], 1772355800)
    write("new/conversations.json", json.dumps([later | {"current_node": "j"}]))
    assert {turn.turn_id for turn in read_log(tmp_path / "new")} == first


def test_a_zip_file_without_conversations_is_refused(tmp_path):
    """The message says what is looked for."""
    path = tmp_path / "holiday.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("photo.jpg", "x")
    with pytest.raises(LogFormatError, match=r"holds no conversations"):
        read_log(path)


@pytest.mark.parametrize(
    "odd", [{"author": None}, {"content": None}, {"content": {"parts": [None, 5, {}]}}, {"create_time": "x"}]
)
def test_odd_values_do_no_harm(write, odd):
    """Whatever a message holds, the rest is read."""
    talk = _conversation(
        _node("a", "root", "user", ["x"], **odd), _node("b", "a", "user", ["y"]), {"z": 5}, current_node="b"
    )
    log = read_log(write("conversations.json", json.dumps([talk, {"mapping": {}}])))
    assert list(log)[-1].text == "y"
    assert [problem.reason for problem in log.problems] == ["the conversation has no id"]


@pytest.mark.parametrize("at", [10**400, 1e300, float("nan"), float("inf"), -5, True, "soon", None])
def test_a_time_that_is_none_leaves_the_conversation_s(write, at):
    """No number breaks the reading off, and the path is found without `current_node`."""
    talk = _conversation(_node("a", "root", "user", ["one"], at), _node("b", "a", "assistant", ["two"], at))
    (turn,) = read_log(write("conversations.json", json.dumps([talk])))
    assert _words([turn]) == [[("user", "one"), ("assistant", "two")]]
    assert turn.created_at.isoformat() == "2026-03-01T09:00:00.250000+00:00"
