"""Tables, pictures and the page made from a run."""

import re
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from neuralstream.config import Settings, assignments
from neuralstream.errors import NotFoundError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets, figures, page, report
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.runs import read_run


@pytest.fixture(scope="module")
def data(tiny):
    """The tiny set."""
    return datasets.load(str(tiny))


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """Two lanes, three modes."""
    out = tmp_path_factory.mktemp("run")
    modes = ("substring", "bm25", "hybrid")
    return evaluate(data, modes=modes, lanes=("turns", "gems"), out=out, embedder=FakeEmbedder())


@pytest.fixture(scope="module")
def html(run, data, tmp_path_factory):
    """The page's text."""
    return page.write_page(run, data, tmp_path_factory.mktemp("page") / "report.html").read_text()


def test_comparison_rows(run):
    """A row per lane and mode, P@5 beside its ceiling; gems have no nDCG."""
    head, *rows = report.comparison_rows(run)
    assert head[:4] == ["lane", "mode", "P@5", "of at most"]
    assert [row[:2] for row in rows] == [
        [lane, mode] for lane in ("turns", "gems") for mode in ("substring", "bm25", "hybrid")
    ]
    turns, gems = dict(zip(head, rows[1], strict=True)), dict(zip(head, rows[4], strict=True))
    assert turns["R@5"] == run.metrics["lanes"]["turns"]["bm25"]["overall"]["R@5"]
    assert gems["nDCG@10"] is None
    assert turns["95 % interval"].startswith("nDCG@10 ")
    assert gems["95 % interval"].startswith("evidence@1000 ")


def test_gem_rows(run):
    """A row per fact that there is: reference gems with an interval, and no valid answers where no model was asked."""
    rows = {title: (value, interval) for title, value, interval in report.gem_rows(run)[1:]}
    overall = run.metrics["lanes"]["gems"]["hybrid"]["overall"]
    assert rows["gems per 100 turns"] == (overall["gems_per_100_turns"], None)
    assert rows["recall of reference gems, by words"][0] == overall["reference_recall_words"]
    assert not [title for title in rows if "valid" in title]


def test_budget_rows(run):
    """At each budget the candidate's gems stand beside raw turns, with the difference of the two and its verdict."""
    head, *rows = report.budget_rows(run)
    assert [row[:3] for row in rows] == [["gems", "hybrid", budget] for budget in (500, 1000, 2000)]
    shown = dict(zip(head, rows[1], strict=True))
    lanes = run.metrics["lanes"]
    assert shown["evidence"] == lanes["gems"]["hybrid"]["overall"]["evidence@1000"]
    assert shown["raw turns"] == lanes["turns"]["hybrid"]["overall"]["evidence@1000"]
    assert shown["difference"] == pytest.approx(shown["evidence"] - shown["raw turns"], abs=2e-6)
    assert shown["verdict"] == "too few to tell"


def test_without_raw_turns_or_gems_there_is_nothing_beside(run):
    """The table needs both: only its header where one of them was not evaluated."""
    for lane in run.lanes:
        alone = replace(run, metrics=run.metrics | {"lanes": {lane: run.metrics["lanes"][lane]}})
        assert len(report.budget_rows(alone)) == 1


def test_candidate_is_compared_with_the_others(run):
    """The mode that the settings name is judged against each other one; three people are too few to tell."""
    judged = report.judge(run)
    assert [(j.lane, j.new, j.old) for j in judged] == [
        (lane, "hybrid", old) for lane in ("turns", "gems") for old in ("substring", "bm25")
    ]
    assert {j.verdict for j in judged} == {"too few to tell"}
    assert all(j.corrected_p >= j.comparison.p for j in judged)


def test_no_p_is_printed_as_zero():
    """A p too small for three decimals says so."""
    assert [report.p_text(value) for value in (1, 0.0312, 0.0001)] == ["1.000", "0.031", "<0.001"]


def test_failing(run):
    """Failing queries are those without any gold in the first five; substring fails all of these."""
    assert len(report.failing(run, "turns", "substring")) == 6
    assert not {r.query_id for r in report.failing(run, "turns", "bm25")} & {"ada-1", "bo-1", "cy-1"}


def test_markdown(run, tmp_path):
    """The summary names data and settings by hash, and its tables are rectangular."""
    text = report.write_markdown(run, tmp_path / "summary.md").read_text()
    assert run.metrics["dataset"]["sha256"] in text
    assert run.metrics["config_digest"] in text
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_markdown_says_how_to_make_it_again(data, tmp_path):
    """The command holds every setting that is not the default, quoted for a shell, and no folder of the machine."""
    settings = Settings(
        batch_size=3, cache_dir=tmp_path, retrieval={"mode": "bm25", "people": {"weights": {"bm25": 1}}}
    )
    run = evaluate(data, settings, modes=("bm25",), out=tmp_path / "run", embedder=FakeEmbedder())
    command = re.search(r"Made by `(.*)`", report.markdown(run))[1]
    given = shlex.split(command)
    assert {"batch_size=3", "retrieval.mode=bm25"} < set(given)
    again = Settings.load(**assignments([one for before, one in pairwise(given) if before == "--set"]))
    assert again.digest() == settings.digest()
    assert str(tmp_path) not in command.replace(run.manifest["dataset"]["path"], "")


def test_markdown_names_prompt_and_cassette(run):
    """Gems of a language model: the page says which prompt, and which recorded answers."""
    facts = {"name": "qwen3", "prompt": "curator@1", "digest": "x", "cassette_sha256": "f00d"}
    made = replace(run, manifest=run.manifest | {"distilling": facts})
    assert "extractor qwen3 (prompt curator@1, cassette SHA-256 `f00d`)" in report.markdown(made)


def test_pictures(run):
    """Each picture is valid SVG, names its axis and every mode, and is the same when drawn again."""
    for draw in (figures.overall, figures.by_category):
        drawn = figures.svg(draw(run, "turns"))
        ET.fromstring(drawn)
        assert drawn == figures.svg(draw(run, "turns"))


def test_page_stands_alone(html):
    """The page refers to nothing outside itself and runs no script."""
    links = _Links()
    links.feed(html)
    assert links.tags & {"table", "img", "details"} == {"table", "img", "details"}
    assert not links.tags & {"script", "link", "iframe"}
    assert links.targets
    assert all(target.startswith("data:") for target in links.targets)


def test_page_shows_what_failed(run, data, html):
    """A failing query stands there with what should have been found."""
    failed = report.failing(run, "turns", "hybrid")
    assert failed
    wanted = {turn.turn_id: turn for c in data.conversations for turn in c.turns}
    for result in failed:
        assert result.text in html
        assert all(wanted[turn_id].parts[0].text in html for turn_id in result.gold)


def test_remembered_text_is_escaped(run, data):
    """Markup in a query or a turn is shown, not run."""
    result = run.results[0].__class__(
        "q", "ada", "identifier", "<script>alert(1)</script>", "turns", "bm25", ("ada-0",), (), {"R@5": 0}
    )
    assert "<script>" not in page.failing_html([result], data)


def test_incomplete_run_is_refused(tmp_path):
    """A folder without metrics.json holds no run."""
    with pytest.raises(NotFoundError, match=r"metrics\.json is missing"):
        read_run(tmp_path)


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.targets = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.targets += [value for name, value in attrs if name in {"src", "href"}]
