"""Snapshots of engram: turn nodes, rolling copies of the history, sessions told by pauses."""

import json

from neuralstream.logs import read_log


def _turn(question, answer, at, **fields):
    content = {"q": question, "a": answer, "created_at": at, "source": "chat", "label": f"chat:{at}"}
    return {"type": "Conversation", "label": f"chat:{at}", "content": json.dumps(content)} | fields


def _history(*words):
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(words)]
    return {"type": "Memory", "label": "conv:history", "content": json.dumps(messages)}


def _words(turns):
    return [[part.text for part in turn.parts] for turn in turns]


SNAPSHOT = {
    "nodes": [
        {"type": "Concept", "label": "redis", "content": "a server"},
        _turn("c", "d", "2026-03-01T09:10:00Z", type="Episodic"),
        _turn("a", "b", 1772355600.0),
        _turn("g", "h", "2026-03-01T15:00:00Z"),
        _history("a", "b", "c", "d", "e", "f"),
        _history("c", "d", "e", "f", "g", "h"),
    ],
    "edges": [],
}


def test_each_turn_is_taken_once(write):
    """Nodes give turns with times; what only the copies hold stands where it was said, with an estimated time."""
    log = read_log(write("snapshot.json", json.dumps(SNAPSHOT, indent=1)))
    turns = list(log)
    assert _words(turns) == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
    assert [turn.time_estimated for turn in turns] == [False, False, True, False]
    assert (log.format, log.problems, log.used, log.skipped) == ("engram", [], 5, 1)


def test_a_pause_begins_a_session(write):
    """Sessions are made up, and their names say so."""
    nodes = [_turn("a", "b", "2026-03-01T09:00:00Z"), _turn("c", "d", "2026-03-01T09:29:00Z"),
             _turn("e", "f", "2026-03-01T10:00:00Z")]  # fmt: skip
    turns = list(
        read_log(write("snapshot.json", json.dumps({"nodes": {str(n): node for n, node in enumerate(nodes)}})))
    )
    assert [turn.session_id for turn in turns] == [
        "engram~2026-03-01T09:00:00", "engram~2026-03-01T09:00:00", "engram~2026-03-01T10:00:00",
    ]  # fmt: skip


def test_a_later_snapshot_keeps_the_ids(write):
    """A turn that is only in a copy, and in a node of the next snapshot, is the same turn."""
    first = [turn.turn_id for turn in read_log(write("a.json", json.dumps(SNAPSHOT)))]
    grown = {
        "nodes": [*SNAPSHOT["nodes"], _turn("e", "f", "2026-03-01T09:20:00Z"), _turn("i", "j", "2026-03-02T09:20:00Z")]
    }
    assert [turn.turn_id for turn in read_log(write("b.json", json.dumps(grown)))][:4] == first


def test_the_same_words_said_twice_are_two_turns(write):
    """A second thank-you is kept, and no copy makes a third of it."""
    nodes = [_turn("thanks", "ok", "2026-03-01T09:00:00Z"), _turn("thanks", "ok", "2026-03-01T09:05:00Z")]
    copies = [_history("thanks", "ok", "thanks", "ok"), _history("thanks", "ok")]
    turns = list(read_log(write("a.json", json.dumps(nodes + copies))))
    assert _words(turns) == [["thanks", "ok"], ["thanks", "ok"]]
    assert len({turn.turn_id for turn in turns}) == 2


def test_damaged_nodes_are_passed_over(write):
    """What cannot be read holds no conversation."""
    damaged = [{"content": "{torn"}, {"content": [5]}, {}]
    nodes = [5, {}, *({"type": "Episodic"} | node for node in damaged), _turn("a", None, None)]
    log = read_log(write("a.json", json.dumps({"nodes": nodes})))
    assert _words(log) == [["a"]]
    assert log.skipped == 4
