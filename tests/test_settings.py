"""Settings: names, ranges, precedence, secrets, the digest."""

import json
import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from neuralstream.config import Settings, assignments, setting_facts
from neuralstream.errors import SettingsError


@pytest.fixture(autouse=True)
def _nowhere(tmp_path, monkeypatch):
    """No settings file and no variable of the machine reaches these tests."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("NEURALSTREAM_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("batch_size", 5),
        ("context_threshold", 50),
        ("idle_timeout", timedelta(minutes=15)),
        ("gem_model", "qwen3"),
        ("max_gems_injected", 10),
        ("embedding", "snowflake-arctic-embed2"),
        ("collection", "neuralstream"),
    ],
)
def test_seed_settings_keep_names_and_defaults(name, default):
    """Every setting of the seed has the seed's name and default."""
    assert getattr(Settings(), name) == default


def test_every_setting_is_described():
    """Every setting says what it means, and every default lies within its own range."""
    facts = list(setting_facts())
    assert len({fact.name for fact in facts}) == len(facts)
    assert all(fact.meaning for fact in facts)
    assert {"batch_size", "retrieval.people.weights", "buffer.lease"} <= {fact.name for fact in facts}


def test_facts_carry_ranges_choices_and_written_defaults():
    """A fact gives the range or the choices, and the default as a file would have it."""
    facts = {fact.name: fact for fact in setting_facts()}
    assert facts["context_threshold"].allowed == "40 to 80"
    assert facts["retrieval.graph_restart"].allowed == "above 0 to below 1"
    assert facts["context_budget"].allowed == "from 50"
    assert facts["retrieval.lane"].allowed == "turns, gems, all"
    assert facts["idle_timeout"].default == "900s"
    assert facts["home"].default is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 0}, r"batch_size = 0: .*\(allowed: 1 to 100\)"),
        ({"context_threshold": 39}, r"context_threshold = 39: .*\(allowed: 40 to 80\)"),
        ({"context_threshold": 80.1}, r"\(allowed: 40 to 80\)"),
        ({"max_disk_mb": 1}, r"max_disk_mb = 1: .*\(allowed: from 16\)"),
        ({"retrieval": {"mode": "fuzzy"}}, r"retrieval.mode = 'fuzzy': .*'substring'"),
        ({"retrieval": {"people": {"weights": {"bm25": "much"}}}}, r"retrieval.people.weights.bm25 = 'much'"),
        ({"idle_timeout": "soon"}, r"idle_timeout = 'soon': write a duration as 15m"),
        ({"idle_timeout": 0}, r"idle_timeout = 0: a duration is longer than 0"),
        ({"batchsize": 5}, r"unknown setting 'batchsize'; `neuralstream config show`"),
        ({"retrieval": {"modes": "bm25"}}, r"unknown setting 'retrieval.modes'"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(values, message):
    """A wrong setting is refused with its name, the value seen and what is allowed."""
    with pytest.raises(SettingsError, match=message):
        Settings(**values)


def test_all_wrong_settings_are_named_at_once():
    """Two mistakes make two lines, so that nobody fixes one to meet the next."""
    with pytest.raises(SettingsError) as refused:
        Settings(batch_size=0, foo=1)
    assert len(str(refused.value).splitlines()) == 2


def test_settings_do_not_change():
    """A setting cannot be reassigned."""
    with pytest.raises(ValueError, match="frozen"):
        Settings().batch_size = 6


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("15m", 900), ("900s", 900), ("900", 900), (900, 900), ("1.5h", 5400), (" 30 d ", 2_592_000)],
)
def test_durations_are_written_with_a_unit_or_as_seconds(written, seconds):
    """Durations are written `15m`, `900s`, `1h`, `30d`, or as seconds."""
    assert Settings(idle_timeout=written).idle_timeout == timedelta(seconds=seconds)


@given(st.integers(1, 10**9))
def test_a_duration_survives_being_written_and_read(seconds):
    """What `config show` writes can be put into a file again."""
    settings = Settings(idle_timeout=seconds)
    written = settings.model_dump(mode="json")["idle_timeout"]
    assert Settings(idle_timeout=written).idle_timeout == settings.idle_timeout


