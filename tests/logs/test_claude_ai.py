"""Claude.ai's export: blocks, attachments, branches, and the older linear form."""

import json

import pytest

from neuralstream.logs import read_log

ROOT = "00000000-0000-4000-8000-000000000000"


def _message(uuid, sender, content, parent=None, **fields):
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    tree = {"parent_message_uuid": parent} if parent else {}
    return {"uuid": uuid, "sender": sender, "text": "flat", "content": blocks} | tree | fields


def _talk(*messages):
    return {"uuid": "c1", "name": "n", "created_at": "2026-03-01T09:00:00Z", "chat_messages": list(messages)}


def _words(turns):
    return [[(part.role, part.text) for part in turn.parts] for turn in turns]


TALK = _talk(
    _message("a", "human", "Which port?", ROOT, created_at="2026-03-01T09:00:05.250Z", attachments=[
        {"file_name": "caddy.txt", "extracted_content": "listen\n7443"}], files=[{"file_name": "plan.png"}]),
    _message("b", "assistant", [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": None, "name": "search", "input": {"q": "port"}},
        {"type": "tool_result", "tool_use_id": None, "name": "search", "content": [{"type": "text", "text": "7443"}]},
        {"type": "text", "text": "Port 7443."},
    ], "a"),
    _message("old", "human", "abandoned", "b"),
    _message("d", "human", "And staging?", "b"),
)  # fmt: skip


def test_a_conversation_becomes_exchanges(write):
    """Text blocks, files and tool lines stay; thinking and other branches go."""
    log = read_log(write("conversations.json", json.dumps([TALK])))
    turns = list(log)
    assert _words(turns) == [
        [
            ("user", "Which port?\n[file caddy.txt] listen 7443\n[file plan.png]"),
            ("tool", "search(q=port) -> 7443"),
            ("assistant", "Port 7443."),
        ],
        [("user", "And staging?")],
    ]
    assert [turn.turn_id for turn in turns] == ["c1:a", "c1:d"]
    assert turns[0].created_at.isoformat() == "2026-03-01T09:00:05.250000+00:00"
    assert (log.format, log.problems, log.used, log.skipped) == ("claude-ai", [], 3, 1)


def test_other_branches_on_request(write):
    """A question that was edited is a session of its own."""
    turns = list(read_log(write("conversations.json", json.dumps([TALK])), branches=True))
    assert [(turn.session_id, turn.turn_id) for turn in turns][2:] == [("c1~old", "c1:old")]


def test_the_older_form_is_linear_and_flat(write):
    """Without parents messages follow each other; without blocks `text` is read, and the chat's time is the first's."""
    talk = _talk(_message("a", "human", []), _message("b", "assistant", None, text="hi"), _message("c", "human", ""))
    (turn, last) = read_log(write("conversations.json", json.dumps([talk])))
    assert _words([turn]) == [[("user", "flat"), ("assistant", "hi")]]
    assert turn.created_at.isoformat() == "2026-03-01T09:00:00+00:00"
    assert last.text == "flat"


def test_attachments_are_cut_like_results(write):
    """A pasted book stays a line."""
    (turn, _) = read_log(write("conversations.json", json.dumps([TALK])), max_tool_chars=6)
    assert "[file caddy.txt] liste…" in turn.text
    (turn, _) = read_log(write("conversations.json", json.dumps([TALK])), max_tool_chars=0)
    assert "[file caddy.txt]\n" in turn.text


def test_what_is_no_conversation_is_a_problem(write):
    """Entries of another shape are named; messages of another shape are passed over."""
    talk = _talk(None, 5, _message("a", "robot", "x"), _message("b", "human", "y"))
    log = read_log(write("conversations.json", json.dumps([talk, {"chat_messages": []}, talk | {"uuid": ""}, 7])))
    assert [turn.text for turn in log] == ["y"]
    assert len(log.problems) == 3


@pytest.mark.parametrize("uuid", [{"a": 1}, ["a"], 7, None, ""])
def test_an_id_that_is_no_text_hides_no_message(write, uuid):
    """The message stands by its place, is nobody's parent, and its own parent is unknown."""
    talk = _talk(
        _message("a", "human", "asked") | {"parent_message_uuid": "root"},
        _message("b", "assistant", "told") | {"parent_message_uuid": "a"},
        _message(uuid, "human", "again") | {"parent_message_uuid": "b"},
    )
    assert [turn.text for turn in read_log(write("conversations.json", json.dumps([talk])))] == ["asked\ntold", "again"]
    talk["chat_messages"][2]["parent_message_uuid"] = uuid
    assert [turn.text for turn in read_log(write("conversations.json", json.dumps([talk])))] == ["again"]
