import json


def test_replay_captures_and_distils(cli, log):
    """Replaying reports turns, sessions, batches and gems; the unreadable line is counted, and named on stderr."""
    ran = cli("replay", log, "--json")
    assert ran.code == 0
    [done] = ran.json
    assert done["gems"] > 0
    assert done.pop("policy")["by_cause"] == {"batch": 1, "end": 1}
    assert done == {
        "log": str(log), "new": 7, "known": 0, "sessions": 1, "batches": 2, "gems": done["gems"], "problems": 1,
    }  # fmt: skip
    assert f"{log}:4: " in ran.err


def test_replaying_again_adds_nothing(own_memory, log):
    """A log that is known adds no turn and no gem."""
    [again] = own_memory("replay", log, "--json").json
    assert (again["new"], again["known"], again["gems"], again["batches"]) == (0, 7, 0, 0)


def test_replay_takes_several_logs(cli, log, tmp_path):
    """Each log has its own line."""
    other = tmp_path / "other.jsonl"
    other.write_text(log.read_text().replace('"s1"', '"s2"'))
    rows = cli("replay", log, other).rows
    assert [(row["log"], row["new"]) for row in rows] == [(str(log), "7"), (str(other), "7")]


def test_replay_as_a_user(cli, log):
    """--user is whose turns they are where the log names nobody."""
    cli("replay", log, "--user", "ada")
    assert len(cli("thread", "s1", "--user", "ada", "--json").json) == 7


def test_replay_with_another_unit_and_batch_size(cli, log):
    """--unit changes what a turn is, and --set overrides a setting for this call."""
    [done] = cli("replay", log, "--unit", "utterance", "--set", "batch_size=14", "--json").json
    assert (done["new"], done["batches"]) == (14, 1)


def test_replay_tells_its_timeline(cli, log, tmp_path):
    """--batches prints a row per batch, --timeline writes every turn and batch."""
    file = tmp_path / "timeline.jsonl"
    rows = cli("replay", log, "--timeline", file, "--batches").rows
    assert [(row["at"], row["cause"], row["turns"]) for row in rows] == [
        ("2026-02-23 10:04", "batch", "5"),
        ("2026-02-23 10:06", "end", "2"),
    ]
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert (events.count("turn"), events.count("batch")) == (7, 2)


def test_replay_lives_by_the_clock_of_the_log(cli, log):
    """Silence in the log, not the time that replaying takes, makes a session idle."""
    log.write_text(log.read_text().replace("T10:05", "T11:05").replace("T10:06", "T11:06"))
    [idle, _] = cli("replay", log, "--batches", "--json", "--set", "batch_size=9", "--set", "idle_timeout=10m").json
    assert (idle["cause"], idle["at"]) == ("idle", "2026-02-23T10:14:00Z")


def test_replay_refuses_what_is_no_log(cli, tmp_path):
    """A missing file, an unknown format and a file in no known format are wrong use."""
    plain = tmp_path / "poem.txt"
    plain.write_text("Roses are red\n")
    for arguments in ((tmp_path / "missing",), (plain,), (plain, "--format", "poetry")):
        ran = cli("replay", *arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        assert ran.err.startswith("error: ")
