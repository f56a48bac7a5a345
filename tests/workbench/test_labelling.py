import pytest

from neuralstream.config import Settings
from neuralstream.errors import InputError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.labelling import open_labelling


@pytest.fixture
def opened(own_logs, tmp_path):
    """Open the labelling of the logs, each file a person's."""

    def open_it(**options):
        settings = Settings(cache_dir=tmp_path / "cache")
        given = {"by_file": True, "embedder": FakeEmbedder()} | options
        return open_labelling([own_logs], tmp_path / "mine", settings, **given)

    return open_it


def test_a_folder_of_logs_becomes_a_labelled_set_and_a_comparison(opened, tmp_path):
    """What a person accepts can be evaluated at once."""
    with opened() as labelling:
        for card in labelling.cards():
            labelling.accept(card, evidence=card.marked or [card.candidates[0].turn_id])
    data = datasets.load(f"native:{tmp_path / 'mine'}")
    assert [one.name for one in data.conversations] == ["ada", "eve"]
    assert len(data.questions()) == len(labelling.accepted) > 4
    run = evaluate(data, modes=("bm25", "substring"), out=tmp_path / "run", embedder=FakeEmbedder())
    assert run.metrics["lanes"]["turns"]["bm25"]["overall"]["R@5"] > 0


def test_every_decision_is_kept_when_the_session_stops(opened):
    """What was accepted or refused is not asked again, the rest is, and the numbers go on."""
    with opened() as labelling:
        first, second, *rest = labelling.cards()
        labelling.accept(first, evidence=first.marked or [first.candidates[0].turn_id], text="In other words?")
        labelling.reject(second)
    with opened() as labelling:
        cards = list(labelling.cards())
    assert [card.proposal for card in cards] == [card.proposal for card in rest]
    assert (cards[0].number, cards[0].total) == (3, first.total)


def test_a_line_that_a_killed_process_left_half_written_is_taken_away(opened, tmp_path):
    """The question is asked again, and the set can be read."""
    with opened() as labelling:
        card = next(labelling.cards())
        labelling.accept(card, evidence=[card.candidates[0].turn_id])
    file = tmp_path / "mine" / "queries" / f"{card.proposal.user_id}.jsonl"
    file.write_text(file.read_text() + '{"query_id": "q-torn", "te')
    with opened() as labelling:
        assert labelling.accepted == [card.proposal.query_id]
    assert len(datasets.load(f"native:{tmp_path / 'mine'}").questions()) == 1


def test_candidates_come_from_several_retrievers_without_a_sign_of_which(opened):
    """Turns alone, each once, in an order that is the question's; what was marked is among them."""
    with opened() as labelling:
        cards = list(labelling.cards())
        again = list(labelling.cards())
    assert cards == again
    for card in cards:
        ids = [turn.turn_id for turn in card.candidates]
        assert len(ids) == len(set(ids))
        assert set(card.marked) <= set(ids)
        assert 0 <= card.disagreement <= 1
    places = [
        ids.index(card.marked[0]) for card in cards if card.marked for ids in [[t.turn_id for t in card.candidates]]
    ]
    assert len(set(places)) > 1


def test_a_users_own_question_is_answered_by_what_was_said_before_it(opened):
    """Neither itself nor anything later is offered."""
    with opened() as labelling:
        cards = [card for card in labelling.cards() if card.proposal.asked_at]
    assert cards
    for card in cards:
        assert all(turn.at() < card.proposal.asked_at for turn in card.candidates)


def test_there_are_as_many_cards_as_asked_for_in_all_sessions_together(opened):
    """Three, and one was judged: two are left, of different kinds."""
    with opened(most=3) as labelling:
        labelling.reject(next(labelling.cards()))
        left = list(labelling.cards())
    assert len(left) == 2
    assert left[0].proposal.category != left[1].proposal.category


def test_a_question_without_evidence_is_unanswerable(opened, tmp_path):
    """As the other sets call it; unknown evidence and empty words are refused."""
    with opened() as labelling:
        card = next(labelling.cards())
        with pytest.raises(InputError, match="nowhere"):
            labelling.accept(card, evidence=["nowhere"])
        with pytest.raises(InputError, match="words"):
            labelling.accept(card, evidence=[], text=" ")
        labelling.accept(card, evidence=[])
    [(_, question)] = datasets.load(f"native:{tmp_path / 'mine'}").questions()
    assert (question.category, question.evidence) == ("unanswerable", ())
