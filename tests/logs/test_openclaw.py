"""OpenClaw's and pi's session files: the active path, what counts as conversation, tools, context use, damage."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralstream.logs import read_log
from neuralstream.types import Usage

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-23T10:00:00.000Z", "cwd": "/w"}
SENDER = 'Sender (untrusted metadata):\n```json\n{"name": "Ana"}\n```\n\n'


def _entry(key, parent, role, content, **message):
    second = sum(map(ord, key)) % 60
    return {
        "type": "message",
        "id": key,
        "parentId": parent,
        "timestamp": f"2026-02-23T10:00:{second:02}.000Z",
        "message": {"role": role, "content": content} | message,
    }


def _usage(total):
    return {"input": total - 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total}


def _read(path, **options):
    log = read_log(path, **options)
    return list(log), log


def _parts(turns):
    return [[(part.role, part.text) for part in turn.parts] for turn in turns]


SESSION = [
    HEADER,
    {"type": "model_change", "id": "m1", "parentId": None, "timestamp": "2026-02-23T10:00:00.500Z", "modelId": "m"},
    _entry("a1", "m1", "user", SENDER + "[Mon 2026-02-23 10:00 UTC] Use port 7443\n[message_id: 5]"),
    _entry("a2", "a1", "assistant", [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "[[reply_to_current]] Looking."},
        {"type": "toolCall", "id": "c0", "name": "read", "arguments": {"path": "caddy\nfile", "limit": 5}},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "false"}},
    ], usage=_usage(100), stopReason="toolUse"),
    _entry("a3", "a2", "toolResult", [{"type": "text", "text": "port\n 443"}], toolCallId="c0", isError=False),
    _entry("a4", "a3", "toolResult", [{"type": "text", "text": "exit 1"}], toolCallId="c1", isError=True),
    _entry("a5", "a4", "assistant", [{"type": "text", "text": "Done."}], usage=_usage(140), stopReason="stop"),
    _entry("a6", "a5", "assistant", "Done.", provider="openclaw", model="delivery-mirror", usage={"totalTokens": 0}),
    {"type": "compaction", "id": "k1", "parentId": "a6", "summary": "secret summary", "tokensBefore": 140},
    _entry("b1", "k1", "user", [{"type": "text", "text": "And staging?"}, {"type": "image", "data": "AAAA"}]),
    _entry("b2", "b1", "assistant", [{"type": "text", "text": "6379."}], usage=_usage(40), stopReason="stop"),
    _entry("b3", "b2", "custom", "injected"),
    {"type": "custom_message", "id": "b4", "parentId": "b3", "content": "injected"},
    _entry("h1", "b4", "user", "Read HEARTBEAT.md if it exists. If nothing needs attention, reply HEARTBEAT_OK."),
    _entry("h2", "h1", "assistant", [{"type": "text", "text": "HEARTBEAT_OK"}]),
]  # fmt: skip


def test_a_session_becomes_exchanges(write):
    """Words and tool lines stay; thinking, metadata, mirrors, summaries, injections and heartbeats go."""
    turns, log = _read(write("s.jsonl", SESSION))
    assert _parts(turns) == [
        [
            ("user", "Use port 7443"),
            ("assistant", "Looking."),
            ("tool", "read(path=caddy file, limit=5) -> port 443"),
            ("tool", "bash(command=false) -> error: exit 1"),
            ("assistant", "Done."),
        ],
        [("user", "And staging?\n[image]"), ("assistant", "6379.")],
    ]
    assert [turn.turn_id for turn in turns] == ["s1:a1", "s1:b1"]
    assert turns[0].created_at.isoformat() == "2026-02-23T10:00:26+00:00"
    assert turns[0].source.endswith("s.jsonl#3")
    assert (log.format, log.problems, log.used, log.skipped) == ("openclaw", [], 7, 8)


def test_a_mirror_with_other_words_is_kept(write):
    """Only a row that repeats the reply is a repetition."""
    mirror = _entry("a3", "a2", "assistant", "Delivered.", provider="openclaw", model="delivery-mirror")
    session = [HEADER, _entry("a1", None, "user", "x"), _entry("a2", "a1", "assistant", "Done."), mirror]
    assert _parts(_read(write("s.jsonl", session))[0])[0][1:] == [("assistant", "Done."), ("assistant", "Delivered.")]


def test_context_use_after_each_turn(write):
    """The last good reply's own figure and an estimate of what follows it; after a compaction nothing is known."""
    session = [
        HEADER,
        _entry("a1", None, "user", "x"),
        _entry("a2", "a1", "assistant", [{"type": "toolCall", "id": "c", "name": "t"}], usage=_usage(100)),
        _entry("a3", "a2", "toolResult", "r" * 400, toolCallId="c"),
        _entry("a4", "a3", "assistant", "broken", usage=_usage(7), stopReason="aborted"),
        {"type": "compaction", "id": "k", "parentId": "a4"},
        _entry("b1", "k", "user", "y"),
        _entry("c1", "b1", "user", "z"),
        _entry("c2", "c1", "assistant", "w", usage={"input": 20, "output": 2, "cacheRead": 8}),
    ]
    turns, log = _read(write("s.jsonl", session), max_tool_chars=10)
    assert [turn.turn_id for turn in turns] == ["s1:a1", "s1:b1", "s1:c1"]
    assert log.usage == {"s1:a1": Usage(tokens=100 + 100 + 2), "s1:c1": Usage(tokens=30)}


