"""One process at a time, told apart by two buffers on one server."""

from contextlib import ExitStack
from datetime import timedelta

import pytest

from neuralstream.capture.buffer import open_buffer
from neuralstream.errors import MissingPartError

SHORT = timedelta(milliseconds=50)


def test_two_processes_wait_for_each_other(settings):
    """What one does alone the other cannot begin; something else it can, and afterwards it can too."""
    waiting = settings.model_copy(update={"buffer": settings.buffer.model_copy(update={"lease": SHORT})})
    first, second = open_buffer(settings, sole_owner=False), open_buffer(waiting, sole_owner=False)
    try:
        with first.alone("gems:ada"):
            with second.alone("gems:bob"):
                pass
            with pytest.raises(MissingPartError, match="did not finish"), second.alone("gems:ada"):
                pytest.fail("two at once")
        with second.alone("gems:ada"):
            pass
    finally:
        second.close()
        first.close()


def test_whoever_is_late_does_not_end_another_s_turn(settings):
    """A lock that ran out is another's by then: letting go of it says nothing, and the other keeps it."""
    hasty = settings.model_copy(update={"buffer": settings.buffer.model_copy(update={"lease": SHORT})})
    first, second = open_buffer(hasty, sole_owner=False), open_buffer(settings, sole_owner=False)
    third = open_buffer(hasty, sole_owner=False)
    try:
        with ExitStack() as late:
            late.enter_context(first.alone("gems:ada"))
            with second.alone("gems:ada"):
                late.close()
                with pytest.raises(MissingPartError, match="did not finish"), third.alone("gems:ada"):
                    pytest.fail("two at once")
    finally:
        third.close()
        second.close()
        first.close()


def test_what_a_killed_process_held_is_taken_over_at_once_where_only_one_can_live(settings, monkeypatch):
    """The next one does not wait for the lease to end; its own threads still wait for each other."""
    hasty = settings.model_copy(update={"buffer": settings.buffer.model_copy(update={"lease": SHORT})})
    killed, after = open_buffer(settings, sole_owner=True), open_buffer(settings, sole_owner=True)
    try:
        with killed.alone("gems:ada"), monkeypatch.context() as patched:
            patched.setattr("time.sleep", lambda _: pytest.fail("it waited"))
            with after.alone("gems:ada"):
                patched.undo()
                after._settings = hasty
                with pytest.raises(MissingPartError, match="did not finish"), after.alone("gems:ada"):
                    pytest.fail("two at once")
    finally:
        after.close()
        killed.close()
