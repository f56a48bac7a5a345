import itertools
import os
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from neuralstream.capture.buffer import Buffer, open_buffer
from neuralstream.capture.records import SessionKey
from neuralstream.config import BufferSettings, Settings
from neuralstream.errors import InputError, MissingPartError
from neuralstream.types import Turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
S1 = SessionKey("ada", "s1")
REDIS = os.environ.get("NEURALSTREAM_TEST_REDIS_URL")


@pytest.fixture(params=["embedded", "server"])
def config(request, tmp_path):
    """Settings for each server the buffer has to run on."""
    if request.param == "server" and not REDIS:
        pytest.skip("set NEURALSTREAM_TEST_REDIS_URL to run this on a Redis server")
    return Settings(
        home=tmp_path / "home",
        redis_url=REDIS if request.param == "server" else None,
        buffer=BufferSettings(prefix=f"test-{uuid.uuid4().hex[:8]}"),
    )


@pytest.fixture
def buffer(config):
    """An empty buffer."""
    opened = open_buffer(config, sole_owner=True)
    yield opened
    for session in opened.sessions():
        opened.forget_session(session)
    opened.close()


def turn(number, session=S1, text="hello"):
    """An exchange whose id is its number, behind its session's name but for S1."""
    return Turn.exchange(
        f"{text} {number}",
        "yes",
        session_id=session.session_id,
        user_id=session.user_id,
        turn_id=f"t{number}" if session.session_id == "s1" else f"{session.session_id}-t{number}",
        created_at=NOW,
    )


def fill(buffer, numbers, session=S1, now=NOW):
    """Capture turns, telling which were new."""
    return [buffer.append(turn(number, session), now) for number in numbers]


def drain(buffer):
    """Distil every planned batch, returning trigger and turn ids of each."""
    done = []
    while batch := buffer.lease():
        done.append((batch.trigger, [turn.turn_id for turn in batch.turns]))
        assert buffer.done(batch)
    return done


def ids(*numbers):
    """Turn ids by number."""
    return [f"t{number}" for number in numbers]


def test_a_full_batch_takes_the_oldest_turns(buffer):
    """Five undistilled turns make a batch of the oldest five, once."""
    fill(buffer, range(7))
    assert drain(buffer) == [("batch", ids(0, 1, 2, 3, 4))]
    assert buffer.undistilled(S1) == 2


def test_a_known_turn_changes_nothing(buffer):
    """Capturing the same turn id again neither stores nor counts it."""
    assert fill(buffer, [1, 2, 1, 2, 2]) == [True, True, False, False, False]
    assert buffer.undistilled(S1) == 2
    assert [turn.index for turn in buffer.pending("ada")] == [0, 1]


def test_context_use_fires_once_each_time_it_crosses_the_threshold(buffer):
    """The series 10, 30, 49, 50, 55, 80, null, 20, 51 fires at 50 and at 51."""
    series = [10, 30, 49, 50, 55, 80, None, 20, 51]
    fired = []
    for number, percent in enumerate(series):
        fill(buffer, [number])
        fired.append(buffer.turn_end(S1, percent, turn_id=f"t{number}"))
    assert [series[i] for i, yes in enumerate(fired) if yes] == [50, 51]
    # The fifth turn after the first firing filled a batch, so the second firing found nothing left.
    assert drain(buffer) == [("context", ids(0, 1, 2, 3)), ("batch", ids(4, 5, 6, 7, 8))]


def test_usage_reported_again_for_the_same_turn_fires_nothing(buffer):
    """A log that is replayed again does not move later turns into an earlier trigger's batch."""
    fill(buffer, [0])
    assert buffer.turn_end(S1, 60, turn_id="t0")
    fill(buffer, [1])
    assert not buffer.turn_end(S1, 10, turn_id="t0")
    assert not buffer.turn_end(S1, 60, turn_id="t0")
    assert buffer.undistilled(S1) == 1


