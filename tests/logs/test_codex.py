"""Codex CLI's session files: items rather than events, what the host says, context use, ids that last."""

from neuralstream.logs import read_log
from neuralstream.types import Usage


def _line(second, kind, **payload):
    return {"timestamp": f"2026-03-01T09:00:{second:02}.000Z", "type": kind, "payload": payload}


def _said(second, role, *texts):
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return _line(second, "response_item", type="message", role=role, content=content)


def _tokens(second, total, window=1000):
    info = {"last_token_usage": {"total_tokens": total}, "model_context_window": window}
    return _line(second, "event_msg", type="token_count", info=info)


def _read(path, **options):
    log = read_log(path, **options)
    return list(log), log


def _words(turns):
    return [[(part.role, part.text) for part in turn.parts] for turn in turns]


SESSION = [
    _line(0, "session_meta", id="s1", cwd="/w"),
    _said(1, "developer", "<permissions instructions>…"),
    _said(2, "user", "# AGENTS.md instructions for /w", "<environment_context>…</environment_context>"),
    _line(3, "turn_context", cwd="/w", model="m"),
    _said(4, "user", "Which port?"),
    _line(4, "event_msg", type="user_message", message="Which port?"),
    _line(5, "response_item", type="reasoning", summary=[]),
    _said(6, "assistant", "Looking."),
    _line(7, "response_item", type="function_call", name="shell", call_id="c1", arguments='{"command": ["ls", "-l"]}'),
    _line(8, "response_item", type="function_call_output", call_id="c1",
          output='{"output": "a\\nb", "metadata": {"exit_code": 2}}'),
    _line(9, "response_item", type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin"),
    _line(10, "response_item", type="custom_tool_call_output", call_id="c2", output="ok"),
    _line(11, "response_item", type="local_shell_call", call_id="c3", action={"command": ["cat", "x"]}),
    _line(11, "response_item", type="web_search_call", id="w1", action={"type": "search", "query": "redis"}),
    _tokens(12, 300),
    _said(13, "assistant", "7443."),
    _line(13, "event_msg", type="agent_message", message="7443."),
    _tokens(14, 400),
    _line(15, "event_msg", type="task_complete"),
    _line(16, "compacted", message="summary"),
    _said(17, "user", "Thanks"),
]  # fmt: skip


def test_a_session_becomes_exchanges(write):
    """Items stay, each once; events, reasoning, instructions and summaries go."""
    turns, log = _read(write("rollout.jsonl", SESSION))
    assert _words(turns) == [
        [
            ("user", "Which port?"),
            ("assistant", "Looking."),
            ("tool", 'shell(command=["ls", "-l"]) -> error: a b'),
            ("tool", "apply_patch(*** Begin) -> ok"),
            ("tool", "local_shell(cat x)"),
            ("tool", "web_search(redis)"),
            ("assistant", "7443."),
        ],
        [("user", "Thanks")],
    ]
    assert {turn.session_id for turn in turns} == {"s1"}
    assert (log.format, log.problems, log.used, log.skipped) == ("codex", [], 10, 11)


def test_context_use_and_the_end_of_a_turn_are_known(write):
    """The last figure told before the next turn counts; after a compaction nothing is known."""
    turns, log = _read(write("rollout.jsonl", SESSION))
    assert log.usage == {turns[0].turn_id: Usage(tokens=400, context_window=1000)}
    assert log.ended == {turns[0].turn_id}


def test_ids_last_when_a_file_grows_is_cut_or_repeats_itself(write):
    """A turn's id rests on what it is and when, not on where it stands; the same words at one time are two turns."""
    turns, _ = _read(write("rollout.jsonl", SESSION))
    cut, _ = _read(write("rollout.jsonl", [SESSION[0], *SESSION[16:], _said(20, "user", "More")]))
    assert cut[0].turn_id == turns[1].turn_id
    twice, _ = _read(write("rollout.jsonl", [SESSION[0], SESSION[4], SESSION[4]]))
    assert len({turn.turn_id for turn in twice}) == 2


def test_a_session_is_named_by_its_first_header_or_its_file(write):
    """A session that continues another holds the other's header too; without one, the file's name tells."""
    both = [SESSION[0], SESSION[0] | {"payload": {"id": "old"}}, SESSION[4]]
    assert _read(write("a.jsonl", both))[0][0].session_id == "s1"
    path = write("rollout-2026-03-01T09-00-00-0198-ab.jsonl", [SESSION[4]])
    assert _read(path)[0][0].session_id == "0198-ab"


def test_a_tool_call_may_come_first(write):
    """A file that was cut may begin anywhere."""
    (turn,), _ = _read(write("a.jsonl", [SESSION[0], SESSION[9], SESSION[12], _said(20, "assistant", "ok")]))
    assert [part.text for part in turn.parts] == ["tool() -> error: a b", "local_shell(cat x)", "ok"]


def test_what_is_no_record_is_a_problem(write):
    """Damaged lines are named, odd values are harmless."""
    odd = [
        _line(1, "response_item", type="message", role="user", content=None),
        _line(1, "response_item", type="message", role=[], content="x"),
        _line(1, "response_item", type="function_call", name=None, call_id=None, arguments=5, action=3),
        _line(1, "response_item", type="function_call_output", output=None),
        _line(1, "event_msg", type="token_count", info=None),
        _line(1, "event_msg", type="token_count", info={"last_token_usage": {"total_tokens": "x"}}),
    ]
    turns, log = _read(write("a.jsonl", [SESSION[0], [], {"type": "response_item"}, *odd, SESSION[4]]))
    assert turns[-1].text == "Which port?"
    assert [problem.line for problem in log.problems] == [2, 3]