def test_tool_results_are_cut(write):
    """A long result is cut to the setting; nothing kept is the call alone."""
    session = [
        HEADER,
        _entry("a1", None, "user", "x"),
        _entry("a2", "a1", "assistant", [{"type": "toolCall", "id": "c", "name": "t", "arguments": {"q": "a" * 900}}]),
        _entry("a3", "a2", "toolResult", "r" * 900, toolCallId="c"),
    ]
    path = write("s.jsonl", session)
    call, _, result = _parts(_read(path, max_tool_chars=20)[0])[0][1][1].partition(" -> ")
    assert len(call) < 150
    assert result == "r" * 19 + "…"
    assert " -> " not in _parts(_read(path, max_tool_chars=0)[0])[0][1][1]


def test_a_late_result_stays_with_its_call(write):
    """A user who speaks while a tool runs opens a turn, and the result completes the call in the turn before."""
    session = [
        HEADER,
        _entry("a1", None, "user", "x"),
        _entry("a2", "a1", "assistant", [{"type": "toolCall", "id": "c", "name": "t"}]),
        _entry("b1", "a2", "user", "hurry"),
        _entry("b2", "b1", "toolResult", "ok", toolCallId="c"),
        _entry("b3", "b2", "toolResult", "stray", toolCallId="other", toolName="ls"),
        _entry("b4", "b3", "bashExecution", None, command="git log", output="abc", exitCode=0),
        _entry("b5", "b4", "bashExecution", None, command="secret", output="", excludeFromContext=True),
    ]
    assert _parts(_read(write("s.jsonl", session))[0]) == [
        [("user", "x"), ("tool", "t() -> ok")],
        [("user", "hurry"), ("tool", "ls() -> stray"), ("tool", "bash(git log) -> abc")],
    ]


def test_an_answered_call_is_closed(write):
    """Some providers use an id again: each result belongs to the latest open call, and a second one stands alone."""
    call = [{"type": "toolCall", "id": "c", "name": "t"}]
    session = [
        HEADER,
        _entry("a1", None, "user", "x"),
        _entry("a2", "a1", "assistant", call),
        _entry("a3", "a2", "toolResult", "one", toolCallId="c"),
        _entry("a4", "a3", "assistant", call),
        _entry("a5", "a4", "toolResult", "two", toolCallId="c"),
        _entry("a6", "a5", "toolResult", "three", toolCallId="c", toolName="t"),
    ]
    (turn,), _ = _read(write("s.jsonl", session))
    assert [part.text for part in turn.parts] == ["x", "t() -> one", "t() -> two", "t() -> three"]


TREE = [
    HEADER,
    _entry("a1", None, "user", "first"),
    _entry("a2", "a1", "assistant", "one"),
    _entry("b1", "a2", "user", "abandoned"),
    _entry("b2", "b1", "assistant", "two"),
    {"type": "branch_summary", "id": "z", "parentId": "a2", "fromId": "b2", "summary": "went back"},
    _entry("c1", "z", "user", "chosen"),
    _entry("c2", "c1", "assistant", "three"),
]


