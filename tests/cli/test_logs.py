def test_replay_captures_and_distils(cli, log):
    """Replaying reports turns, sessions, batches and gems; the unreadable line is counted, and named on stderr."""
    ran = cli("replay", log, "--json")
    assert ran.code == 0
    [done] = ran.json
    assert done["gems"] > 0
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


def test_replay_refuses_what_is_no_log(cli, tmp_path):
    """A missing file, an unknown format and a file in no known format are wrong use."""
    plain = tmp_path / "poem.txt"
    plain.write_text("Roses are red\n")
    for arguments in ((tmp_path / "missing",), (plain,), (plain, "--format", "poetry")):
        ran = cli("replay", *arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        assert ran.err.startswith("error: ")
