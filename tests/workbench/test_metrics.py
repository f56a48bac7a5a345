"""Measures: by hand, by property, and against ranx and ir_measures."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.errors import InputError
from neuralstream.workbench.metrics import (
    Entry,
    average,
    credited_precision_at,
    credited_recall_at,
    evidence_at,
    ndcg_at,
    precision_ceiling,
    reciprocal_rank,
    score_gems,
    score_turns,
)

IDS = [f"t{n:04d}" for n in range(60)]  # one width: numba recompiles for every other
# Our name, then what ranx and ir_measures call it.
PARITY = {
    "P@5": ("precision@5", "P@5"),
    "R@5": ("recall@5", "R@5"),
    "R@10": ("recall@10", "R@10"),
    "nDCG@10": ("ndcg@10", "nDCG@10"),
    "MRR@10": ("mrr@10", "RR@10"),
    "MRR": ("mrr", "RR"),
    "hit@5": ("hit_rate@5", "Success@5"),
}


def _turns(*ids, tokens=10):
    return [Entry((turn_id,), tokens) for turn_id in ids]


@pytest.fixture(scope="module")
def judged():
    """Random rankings and gold: none found, all found, one hit, shorter than k."""
    rng = random.Random(7)
    gold = {f"q{n:03d}": set(rng.sample(IDS, rng.randint(1, 8))) for n in range(80)}
    rankings = {query: rng.sample(IDS, rng.choice([1, 3, 5, 10, 40, 60])) for query in gold}
    return gold, rankings


def test_ir_measures_agrees(judged):
    """Each measure that ir_measures knows has the same value for every query."""
    import ir_measures

    gold, rankings = judged
    measures = {theirs: ir_measures.parse_measure(theirs) for _, theirs in PARITY.values()}
    qrels = {query: dict.fromkeys(ids, 1) for query, ids in gold.items()}
    run = {query: {turn: 1.0 / rank for rank, turn in enumerate(ids, 1)} for query, ids in rankings.items()}
    theirs = {(m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(measures.values(), qrels, run)}
    for query, ids in rankings.items():
        ours = score_turns(_turns(*ids), gold[query])
        for name, (_, other) in PARITY.items():
            assert ours[name] == pytest.approx(theirs[query, str(measures[other])]), (query, name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # numba's own while it compiles
def test_ranx_agrees(judged):
    """Each measure that ranx knows has the same value for every query."""
    import ranx

    gold, rankings = judged
    qrels = ranx.Qrels({query: dict.fromkeys(ids, 1) for query, ids in gold.items()})
    run = ranx.Run({query: {turn: 1.0 / rank for rank, turn in enumerate(ids, 1)} for query, ids in rankings.items()})
    ranx.evaluate(qrels, run, [theirs for theirs, _ in PARITY.values()])
    for query, ids in rankings.items():
        ours = score_turns(_turns(*ids), gold[query])
        for name, (other, _) in PARITY.items():
            assert ours[name] == pytest.approx(run.scores[other][query]), (query, name)


def test_by_hand():
    """The values of one ranking, worked out by hand."""
    scores = score_turns(_turns("a", "x", "b", "y", "z", "c"), {"a", "b", "c", "d"})
    assert scores["P@5"] == pytest.approx(2 / 5)
    assert scores["ceiling_P@5"] == pytest.approx(4 / 5)
    assert scores["R@5"] == pytest.approx(2 / 4)
    assert scores["R@10"] == pytest.approx(3 / 4)
    assert scores["MRR"] == 1
    assert (scores["hit@5"], scores["all@5"]) == (1, 0)
    assert scores["nDCG@10"] == pytest.approx((1 + 0.5 + 0.35620719) / (1 + 0.63092975 + 0.5 + 0.43067656))


def test_reciprocal_rank_cut():
    """MRR@10 does not see the eleventh place; MRR does."""
    ranking = [f"x{n}" for n in range(10)] + ["gold"]
    assert reciprocal_rank(ranking, {"gold"}, 10) == 0
    assert reciprocal_rank(ranking, {"gold"}) == pytest.approx(1 / 11)


def test_empty_ranking_scores_zero():
    """Nothing retrieved is zero in every measure but the ceiling, and is averaged in."""
    empty = score_turns([], {"a"})
    assert {name for name, value in empty.items() if value} == {"ceiling_P@5"}
    assert average([empty, score_turns(_turns("a"), {"a"})])["R@5"] == 0.5


def test_no_gold_is_refused():
    """A query without gold has no score, rather than a zero or a one."""
    for score in (score_turns, score_gems):
        with pytest.raises(InputError, match="without gold"):
            score(_turns("a"), set())


def test_repeated_id_is_refused():
    """A turn ranked twice would be counted twice."""
    with pytest.raises(InputError, match="rank each turn once"):
        score_turns(_turns("a", "a"), {"a"})


def test_gems_earn_only_what_is_new():
    """A gem that cites what a gem above it cited adds nothing; one gem may credit several gold turns."""
    gems = [Entry(("a", "b"), 5), Entry(("b",), 5), Entry(("x",), 5), Entry(("b", "c"), 5)]
    assert credited_precision_at(gems, {"a", "b", "c", "d"}, 5) == pytest.approx(2 / 5)
    assert credited_recall_at(gems, {"a", "b", "c", "d"}, 5) == pytest.approx(3 / 4)
    assert not {"nDCG@10", "MRR"} & set(score_gems(gems, {"a"}))


def test_evidence_fits_the_budget():
    """What is too large is passed over; what comes behind it and fits still counts."""
    entries = [Entry(("a",), 300), Entry(("b",), 300), Entry(("c",), 150), Entry(("d",), 60)]
    assert evidence_at(entries, {"a", "b", "c", "d"}, 500) == 0.5
    assert evidence_at(entries, {"d"}, 500) == 0
    assert evidence_at(entries, {"a", "b", "c", "d"}, 810) == 1


@given(
    ranking=st.lists(st.sampled_from(IDS), unique=True),
    gold=st.sets(st.sampled_from(IDS), min_size=1),
    tokens=st.integers(1, 400),
)
def test_bounds(ranking, gold, tokens):
    """Every measure lies in [0, 1], P@5 below its ceiling, and gems of one turn score as that turn."""
    entries = _turns(*ranking, tokens=tokens)
    scores = score_turns(entries, gold)
    assert all(0 <= value <= 1 for value in scores.values())
    assert scores["P@5"] <= precision_ceiling(gold, 5)
    assert scores["R@5"] <= scores["R@10"]
    assert scores["all@5"] <= scores["hit@5"]
    assert scores["evidence@500"] <= scores["evidence@1000"] <= scores["evidence@2000"]
    assert {name: scores[name] for name in score_gems(entries, gold)} == pytest.approx(score_gems(entries, gold))


@given(st.sets(st.sampled_from(IDS), min_size=1))
def test_perfect_ranking(gold):
    """All gold first: nDCG, MRR and hit are 1, P@5 reaches its ceiling."""
    scores = score_turns(_turns(*sorted(gold)), gold)
    assert scores["P@5"] == scores["ceiling_P@5"]
    assert ndcg_at(sorted(gold), gold, 10) == pytest.approx(1)
    assert scores["MRR"] == scores["hit@5"] == 1
