import json
from datetime import UTC, datetime, timedelta

from neuralstream.workbench.policy import policy_metrics
from neuralstream.workbench.timeline import Distilled, Said, Timeline
from neuralstream.workbench.virtual_clock import Moment

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(turns, minute=None):
    """The moment after so many turns, a minute each where nothing else is said."""
    return Moment(START + timedelta(minutes=turns if minute is None else minute), turns)


def batch(moment, *turn_ids, cause="batch", cited=None, user="ada", **fields):
    """Turns distilled together, with a gem for each that is cited: every one where nothing else is said."""
    cited = turn_ids if cited is None else cited
    return Distilled(moment, cause, user, "s1", turn_ids, tuple(f"g-{one}" for one in cited), tuple(cited), **fields)


def turn(number, left=None, user="ada"):
    """A turn of a user, by its number among everybody's."""
    return Said(user, "s1", f"{user}-{number}", at(number), left)


def test_lag_counts_the_turns_of_the_same_user_until_a_gem_cites_one():
    """Other users' turns do not count, nor do turns that no gem cites; minutes are those of the clock."""
    turns = (turn(1), turn(2, user="eve"), turn(3), turn(4))
    found = policy_metrics(Timeline(turns, (batch(at(4, 34), "ada-1", "ada-3", "ada-4", cited=("ada-1", "ada-4")),)))
    assert found["lag_turns"] == {"mean": 1.0, "median": 1.0, "p95": 1.9}
    assert found["lag_minutes"]["mean"] == 31.5
    assert (found["turns"], found["cited_share"]) == (4, 0.5)


def test_the_first_gem_that_cites_a_turn_makes_it_available():
    """A later one that cites it too changes nothing."""
    found = policy_metrics(Timeline((turn(1),), (batch(at(1), "ada-1"), batch(at(9), "ada-1"))))
    assert found["lag_turns"]["mean"] == 0


def test_turns_taken_by_nothing_but_the_compaction_left_undistilled():
    """Those that an earlier trigger took did not, even one of the same moment; a failed batch's did."""
    gone = at(3)
    turns = tuple(turn(number, gone) for number in (1, 2, 3))
    for cause, moment, failed, share in (
        ("compaction", at(3), "", 1.0),
        ("reset", at(3), "", 1.0),
        ("context", at(3), "", 0.0),
        ("compaction", at(2), "", 0.0),
        ("batch", at(2), "no", 1.0),
    ):
        timeline = Timeline(turns, (batch(moment, "ada-1", "ada-2", "ada-3", cause=cause, failed=failed),))
        assert policy_metrics(timeline)["left_undistilled"] == share, cause


def test_turns_still_in_the_window_are_not_lost():
    """A turn that the compaction kept counts as neither left nor lost."""
    timeline = Timeline((turn(1, at(2)), turn(2)), (batch(at(2), "ada-1", "ada-2", cause="compaction"),))
    found = policy_metrics(timeline)
    assert (found["left_window"], found["left_undistilled"]) == (0.5, 0.5)


def test_costs_and_causes_add_up():
    """Over all batches, failed ones too."""
    found = policy_metrics(
        Timeline((), (batch(at(1), "a", calls=1, tokens=10), batch(at(2), "b", cause="idle", calls=2, failed="no")))
    )
    assert (found["calls"], found["tokens"], found["failed"], found["batches"]) == (3, 10, 1, 2)
    assert found["by_cause"] == {"batch": 1, "idle": 1}


def test_an_empty_timeline_has_no_lag():
    """None, not zero and not an error."""
    found = policy_metrics(Timeline())
    assert found["lag_turns"]["mean"] is None
    assert found["cited_share"] is None


def test_equal_plans_have_equal_digests():
    """Which turns go together counts; when and why does not."""
    one = Timeline((), (batch(at(2), "a", "b"), batch(at(3), "c")))
    assert one.plan_digest == Timeline((), (batch(at(9), "a", "b", cause="idle"), batch(at(9), "c"))).plan_digest
    assert one.plan_digest != Timeline((), (batch(at(2), "a"), batch(at(3), "b", "c"))).plan_digest


def test_json_lines_tell_everything_in_the_order_of_time():
    """A turn, the batch that takes it, and its leaving, at one moment in this order."""
    timeline = Timeline((turn(1, at(2)), turn(2)), (batch(at(2), "ada-1", "ada-2", cause="compaction"),))
    events = [json.loads(line) for line in timeline.json_lines()]
    assert [event["event"] for event in events] == ["turn", "turn", "batch", "left"]
    assert events[2]["cause"] == "compaction"
    assert events[2]["turn_ids"] == ["ada-1", "ada-2"]
    assert events[2]["at"] == "2026-01-01T00:02:00Z"


def test_joined_timelines_keep_users_apart():
    """Two conversations measured together have the lags of both."""
    ada = Timeline((turn(1), turn(2)), (batch(at(2), "ada-1"),))
    eve = Timeline((turn(1, user="eve"),), (batch(at(1), "eve-1", user="eve"),))
    assert policy_metrics(Timeline.joined([ada, eve]))["lag_turns"]["mean"] == 0.5
