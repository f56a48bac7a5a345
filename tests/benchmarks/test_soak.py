from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from benchmarks.soak import __main__ as soak
from benchmarks.soak.checks import (
    FLAT_FILES,
    FLAT_KB,
    Check,
    Known,
    Promised,
    as_metrics,
    check_memory,
    check_what_is_known,
    metrics_differences,
    slope_of,
)
from benchmarks.soak.host import Actor, Connection, Host, mark
from benchmarks.soak.report import report
from benchmarks.soak.run import Soak, plan
from benchmarks.soak.service import Life, Memory, Sample, Tally
from neuralstream.testing.server import Reply, ScriptedServer

FLAT, LEAKING = 0.5 * FLAT_KB, 1.5 * FLAT_KB


def samples(kb, *, count=90, files=0.0, warming=0):
    """Samples a hundred requests apart of a process that grows by so many kB a request, once by `warming` kB."""
    return [
        Sample(
            5.0 * at,
            "search",
            100 * at,
            Memory(int(50_000 + warming * (at > 10) + kb * 100 * at + 30 * (at % 5)), 1, int(20 + files * at), 9),
            Memory(2_000 + at % 3, 1, 5, 6),
        )
        for at in range(count)
    ]


def verdicts(checks):
    """Whether each passed, by its name."""
    return {check.name: check.passed for check in checks}


@pytest.mark.parametrize("kb", [0, FLAT, LEAKING])
def test_a_leak_has_a_slope(kb):
    """Growth per request is found in noisy samples, and what is more than allowed is no flat memory."""
    found = slope_of(samples(kb))
    assert found is not None
    assert found.kb == pytest.approx(kb, abs=0.01)
    assert found.low <= found.kb <= found.high
    checks = verdicts(check_memory("search only", samples(kb)))
    assert checks["search only: memory of the service is flat"] == (kb < FLAT_KB)
    assert checks["search only: memory of its Valkey is flat"] is True


def test_what_a_first_third_fills_is_no_leak():
    """Caches fill while the phase warms up."""
    assert slope_of(samples(0, warming=50_000)) == slope_of(samples(0))


def test_what_is_given_back_within_a_window_is_no_leak():
    """Garbage that comes and goes, always more of it, leaves the least of each window where it was."""
    busy = [
        sample._replace(service=Memory(50_000 + 300 * at * (at % 3), 1, 20, 9)) for at, sample in enumerate(samples(0))
    ]
    assert verdicts(check_memory("search only", busy))["search only: memory of the service is flat"] is True


def test_a_slope_that_is_uncertain_is_not_judged():
    """Few requests while memory goes up and down say neither that it grows nor that it does not."""
    unsteady = [
        sample._replace(service=Memory(50_000 + 7919 * at % 30_000, 1, 20, 9)) for at, sample in enumerate(samples(0))
    ]
    assert verdicts(check_memory("search only", unsteady))["search only: memory of the service is flat"] is None


def test_memory_that_never_changes_has_no_slope():
    """Valkey's often does not."""
    still = [sample._replace(service=Memory(50_000, 1, 20, 9)) for sample in samples(0)]
    assert slope_of(still) == (0, 0, 0)


def test_of_a_few_samples_nothing_is_concluded():
    """Neither a pass nor a failure."""
    assert set(verdicts(check_memory("search only", samples(LEAKING, count=12))).values()) == {None}


def test_open_files_that_grow_are_not_flat():
    """A file left open with every tenth sample."""
    assert verdicts(check_memory("search only", samples(0)))["search only: open files are flat"] is True
    grown = verdicts(check_memory("search only", samples(0, files=2 * FLAT_FILES / 30)))
    assert grown["search only: open files are flat"] is False
    assert grown["search only: threads are flat"] is True


ORDER = "every acknowledged turn is there once, in order"
CITED = "every gem cites turns of its own session"
ONCE = "every turn was distilled once"
DEAD = "dead letters are those that were planted"
GONE = "what was forgotten is gone"

PROMISED = Promised({"s": ["s-0", "s-1", "s-2"], "t": ["t-0"], "u": ["u-0"]}, {"v": ["v-0"]}, ["t-0"], {"s-2"})


