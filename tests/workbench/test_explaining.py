"""A question of a run, looked up."""

from dataclasses import replace

import pytest

from neuralstream.errors import InputError, NotFoundError
from neuralstream.workbench.explaining import as_json, explain, hit_rows, wanted_rows


def test_what_was_found_stands_beside_what_should_have_been(measured):
    """The evidence with its text and rank, and every hit with its signals."""
    explained = explain(measured(mode="bm25"), "cy/q1")
    assert explained.note == ""
    assert explained.wanted[0][:2] == ("cy-2", 1)
    assert "spruce" in explained.wanted[0].text
    head, first, *_ = hit_rows(explained)
    row = dict(zip(head, first, strict=True))
    assert (row["rank"], row["evidence"], row["hit"]) == (1, "yes", "cy-2")
    assert row["bm25"] > 0
    assert as_json(explained)["ranking"][0]["signals"]["bm25"] == row["bm25"]


def test_evidence_that_was_not_found_says_so(measured):
    """A rank that nothing recorded is told in words, and the text comes from the data."""
    explained = explain(measured(mode="substring"), "ada/q0")
    assert wanted_rows(explained)[1][:2] == ["ada-0", "not in the first 0"]
    assert "40 kilos" in wanted_rows(explained)[1][2]
    assert hit_rows(explained)[1:] == []


def test_texts_of_other_data_are_not_shown(measured):
    """Where the data are gone, or are others now, only what was recorded is told."""
    run = measured(mode="bm25")
    for data, said in (({"path": "/nowhere"}, "names no data"), ({"sha256": "0"}, "was changed")):
        moved = replace(run, manifest={**run.manifest, "dataset": {**run.manifest["dataset"], **data}})
        explained = explain(moved, "cy/q1")
        assert said in explained.note
        assert "spruce" in explained.wanted[0].text


@pytest.mark.parametrize(
    ("query", "options", "error", "said"),
    [
        ("q0", {}, InputError, "ada/q0, bo/q0"),
        ("q9", {}, NotFoundError, "no question 'q9'"),
        ("ada/q0", {"lane": "gems"}, InputError, "no lane gems"),
        ("ada/q0", {"mode": "hybrid"}, InputError, "no mode hybrid"),
    ],
)
def test_what_the_run_does_not_have_is_named(measured, query, options, error, said):
    """An id that several conversations share, an unknown one, a lane and a mode that were not measured."""
    with pytest.raises(error, match=said):
        explain(measured(mode="bm25"), query, **options)