def test_the_active_path_is_read(write):
    """What the user went back from is left out, or read as a session of its own when asked for."""
    path = write("s.jsonl", TREE)
    turns, log = _read(path)
    assert [turn.turn_id for turn in turns] == ["s1:a1", "s1:c1"]
    assert (log.used, log.skipped) == (4, 4)
    everything, log = _read(path, branches=True)
    assert [(turn.session_id, turn.turn_id) for turn in everything] == [
        ("s1", "s1:a1"),
        ("s1", "s1:c1"),
        ("s1~b1", "s1:b1"),
    ]
    assert (log.used, log.skipped) == (6, 2)


def test_an_entry_keeps_its_id_when_the_branch_changes(write):
    """Going back to the other branch gives its turns the ids they had."""
    back = [*TREE, _entry("b3", "b2", "user", "again")]
    assert [turn.turn_id for turn in _read(write("s.jsonl", back))[0]] == ["s1:a1", "s1:b1", "s1:b3"]


def test_a_lost_parent_does_not_cut_the_conversation(write):
    """When an entry cannot be read, its child follows the entry before it."""
    lines = [json.dumps(value) for value in SESSION]
    lines[4] = lines[4][:30]
    turns, log = _read(write("s.jsonl", "\n".join(lines)))
    assert [turn.turn_id for turn in turns] == ["s1:a1", "s1:b1"]
    assert [problem.line for problem in log.problems] == [5]


def test_version_1_is_linear_and_has_stable_ids(write):
    """Without ids, entries follow each other, and a grown file gives the old turns their old ids."""
    session = [
        {"type": "session", "id": "old", "timestamp": "2025-12-01T10:00:00Z"},
        {"type": "message", "timestamp": "2025-12-01T10:00:01Z", "message": {"role": "user", "content": "a"}},
        {"type": "message", "message": {"role": "assistant", "content": "b", "timestamp": 1764583202000}},
        {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1},
        {"type": "message", "timestamp": "2025-12-01T10:05:00Z", "message": {"role": "user", "content": "a"}},
    ]
    turns, _ = _read(write("s.jsonl", session))
    assert _parts(turns) == [[("user", "a"), ("assistant", "b")], [("user", "a")]]
    assert len({turn.turn_id for turn in turns}) == 2
    grown, _ = _read(write("s.jsonl", [*session, session[2]]))
    assert [turn.turn_id for turn in grown] == [turn.turn_id for turn in turns]


def test_the_session_is_named_by_header_or_file(write):
    """A lost header is replaced by the file's name; topics of one session are sessions of their own."""
    message = [_entry("a1", None, "user", "x")]
    (turn,), _ = _read(write("2026-02-23T10-00-00-000Z_0198-ab.jsonl", message))
    assert turn.session_id == "0198-ab"
    (turn,), _ = _read(write("s1-topic-7.jsonl", [HEADER, *message]))
    assert turn.session_id == "s1-topic-7"


def test_a_folder_of_sessions(write):
    """Every session file below a folder is read in order; a problem names its file."""
    write("sessions/--w--/b.jsonl", [HEADER | {"id": "sb"}, _entry("a1", None, "user", "x")])
    path = write("sessions/--w--/a.jsonl", [HEADER | {"id": "sa"}, _entry("a1", None, "user", "y"), []]).parents[1]
    turns, log = _read(path)
    assert [turn.session_id for turn in turns] == ["sa", "sb"]
    assert [(problem.file, problem.line) for problem in log.problems] == [("--w--/a.jsonl", 3)]


def test_one_file_may_hold_several_sessions(write):
    """A header in the middle of a file begins another session, whose ids are its own."""
    part = [_entry("a1", None, "user", "x")]
    turns, log = _read(write("s.jsonl", [HEADER, *part, HEADER | {"id": "s2"}, *part, HEADER, *part]))
    assert [turn.turn_id for turn in turns] == ["s1:a1", "s2:a1"]
    assert [problem.reason for problem in log.problems] == ["entry id 'a1' was used before"]


@pytest.mark.parametrize("ending", ["gz", "1", "reset.2026-02-23T10-00-00.000Z"])
def test_a_file_that_was_put_away_keeps_its_session(write, ending):
    """Rotating, packing and archiving change a file's name, and no id."""
    path = write(f"s9.jsonl.{ending}", [_entry("a1", None, "user", "x")])
    assert [turn.turn_id for turn in _read(path)[0]] == ["s9:a1"]