def test_silence_fires_at_the_timeout_and_once(buffer):
    """14 min 59 s of silence fire nothing; 15 min fire once."""
    fill(buffer, [0, 1])
    assert buffer.fire_idle(NOW + timedelta(minutes=14, seconds=59)) == []
    assert buffer.fire_idle(NOW + timedelta(minutes=15)) == [S1]
    assert buffer.fire_idle(NOW + timedelta(minutes=30)) == []
    assert drain(buffer) == [("idle", ids(0, 1))]


def test_a_new_turn_restarts_the_silence(buffer):
    """The idle time counts from the last turn of the session."""
    fill(buffer, [0])
    fill(buffer, [1], now=NOW + timedelta(minutes=10))
    assert buffer.fire_idle(NOW + timedelta(minutes=15)) == []
    assert buffer.fire_idle(NOW + timedelta(minutes=25)) == [S1]


@pytest.mark.parametrize("reason", ["end", "reset", "compaction", "shutdown"])
def test_the_tail_of_a_session_is_distilled_when_it_ends(buffer, reason):
    """Twelve turns and an end make batches of 5, 5 and 2; ending again makes none."""
    fill(buffer, range(12))
    assert buffer.end(S1, reason) == 1
    assert buffer.end(S1, reason) == 0
    assert drain(buffer) == [
        ("batch", ids(0, 1, 2, 3, 4)), ("batch", ids(5, 6, 7, 8, 9)), (reason, ids(10, 11))
    ]  # fmt: skip


def test_a_turn_that_arrives_during_distilling_is_kept(buffer):
    """Acknowledging a batch removes its own turns only."""
    fill(buffer, range(5))
    batch = buffer.lease()
    fill(buffer, [5])
    assert buffer.done(batch)
    buffer.end(S1, "end")
    assert drain(buffer) == [("end", ids(5))]


def test_one_batch_of_a_session_is_leased_at_a_time(config, buffer):
    """A second worker gets another session's batch, never a later batch of a session in work."""
    s2 = SessionKey("ada", "s2")
    fill(buffer, range(10))
    fill(buffer, range(5), session=s2)
    other = Buffer(buffer_url(buffer), config, sole_owner=False)
    mine = buffer.lease()
    theirs = other.lease()
    assert (mine.session, theirs.session) == (S1, s2)
    assert other.lease().batch_id == theirs.batch_id
    other.close()


def test_a_lost_lease_acknowledges_nothing(config, buffer):
    """A worker whose lease ended while it worked changes nothing; the new owner does."""
    short = config.model_copy(update={"buffer": config.buffer.model_copy(update={"lease": timedelta(milliseconds=1)})})
    slow = Buffer(buffer_url(buffer), short, sole_owner=False)
    fill(buffer, range(5))
    lost = slow.lease()
    taken = buffer.lease()
    assert taken.batch_id == lost.batch_id
    assert taken.attempts == 1
    assert not slow.done(lost)
    assert not slow.renew(lost.batch_id)
    assert buffer.done(taken)
    slow.close()


def test_the_first_recorded_answer_wins(buffer):
    """A batch done again gets the answer that was written down first."""
    fill(buffer, range(5))
    batch = buffer.lease()
    assert buffer.record_answer(batch.batch_id, "one") == "one"
    assert buffer.record_answer(batch.batch_id, "two") == "one"
    assert buffer.lease().answer == "one"


def test_a_batch_that_keeps_failing_is_a_dead_letter_with_its_turns(buffer):
    """After the third try the batch leaves the queue, keeps its turns, and can be tried again."""
    fill(buffer, range(5))
    assert [buffer.fail(buffer.lease(), "bad answer", retry_in=0) for _ in range(3)] == [False, False, True]
    assert buffer.lease() is None
    (letter,) = buffer.dead_letters("ada")
    assert (letter.reason, [turn.turn_id for turn in letter.turns]) == ("bad answer", ids(0, 1, 2, 3, 4))
    assert buffer.dead_letters("someone else") == []
    assert buffer.retry_dead_letters() == 1
    assert buffer.dead_letters() == []
    assert drain(buffer) == [("batch", ids(0, 1, 2, 3, 4))]


