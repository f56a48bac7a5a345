import json

import pytest

from neuralstream.config import Settings
from neuralstream.errors import DatasetError
from neuralstream.workbench import datasets
from neuralstream.workbench.own_logs import append_line, read_lines, read_own_logs, write_set


def make(logs, folder, *, by_file=True):
    """Write the logs as a set and load it."""
    write_set(folder, read_own_logs([logs], Settings(), log_format="auto", unit=None, by_file=by_file))
    return datasets.load(f"native:{folder}")


def test_a_folder_of_files_is_read_though_its_format_knows_no_folders(own_logs, tmp_path):
    """OpenAI messages are a file each; their turns come in the order of time."""
    data = make(own_logs, tmp_path / "mine")
    assert [one.name for one in data.conversations] == ["ada", "eve"]
    times = [turn.at() for turn in data.conversations[0].turns]
    assert len(times) == 5
    assert times == sorted(times)


def test_without_by_file_all_logs_are_one_persons(own_logs, tmp_path):
    """The settings' user, where logs name nobody."""
    assert [one.name for one in make(own_logs, tmp_path / "mine", by_file=False).conversations] == ["default"]


def test_files_of_one_name_in_two_folders_are_not_taken_for_one_person(own_logs, tmp_path):
    """`ada/log.jsonl` and `eve/log.jsonl` are two people's."""
    for person in ("ada", "eve"):
        (own_logs / person).mkdir()
        (own_logs / f"{person}.jsonl").rename(own_logs / person / "log.jsonl")
    with pytest.raises(DatasetError, match=r"each hold a file of log.*give the files their people's names"):
        make(own_logs, tmp_path / "mine")
    assert [one.name for one in make(own_logs, tmp_path / "mine", by_file=False).conversations] == ["default"]


def test_secrets_are_masked_before_anything_is_written(own_logs, tmp_path):
    """A labelled set gets copied and committed."""
    make(own_logs, tmp_path / "mine")
    written = "".join(file.read_text() for file in (tmp_path / "mine").rglob("*.jsonl"))
    assert "sk-abcdefghij" not in written
    assert "Grafana" in written


def test_logs_may_grow_but_not_be_exchanged(own_logs, tmp_path):
    """Labels cite turns: a log that lost turns or people is refused, and nothing is changed."""
    make(own_logs, tmp_path / "mine")
    more = {"id": "ada-9", "messages": [{"role": "user", "content": "One more thing"}]}
    log = own_logs / "ada.jsonl"
    append_line(log, more)
    assert len(make(own_logs, tmp_path / "mine").conversations[0].turns) == 6
    log.write_text(json.dumps(more) + "\n")
    with pytest.raises(DatasetError, match="5 turns"):
        make(own_logs, tmp_path / "mine")
    (own_logs / "eve.jsonl").unlink()
    with pytest.raises(DatasetError, match="eve"):
        make(own_logs, tmp_path / "mine")
    assert len(datasets.load(f"native:{tmp_path / 'mine'}").conversations[0].turns) == 6


def test_logs_without_a_turn_are_refused(own_logs, tmp_path):
    """An empty folder is most likely a wrong one."""
    for file in own_logs.iterdir():
        file.unlink()
    with pytest.raises(DatasetError, match="no turn"):
        make(own_logs, tmp_path / "mine")


def test_a_half_written_last_line_is_taken_away(tmp_path):
    """What a killed process left; whole lines stay as they were."""
    file = tmp_path / "rows.jsonl"
    append_line(file, {"n": 1})
    whole = file.read_text()
    file.write_text(whole + '{"n": 2')
    assert read_lines(file) == [{"n": 1}]
    assert file.read_text() == whole
    assert read_lines(tmp_path / "none.jsonl") == []