def gem(session, *turns, user="ada", model="qwen3"):
    """A gem, as JSON."""
    source = {"session_id": session}
    return {"gem_id": "g", "user_id": user, "source": source, "source_turns": list(turns), "model": model}


SESSIONS = {"s": ["s-0", "s-1", "s-2"], "t": ["t-0"], "u": ["u-0"]}
GEMS = [gem("s", "s-0"), gem("s", "s-1"), gem("u", "u-0"), gem("u", "u-0", model="correct")]
KNOWN = Known(SESSIONS, GEMS, [["t-0"]], [])


def test_what_was_promised_and_is_known_passes():
    """A turn whose gem was deleted, one that was corrected and one that cannot be distilled included."""
    assert verdicts(check_what_is_known({"ada": PROMISED}, {"ada": KNOWN})) == dict.fromkeys(
        (ORDER, CITED, ONCE, DEAD, GONE), True
    )


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({"sessions": SESSIONS | {"s": ["s-0", "s-2"]}}, ORDER),
        ({"sessions": SESSIONS | {"s": ["s-0", "s-1", "s-1", "s-2"]}}, ORDER),
        ({"sessions": SESSIONS | {"s": ["s-1", "s-0", "s-2"]}}, ORDER),
        ({"sessions": {"s": SESSIONS["s"], "t": SESSIONS["t"]}}, ORDER),
        ({"sessions": SESSIONS | {"w": ["w-0"]}}, ORDER),
        ({"gems": [*GEMS, gem("u", "t-0")]}, CITED),
        ({"gems": [*GEMS, gem("s", "s-2", user="ben")]}, CITED),
        ({"gems": [*GEMS, gem("s")]}, CITED),
        ({"gems": GEMS[1:]}, ONCE),
        ({"gems": [*GEMS, gem("s", "s-1")]}, ONCE),
        ({"dead_letters": []}, DEAD),
        ({"dead_letters": [["t-0"], ["s-0"]]}, DEAD),
        ({"dead_letters": [["t-0"], ["t-0"]]}, DEAD),
        ({"found_again": ["v-0 is found"]}, GONE),
    ],
)
def test_what_is_not_as_promised_fails_its_check(changed, failing):
    """Lost, doubled, in another order, of another's: each fails the one check that is about it."""
    checks = verdicts(check_what_is_known({"ada": PROMISED}, {"ada": KNOWN._replace(**changed)}))
    assert [name for name, passed in checks.items() if not passed] == [failing]


METRICS = """
# HELP neuralstream_requests_total Requests answered.
neuralstream_requests_total{method="GET",route="/v1/sessions/{session_id:path}",status="200"} 2.0
neuralstream_requests_total{method="GET",route="/v1/recent",status="200"} 1.0
neuralstream_requests_total{method="POST",route="/v1/turns",status="200"} 5.0
neuralstream_turns_captured_total{result="new"} 4.0
neuralstream_turns_captured_total{result="known"} 1.0
neuralstream_capture_seconds_count 5.0
neuralstream_query_seconds_count{mode="bm25"} 2.0
neuralstream_query_seconds_count{mode="context"} 3.0
neuralstream_stored{kind="turns"} 40.0
"""


def test_metrics_that_add_up_differ_in_nothing():
    """Requests by method and status over all routes, turns, questions, and what is held."""
    tally = Tally(Counter({("GET", 200): 3, ("POST", 200): 5}), captures=5, new=4, queries=5)
    assert metrics_differences(as_metrics(METRICS), tally, {'neuralstream_stored{kind="turns"}': 40}) == []


@pytest.mark.parametrize(
    ("counted", "held"),
    [
        ({"answers": Counter({("GET", 200): 3, ("POST", 200): 6})}, 40),
        ({"answers": Counter({("GET", 200): 3, ("POST", 200): 5, ("POST", 504): 1})}, 40),
        ({"answers": Counter({("GET", 200): 3})}, 40),
        ({"queries": 4}, 40),
        ({"new": 5}, 40),
        ({}, 41),
    ],
)
def test_metrics_that_do_not_add_up_are_told(counted, held):
    """One too many or too few of anything."""
    fields = {"answers": Counter({("GET", 200): 3, ("POST", 200): 5}), "captures": 5, "new": 4, "queries": 5}
    tally = Tally(**fields | counted)
    assert metrics_differences(as_metrics(METRICS), tally, {'neuralstream_stored{kind="turns"}': held})