def test_a_dead_letter_keeps_the_answer_that_could_not_be_used(buffer):
    """The last try's answer is in the dead letter, and no later try takes it for a recorded one."""
    fill(buffer, range(5))
    for answer in ("a poem", "a song", "a limerick"):
        buffer.fail(buffer.lease(), "bad answer", retry_in=0, answer=answer)
    assert [letter.answer for letter in buffer.dead_letters()] == ["a limerick"]
    buffer.retry_dead_letters()
    assert buffer.lease().answer is None


def test_killed_workers_do_not_count_as_tries(buffer):
    """A batch that was leased again and again without an answer still has all its tries."""
    fill(buffer, range(5))
    for _ in range(10):
        buffer.lease()
    assert not buffer.fail(buffer.lease(), "bad answer", retry_in=0)
    assert buffer.lease().attempts == 2


def test_an_answer_to_a_forgotten_batch_is_not_kept(buffer):
    """A worker that answers after its session was forgotten learns so, and leaves nothing behind."""
    fill(buffer, range(5))
    batch = buffer.lease()
    buffer.forget_session(S1)
    assert buffer.record_answer(batch.batch_id, "stale") is None
    assert not buffer.done(batch)
    fill(buffer, range(5))
    assert buffer.lease().answer is None


def test_a_turn_id_of_another_session_is_refused(buffer):
    """Two sessions of a user that number their turns alike lose none: the second is told how to name them."""
    fill(buffer, [1])
    same = Turn.exchange("other", "words", session_id="s9", user_id="ada", turn_id="t1", created_at=NOW)
    with pytest.raises(InputError, match="put the session's id in front"):
        buffer.append(same, NOW)
    assert len(buffer.pending("ada")) == 1
    buffer.forget_session(S1)
    assert buffer.append(same, NOW)


def test_a_buffer_feeds_one_store(buffer):
    """A second store on the same keys is refused, with the setting that gives it keys of its own."""
    buffer.claim("here:/one")
    buffer.claim("here:/one")
    with pytest.raises(InputError, match=r"feeds the store here:/one.*buffer\.prefix"):
        buffer.claim("here:/two")


def test_a_lock_that_ran_out_is_still_acknowledged(buffer):
    """Indexing that takes longer than the lease is not done again."""
    fill(buffer, range(3))
    taken = buffer.take_unindexed()
    buffer._redis.delete(buffer._key("lock", S1))
    assert buffer.indexed(taken)
    assert buffer.take_unindexed() is None


def test_half_a_character_in_an_id_is_refused(buffer):
    """What no server can store is named; nothing is kept."""
    with pytest.raises(InputError, match="half a character"):
        buffer.append(Turn.exchange("a", "b", session_id="s\ud800", turn_id="x", created_at=NOW), NOW)


def test_only_a_reset_or_compaction_rearms_the_context_trigger(buffer):
    """After a plain end the context is as full as it was; after a compaction it can fill again."""
    for number, (reason, fires) in enumerate([(None, True), ("end", False), ("compaction", True), ("reset", True)]):
        fill(buffer, [number])
        if reason:
            buffer.end(S1, reason)
        assert buffer.turn_end(S1, 90) is fires, reason


def test_giving_a_batch_back_does_not_count_as_a_try(buffer):
    """A part that is down for long makes no dead letters."""
    fill(buffer, range(5))
    for _ in range(10):
        buffer.give_back(buffer.lease(), retry_in=0)
    assert buffer.lease().attempts == 1
    assert buffer.dead_letters() == []


def test_a_failed_batch_waits_before_it_is_tried_again(buffer):
    """Nobody gets a failed batch until its time has come."""
    fill(buffer, range(5))
    buffer.fail(buffer.lease(), "busy", retry_in=60)
    assert buffer.lease() is None