def test_the_end_of_a_turn_is_known(write):
    """A stop reason ends a turn; a tool call, an error or no reason leaves it open."""
    session = [HEADER]
    for place, reason in enumerate(["stop", "toolUse", "error", None, "aborted", "length"]):
        session.append(_entry(f"a{place}", session[-1].get("id") if place else None, "user", "x"))
        session.append(_entry(f"b{place}", f"a{place}", "assistant", "y", stopReason=reason))
    assert _read(write("s.jsonl", session))[1].ended == {"s1:a0", "s1:a4", "s1:a5"}


def test_utterances_on_request(write):
    """By utterance, each message is a turn, tools with the words before them."""
    turns, _ = _read(write("s.jsonl", SESSION), unit="utterance")
    assert [[part.role for part in turn.parts] for turn in turns] == [
        ["user"], ["assistant", "tool", "tool"], ["assistant"], ["user"], ["assistant"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damage", [{"message": None}, {"message": {"content": "x"}}, {"message": {"role": []}}, {"type": 5}, {"type": None}]
)
def test_entries_of_a_wrong_shape_are_problems(write, damage):
    """JSON that is no entry is reported, not guessed at."""
    turns, log = _read(
        write("s.jsonl", [HEADER, _entry("a1", None, "user", "x"), _entry("a2", "a1", "user", "y") | damage])
    )
    assert [turn.turn_id for turn in turns] == ["s1:a1"]
    assert [problem.line for problem in log.problems] == [3]


@pytest.mark.parametrize(
    "message",
    [
        {"content": None},
        {"content": 5},
        {"content": [None, 3, {"type": []}, {"type": "text"}, {"type": "text", "text": 4}]},
        {"role": "assistant", "content": [{"type": "toolCall", "id": [], "name": {}, "arguments": [1]}]},
        {"role": "assistant", "content": "x", "usage": {"totalTokens": "many", "input": True}, "provider": []},
        {"role": "toolResult", "toolCallId": {}, "content": {"type": "text", "text": "r"}},
        {"role": "bashExecution", "command": None, "output": 5, "exitCode": []},
    ],
)
def test_odd_values_inside_a_message_do_no_harm(write, message):
    """Whatever a field holds, reading goes on."""
    odd = _entry("a2", "a1", "user", "y")
    odd["message"] |= message
    turns, log = _read(
        write("s.jsonl", [HEADER, _entry("a1", None, "user", "x"), odd, _entry("b1", "a2", "user", "z")])
    )
    assert turns[-1].text == "z"
    assert log.problems == []


def _mutated(lines, seed):
    """Lines dropped, cut, overwritten, exchanged or blanked."""
    chance = random.Random(seed)
    for line in lines:
        match chance.randrange(8):
            case 0:
                continue
            case 1:
                yield line[: chance.randrange(len(line))]
            case 2:
                place = chance.randrange(len(line))
                yield (
                    line[:place]
                    + bytes(chance.randrange(256) for _ in range(5)).replace(b"\n", b"")
                    + line[place + 5 :]
                )
            case 3:
                yield chance.choice([b"", b"  ", b"\0\0", b"[", b"{}", b"null", b'"x"', chance.choice(lines)])
            case _:
                yield line


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_every_line_of_a_damaged_file_is_accounted_for(tmp_path_factory, seed, branches):
    """Whatever happens to a file, nothing is raised, and each line that is not blank is used, skipped or a problem."""
    lines = list(_mutated([json.dumps(value).encode() for value in SESSION + TREE[1:]], seed))
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    path.write_bytes(b"\n".join(lines))
    turns, log = _read(path, format="openclaw", branches=branches)
    written = sum(1 for line in lines if line.decode(errors="replace").replace("\0", "").strip())
    assert log.used + log.skipped + len(log.problems) == written
    assert max(Counter((turn.session_id, turn.turn_id) for turn in turns).values(), default=1) == 1
    for turn in turns:
        json.dumps(turn.to_dict(), ensure_ascii=False).encode()
    assert turns == list(read_log(path, "openclaw", branches=branches))