def test_precedence(tmp_path, monkeypatch):
    """Arguments win over the environment, the environment over the file, the file over defaults."""
    file = tmp_path / "mine.toml"
    file.write_text('batch_size = 2\ncontext_threshold = 41\n[retrieval]\nk = 7\nmode = "bm25"\n')
    monkeypatch.setenv("NEURALSTREAM_CONTEXT_THRESHOLD", "42")
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL__K", "8")
    settings = Settings.load(file, retrieval={"k": 9})
    assert (settings.batch_size, settings.context_threshold) == (2, 42)
    assert (settings.retrieval.k, settings.retrieval.mode) == (9, "bm25")
    assert settings.max_gems_injected == 10


def test_layers_say_where_a_value_came_from(tmp_path, monkeypatch):
    """Each layer comes with its name, lowest first."""
    (tmp_path / "neuralstream.toml").write_text("batch_size = 2\n")
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL__K", "8")
    assert Settings.layers(arguments={"user_id": "ada"}) == [
        ("neuralstream.toml", {"batch_size": 2}),
        ("environment", {"retrieval": {"k": "8"}}),
        ("arguments", {"user_id": "ada"}),
    ]


def test_file_is_found_by_variable_and_in_the_working_folder(tmp_path, monkeypatch):
    """$NEURALSTREAM_CONFIG names the file; without it, the one in the working folder is read; without that, none."""
    assert Settings.load().batch_size == 5
    (tmp_path / "neuralstream.toml").write_text("batch_size = 2\n")
    assert Settings.load().batch_size == 2
    (tmp_path / "other.toml").write_text("batch_size = 3\n")
    monkeypatch.setenv("NEURALSTREAM_CONFIG", str(tmp_path / "other.toml"))
    assert Settings.load().batch_size == 3


