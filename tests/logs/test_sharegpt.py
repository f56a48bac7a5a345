"""ShareGPT: its names for who speaks, calls and observations, conversations that start with the model."""

from neuralstream.logs import read_log


def _say(speaker, text):
    return {"from": speaker, "value": text}


def _parts(log):
    return [[(part.role, part.text) for part in turn.parts] for turn in log]


def test_a_conversation(write):
    """It may start with the model; system text goes; a call and its observation are one line."""
    record = {
        "id": "x1",
        "conversations": [
            _say("system", "rules"),
            _say("gpt", "Hello"),
            _say("human", "Rain?"),
            _say("function_call", '{"name": "weather", "arguments": {"city": "Oslo"}}'),
            _say("observation", "3 mm"),
            _say("gpt", "A little."),
            _say("user", "Thanks"),
        ],
    }
    log = read_log(write("share.jsonl", [record]))
    assert _parts(log) == [
        [("assistant", "Hello")],
        [("user", "Rain?"), ("tool", "weather(city=Oslo) -> 3 mm"), ("assistant", "A little.")],
        [("user", "Thanks")],
    ]
    assert log.format == "sharegpt"
    assert {turn.session_id for turn in log} == {"x1"}


def test_a_call_that_is_no_json(write):
    """A call in plain text is kept as it is."""
    record = {"conversations": [_say("human", "a"), _say("function_call", "ls -l"), _say("tool", "b")]}
    assert _parts(read_log(write("share.json", [record])))[0][1] == ("tool", "tool(ls -l) -> b")


def test_ids_are_the_same_on_every_reading(write):
    """Records without ids are told apart, and read alike each time."""
    record = {"conversations": [_say("human", "a"), _say("gpt", "b")]}
    path = write("share.jsonl", [record, record])
    first, second = list(read_log(path)), list(read_log(path))
    assert first == second
    assert len({turn.turn_id for turn in first}) == 2


def test_damage_is_counted(write):
    """Null values and odd messages do no harm."""
    record = {"conversations": [None, {"from": 1}, _say("human", None), _say("gpt", "b")]}
    log = read_log(write("share.jsonl", [record, {"conversations": {}}]), "sharegpt")
    assert _parts(log) == [[("assistant", "b")]]
    assert [problem.line for problem in log.problems] == [1, 1, 2]
