def test_a_dry_run_says_what_is_there(cli, log, tmp_path):
    """Turns by format, user, session and day, totals by format; what is no log is named, and nothing is captured."""
    (tmp_path / "logs").mkdir()
    log.rename(tmp_path / "logs" / "s1.jsonl")
    (tmp_path / "logs" / "index.json").write_text("{}")
    ran = cli("import", tmp_path / "logs", "--dry-run", "--json")
    assert ran.code == 0
    total = {"format": "openclaw", "logs": 1, "sessions": 1, "turns": 7, "problems": 1}
    assert ran.json["formats"] == [total | {"first": "2026-02-23", "last": "2026-02-23"}]
    found = {"format": "openclaw", "user": "default", "session": "s1", "date": "2026-02-23", "turns": 7}
    assert ran.json["found"] == [found]
    assert ran.json["unknown"] == [str(tmp_path / "logs" / "index.json")]
    assert "index.json: passed over" in ran.err
    assert not (tmp_path / "home").exists()
    assert cli("import", tmp_path / "logs", "--dry-run").rows == [{key: str(value) for key, value in found.items()}]


def test_importing_captures_and_says_what_was_new(cli, log):
    """A second import knows all of it."""
    [first] = cli("import", log, "--json").json
    assert (first["new"], first["known"], first["sessions"], first["problems"]) == (7, 0, 1, 1)
    [again] = cli("import", log).rows
    assert (again["new"], again["known"]) == ("0", "7")
    assert len(cli("thread", "s1", "--json").json) == 7


def test_what_is_no_log_is_wrong_use(cli, tmp_path):
    """A file that is named must be a log; a server that is named must answer."""
    assert cli("import", tmp_path / "gone").code == 2
    assert cli("import", "redis://127.0.0.1:1/0").code == 3
