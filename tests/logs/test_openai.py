"""OpenAI messages: contents of every kind, tool calls, ids that last."""

import json

import pytest

from neuralstream.logs import read_log

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
CONVERSATION = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Rain?"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 mm"},
        {"role": "assistant", "content": "Yes, a little."},
        {"role": "user", "content": "Thanks"},
    ]
}


def _parts(turns):
    return [[(part.role, part.text) for part in turn.parts] for turn in turns]


def test_a_conversation(write):
    """System messages go; a tool call and its result are one line; without times all turns are estimated."""
    turns = list(read_log(write("chat.jsonl", [CONVERSATION])))
    assert _parts(turns) == [
        [("user", "Rain?\n[image]"), ("tool", "weather(city=Oslo) -> 3 mm"), ("assistant", "Yes, a little.")],
        [("user", "Thanks")],
    ]
    assert all(turn.time_estimated for turn in turns)
    assert turns[0].created_at < turns[1].created_at


def test_older_function_calls(write):
    """The form with `function_call` and role `function` reads the same."""
    messages = [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{broken"}},
        {"role": "function", "name": "weather", "content": "3 mm"},
    ]
    (turn,) = read_log(write("chat.jsonl", [{"messages": messages}]))
    assert turn.parts[1].text == "weather({broken) -> 3 mm"


def test_times_are_used_where_there_are_some(write):
    """A message's own time counts."""
    messages = [{"role": "user", "content": "a", "created_at": 1770717600}, {"role": "assistant", "content": "b"}]
    (turn,) = read_log(write("chat.jsonl", [{"messages": messages}]))
    assert turn.created_at.isoformat() == "2026-02-10T10:00:00+00:00"
    assert not turn.time_estimated


def test_ids_last_while_the_file_grows(write):
    """More messages and more conversations leave the old turns' ids alone; equal conversations are not one."""
    old = list(read_log(write("chat.jsonl", [CONVERSATION])))
    longer = {"messages": [*CONVERSATION["messages"], {"role": "assistant", "content": "Bye"}]}
    new = list(read_log(write("chat.jsonl", [longer, CONVERSATION])))
    assert [turn.turn_id for turn in new[:2]] == [turn.turn_id for turn in old]
    assert len({turn.turn_id for turn in new}) == 4
    assert len({turn.session_id for turn in new}) == 2


def test_a_record_may_name_its_conversation(write):
    """An id of the record is the session's."""
    assert {turn.session_id for turn in read_log(write("a.jsonl", [{"id": "conv-7"} | CONVERSATION]))} == {"conv-7"}


@pytest.mark.parametrize("text", [json.dumps(CONVERSATION, indent=2), json.dumps([CONVERSATION], indent=2)])
def test_plain_json_files(write, text):
    """A single conversation, or an array of them, may be written over many lines."""
    assert len(list(read_log(write("chat.json", text)))) == 2


def test_damage_is_counted(write):
    """A record without messages and a message without a role are problems with their line; the rest is read."""
    broken = {"messages": ["text", {"content": "x"}, {"role": "user", "content": "y"}, {"role": "user", "content": 7}]}
    log = read_log(write("chat.jsonl", [broken, {"messages": None}, 5]))
    assert _parts(log) == [[("user", "y")]]
    assert [problem.line for problem in log.problems] == [1, 1, 2, 3]