def test_folders_may_start_at_the_user_s_own(monkeypatch, tmp_path):
    """`~` in a folder is the user's home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings(home="~/memory", cache_dir="~").model_dump()["home"] == tmp_path / "memory"
    assert Settings(cache_dir="~").cache_dir == tmp_path


def test_weights_are_one_decision(tmp_path):
    """A file that names weights means just these; the defaults are not mixed in."""
    file = tmp_path / "mine.toml"
    file.write_text("[retrieval.people.weights]\ndense = 2.0\n")
    assert Settings.load(file).retrieval.people.weights == {"dense": 2.0}


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot read"), (b"batch_size = ", "is not TOML"), (b"\xff\xfe", "is not TOML")]
)
def test_unusable_file_is_refused_by_name(tmp_path, content, message):
    """A file that is missing or not TOML is refused, and named."""
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=message) as refused:
        Settings.load(file)
    assert "mine.toml" in str(refused.value)


def test_environment_refuses_unknown_names(monkeypatch):
    """A misspelt variable is refused, never ignored."""
    monkeypatch.setenv("NEURALSTREAM_BACH_SIZE", "3")
    with pytest.raises(SettingsError, match="unknown setting 'bach_size'"):
        Settings.load()


@pytest.mark.parametrize("name", ["DEBUG", "TEST_DATA", "TEST_REDIS_URL"])
def test_some_variables_are_not_settings(monkeypatch, name):
    """The variables that ask for tracebacks or steer tests are no settings, and an empty variable is as if unset."""
    monkeypatch.setenv(f"NEURALSTREAM_{name}", "1")
    monkeypatch.setenv("NEURALSTREAM_REDIS_URL", "")
    assert Settings.load().redis_url is None


def test_environment_takes_json_for_mappings(monkeypatch):
    """A mapping in a variable is written as JSON."""
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL__PEOPLE__WEIGHTS", '{"dense": 2}')
    assert Settings.load().retrieval.people.weights == {"dense": 2.0}


def test_a_table_and_a_value_for_it_clash(monkeypatch):
    """A variable that gives a table a value beside one that gives its key a value is refused with a sentence."""
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL", "bm25")
    monkeypatch.setenv("NEURALSTREAM_RETRIEVAL__MODE", "bm25")
    with pytest.raises(SettingsError, match="retrieval is given a value"):
        Settings.load()


def test_assignments():
    """`name=value` texts become arguments; later ones win; a value may hold `=`."""
    assert assignments(["retrieval.mode=bm25", "batch_size=3", "user_id=a=b", "batch_size=4"]) == {
        "retrieval": {"mode": "bm25"},
        "batch_size": "4",
        "user_id": "a=b",
    }


@pytest.mark.parametrize("text", ["batch_size", "path=x", "retrieval.mode.x=1"])
def test_assignments_that_set_nothing_are_refused(text):
    """A text without `=`, or that names no setting, is refused."""
    with pytest.raises(SettingsError):
        Settings.load(**assignments([text]))


def test_secrets_do_not_show():
    """Neither repr, dumps nor refusals show an address with its password, or a key."""
    settings = Settings(redis_url="redis://:hunter2@host", qdrant_api_key="hunter2")
    assert settings.redis_url.get_secret_value() == "redis://:hunter2@host"
    assert "hunter2" not in repr(settings) + str(settings) + json.dumps(settings.model_dump(mode="json"))
    with pytest.raises(SettingsError) as refused:
        Settings(qdrant_api_key=424242)
    assert "424242" not in str(refused.value)
    assert "qdrant_api_key" in str(refused.value)


@pytest.mark.parametrize(
    "harmless",
    [
        {"home": "/elsewhere"},
        {"cache_dir": "/elsewhere"},
        {"redis_url": "redis://host"},
        {"qdrant_url": "http://host", "qdrant_api_key": "key"},
        {"ollama_url": "http://host"},
        {"store_timeout": "1s"},
        {"worker": "inline"},
        {"embed": {"timeout": "1s", "cache": False}},
        {"buffer": {"timeout": "1s", "prefix": "other"}},
    ],
)
def test_digest_ignores_what_cannot_change_a_result(harmless):
    """Paths, addresses and timeouts leave the digest as it is."""
    assert Settings(**harmless).digest() == Settings().digest()


def test_digest_changes_with_everything_else():
    """Any other setting makes another digest."""
    others = [
        {"batch_size": 4},
        {"context_threshold": 60},
        {"redact": False},
        {"idle_timeout": "1m"},
        {"embedding": "x"},
        {"gem_model": "x"},
        {"retrieval": {"people": {"bm25_b": 0.5}}},
        {"retrieval": {"people": {"weights": {"dense": 1.0}}}},
        {"extract": {"max_gems_per_turn": 0.7}},
        {"embed": {"chunk_overlap": 8}},
    ]
    digests = {Settings(**other).digest() for other in others} | {Settings().digest()}
    assert len(digests) == len(others) + 1


def test_digest_is_the_same_however_a_value_is_written():
    """15m, 900s and a SecretStr are the values they stand for."""
    assert Settings(idle_timeout="15m").digest() == Settings(idle_timeout=900.0).digest()
    assert Settings(redis_url=SecretStr("redis://host")).digest() == Settings().digest()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"redis_url": "localhost:6379"}, "redis_url.*begins with redis://"),
        ({"qdrant_url": "localhost:6333"}, "qdrant_url.*begins with http://"),
        ({"ollama_url": "ftp://:hunter2@host"}, "ollama_url.*begins with http://"),
        ({"idle_timeout": "99999999999999d"}, "idle_timeout.*shorter than"),
        ({"retrieval": {"people": {"weights": {"bm25": float("nan")}}}}, "retrieval.people.weights"),
        (
            {"retrieval": {"people": {"weights": {"bm25": 1, "dense": -1}}}},
            r"retrieval.people.weights.*below 0 for \['dense'\]",
        ),
        ({"retrieval": {"people": {"weights": {"bm52": 1}}}}, r"unknown features \['bm52'\]; use bm25, bm25_text"),
        (
            {"retrieval": {"assistant": {"weights": {"recency": 1, "bm25": 0}}}},
            "retrieval.assistant.weights.*finds nothing",
        ),
    ],
)
def test_values_that_no_part_could_use_are_refused_at_once(setting, message):
    """A wrong address, an endless duration or a weight that is none is named before any part is opened."""
    with pytest.raises(SettingsError, match=message) as refused:
        Settings(**setting)
    assert "hunter2" not in str(refused.value)