def test_indexing_and_distilling_are_independent_and_a_turn_leaves_after_both(buffer):
    """A turn stays in the stream until it is indexed and distilled, in either order."""
    fill(buffer, range(5))
    taken = buffer.take_unindexed()
    assert [turn.turn_id for turn in taken.turns] == ids(0, 1, 2, 3, 4)
    assert buffer.indexed(taken)
    assert buffer.pending("ada") == ()
    assert len(buffer.waiting("ada")) == 5
    drain(buffer)
    assert buffer.waiting("ada") == ()
    fill(buffer, range(5, 10))
    drain(buffer)
    assert len(buffer.pending("ada")) == 5
    buffer.indexed(buffer.take_unindexed())
    assert buffer.waiting("ada") == ()


def test_what_a_killed_indexer_took_is_taken_again(buffer):
    """Turns taken and never acknowledged come first the next time."""
    fill(buffer, range(3))
    buffer.take_unindexed()
    fill(buffer, [3])
    again = buffer.take_unindexed()
    assert [turn.turn_id for turn in again.turns] == ids(0, 1, 2)
    buffer.indexed(again)
    assert [turn.turn_id for turn in buffer.take_unindexed().turns] == ids(3)


def test_a_session_is_indexed_by_one_process_at_a_time(config, buffer):
    """While one process indexes a session another one gets nothing of it."""
    fill(buffer, range(3))
    other = Buffer(buffer_url(buffer), config, sole_owner=False)
    assert buffer.take_unindexed() is not None
    assert other.take_unindexed() is None
    other.close()


def test_pending_is_a_users_own(buffer):
    """`ad` and `ada/` are other users than `ada`."""
    for user in ("ada", "ad", "ada/", "ada:s1"):
        fill(buffer, [1], session=SessionKey(user, "s1"))
    assert [len(buffer.pending(user)) for user in ("ada", "ad", "ada/", "a")] == [1, 1, 1, 0]


def test_forgetting_a_session_leaves_nothing_of_it(buffer):
    """Turns, ids, batches, answers and dead letters of the session go; others stay."""
    s2 = SessionKey("ada", "s2")
    fill(buffer, range(12))
    fill(buffer, range(5), session=s2)
    batch = buffer.lease()
    buffer.record_answer(batch.batch_id, '["t0"]')
    for _ in range(3):
        buffer.fail(batch, "no", retry_in=0)
        batch = buffer.lease()
    assert buffer.forget_session(S1) == 12
    assert buffer.sessions() == [s2]
    assert not buffer.mentions("ada", ids(11))
    assert buffer.dead_letters() == []
    assert [trigger for trigger, _ in drain(buffer)] == ["batch"]
    assert fill(buffer, [0]) == [True]


def test_forgetting_turns_takes_them_out_of_planned_batches(buffer):
    """A planned batch goes on without the forgotten turn; counts stay right."""
    fill(buffer, range(7))
    assert buffer.forget_turns(S1, ["t1", "t6"]) == 2
    assert buffer.undistilled(S1) == 1
    assert buffer.status().unindexed == 5
    assert drain(buffer) == [("batch", ids(0, 2, 3, 4))]


def test_forgetting_a_turn_of_a_dead_letter_queues_the_rest_again(buffer):
    """What was answered and refused may quote it; where nothing else is left, nothing is queued."""
    fill(buffer, range(6))
    buffer.end(S1, "end")
    for turns in (5, 1):
        batch = buffer.lease()
        assert len(batch.turns) == turns
        buffer.record_answer(batch.batch_id, "t1 and t5")
        assert buffer.fail(batch, "t1 and t5", retry_in=0, final=True)
    assert buffer.forget_turns(S1, ["t1", "t5", "unknown"]) == 2
    assert buffer.dead_letters() == []
    again = buffer.lease()
    assert ([turn.turn_id for turn in again.turns], again.answer, again.attempts) == (ids(0, 2, 3, 4), None, 1)
    assert buffer.done(again)
    assert (buffer.lease(), buffer.mentions("ada", ids(1, 5))) == (None, False)