def test_the_schedule_is_the_same_for_a_seed():
    """Every ending as often as every other, all the time given out, and another seed is another schedule."""
    lives = plan(240, 7)
    assert lives == plan(240, 7) != plan(240, 8)
    assert len(set(Counter(life.ending for life in lives).values())) == 1
    assert sum(life.seconds for life in lives) == pytest.approx(240)


class Answering(ScriptedServer):
    """A service that answers everything with nothing."""

    def behave(self, _request):
        """See ScriptedServer."""
        return {}


@pytest.fixture
def answering():
    """The server, and a host of two users that asks it."""
    with Answering() as server:
        host = Host(SimpleNamespace(url=server.url, tokens={"ada": "a" * 32, "ben": "b" * 32}))
        host.up.set()
        yield server, host


def test_an_answer_with_something_of_another_user_is_noted(answering):
    """Whichever route it came by."""
    server, host = answering
    server.script("/mcp", [{"text": f"{mark('ada')}1 said so"}, {"text": f"{mark('ben')}1 said so"}])
    connection = Connection(host, "ada")
    connection.ask("POST", "/mcp", {})
    assert not host.tally.told_of_others
    connection.ask("POST", "/mcp", {})
    assert len(host.tally.told_of_others) == 1
    connection.close()


def test_what_is_not_answered_is_asked_again(answering):
    """It is an error while the service is up, and expected while it is not."""
    server, host = answering
    connection = Connection(host, "ada")
    for up in (True, False):
        if not up:
            host.up.clear()
        server.script("/v1/turns", [Reply(drop=True), Reply({"new": 1})])
        connection.ask("POST", "/v1/turns", {"turns": [{}]})
    assert (host.tally.new, host.tally.failures.total(), len(host.tally.wrong)) == (2, 2, 1)
    connection.close()


def test_an_undocumented_answer_is_wrong(answering):
    """But a status that the asker reckons with is not."""
    server, host = answering
    server.script("/v1/forget", [Reply({}, 404), Reply({}, 404), Reply({}, 500)])
    connection = Connection(host, "ada")
    connection.ask("POST", "/v1/forget", {}, also=(404,))
    assert not host.tally.wrong
    connection.ask("POST", "/v1/forget", {})
    connection.ask("POST", "/v1/forget", {})
    assert len(host.tally.wrong) == 2
    connection.close()


def test_an_actor_that_fails_is_told(answering):
    """A thread that ended unseen would leave a soak that asks nothing and passes."""
    _, host = answering

    class Clumsy(Actor):
        def act(self, phase):
            raise ValueError(phase)

    clumsy = Clumsy(host, "ada", 1, pause=0)
    clumsy.start()
    clumsy.join()
    assert "ValueError: talk" in host.broken[0]


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_code_is_1_where_a_check_failed(monkeypatch, tmp_path, capsys, passed, code):
    """The report says which; then the service's folder stays to be looked into."""
    life = Life(1, "SIGTERM", samples=samples(0))
    checks = [Check("all is well", passed=passed, told="so | so")]

    def run(self):
        self.lives.append(life)
        self.checks.extend(checks)

    monkeypatch.setattr(Soak, "run", run)
    out = tmp_path / "soak.md"
    assert soak.main(["--minutes", "3", "--folder", str(tmp_path), "--out", str(out)]) == code
    text = report([life], checks, minutes=3, seed=7, embedding=None)
    assert capsys.readouterr().out == out.read_text() == text
    assert f"| {'not judged' if passed is None else 'passed' if passed else '**FAILED**'} | all is well |" in text
    assert len(list(tmp_path.glob("neuralstream-soak-*"))) == code


@pytest.mark.slow
def test_half_a_minute_of_soak(tmp_path):
    """A service that is ended and killed at random keeps every promise but the memory's, for which it is too short."""
    out = tmp_path / "soak.md"
    assert soak.main(["--minutes", "0.5", "--folder", str(tmp_path), "--out", str(out)]) == 0
    text = out.read_text()
    assert text.count("| passed |") >= 12
    for ending in ("SIGTERM", "SIGKILL", "SIGKILL, Valkey's too", "SIGKILL while it starts"):
        assert f"| {ending} |" in text