def test_forgetting_turns_is_one_step(buffer, monkeypatch):
    """Whichever command a process dies at, the counts are those of the turns that are there."""
    send = buffer._redis.execute_command

    def dying_at(number):
        sent = itertools.count()

        def execute(*args, **kwargs):
            if next(sent) == number:
                raise redis.ConnectionError("killed")
            return send(*args, **kwargs)

        return execute

    for number in range(12):
        session = SessionKey("ada", f"dies-at-{number}")
        fill(buffer, range(7), session=session)
        with monkeypatch.context() as patched, suppress(MissingPartError):
            patched.setattr(buffer._redis, "execute_command", dying_at(number))
            buffer.forget_turns(session, [turn(6, session).turn_id])
        waiting = [one for one in buffer.pending("ada") if one.session_id == session.session_id]
        assert buffer.undistilled(session) == len(buffer.unplanned(session))
        assert len(waiting) == 5 + buffer.undistilled(session)
    assert buffer.undistilled(session) == 1


def test_forgetting_what_was_not_indexed_yet_leaves_nothing_to_index(buffer):
    """A session without turns is not waited for."""
    fill(buffer, range(2))
    assert buffer.forget_turns(S1, ids(0, 1)) == 2
    assert buffer.is_idle()


def test_status_counts(buffer):
    """What waits and what is done is counted."""
    fill(buffer, range(12))
    status = buffer.status()
    assert (status.captured, status.undistilled, status.unindexed, status.batches_waiting) == (12, 2, 12, 2)
    drain(buffer)
    assert buffer.status().batches_done == 2


def test_text_survives_as_it_was(buffer):
    """Emoji, right-to-left text, newlines and a text that looks like JSON come back unchanged."""
    text = 'x 😀 שלום\n{"role": "user"} \u200b'
    buffer.append(turn(1, text=text), NOW)
    assert buffer.pending("ada")[0].parts[0].text == text + " 1"


def test_a_server_that_is_down_is_named_without_its_password(tmp_path):
    """The error says where, what to do, and no secret."""
    config = Settings(home=tmp_path, redis_url="redis://:hunter2@127.0.0.1:1/0")
    with pytest.raises(MissingPartError, match=r"127\.0\.0\.1:1.*redis_url") as error:
        open_buffer(config, sole_owner=False)
    assert "hunter2" not in str(error.value)


@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["turn", "end", "usage", "idle", "work", "again"]), max_size=40))
def test_whatever_happens_every_turn_is_distilled_once_in_order(buffer, events):
    """Any order of turns, triggers and work distils each turn once, oldest first, at most five at a time."""
    session = SessionKey("ada", uuid.uuid4().hex)
    captured, now, done = [], NOW, []
    for event in [*events, "end"]:
        now += timedelta(minutes=1)
        if event == "turn":
            captured.append(turn(len(captured), session).turn_id)
            fill(buffer, [len(captured) - 1], session=session, now=now)
        elif event == "again" and captured:
            fill(buffer, [0], session=session, now=now)
        elif event == "end":
            buffer.end(session, "end")
        elif event == "usage":
            buffer.turn_end(session, 90)
        elif event == "idle":
            now += timedelta(hours=1)
            buffer.fire_idle(now)
        elif event == "work":
            done += drain(buffer)
    done += drain(buffer)
    assert [turn_id for _, batch in done for turn_id in batch] == captured
    assert all(1 <= len(batch) <= 5 for _, batch in done)


def buffer_url(buffer):
    """The address of a buffer's server, to open it a second time."""
    pool = buffer._redis.connection_pool.connection_kwargs
    if "path" in pool:
        return f"unix://{pool['path']}"
    return f"redis://{pool['host']}:{pool['port']}/{pool.get('db', 0)}"


def test_the_buffer_uses_redis_streams(buffer):
    """Another client sees a stream per session with the two consumer groups."""
    fill(buffer, range(2))
    client = redis.Redis.from_url(buffer_url(buffer), decode_responses=True)
    groups = client.xinfo_groups(buffer._key("turns", S1))
    assert {group["name"] for group in groups} == {"index", "distil"}
    client.close()
