import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.entities import find_entities, find_phrases, link_entities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask if Owen Tait knows", ("owen tait", "owen", "tait")),
        ("he works at the Bank of the West", ("bank of the west", "bank", "west")),
        ("then Dr. Martin Hale came", ("dr martin hale", "dr", "martin", "hale")),
        ("we saw Owen's Porsche", ("owen", "porsche")),
        ("Ask Tilda about it. The garage is hers.", ("tilda",)),
        ("Penrose costs less. We stay with Penrose then.", ("penrose",)),
        ("the NAS writes UTC", ("nas", "utc")),
        ("Did you see it on Monday in May? Thanks! I'm glad, Hello.", ()),
        ("WHY IS EVERYTHING ON FIRE", ()),
    ],
)
def test_names(text, expected):
    """Capitalised runs are names, whole and by part; grammar, calendar and greetings are not."""
    assert find_entities(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listens on port 6381 now", ("port 6381", "6381")),
        ("proxied to http://10.8.0.4:8087/;", ("10.8.0.4", "port 8087", "8087")),
        ("see https://www.example.com/docs?a=b.", ("example.com",)),
        ("write ops@example.org", ("ops@example.org",)),
        ("under /vol2/restic-data, in alerts/ledger.yaml", ("/vol2/restic-data", "alerts/ledger.yaml", "ledger.yaml")),
        ("filed as BH-114, closes #123", ("bh-114", "#123")),
        ("qdrant v1.9.4 and redis:7.2.4", ("1.9.4", "redis", "7.2.4")),
        ("display says E41, then error 5", ("e41", "error 5")),
        ("got HTTP 503 with --max-retries=3", ("http 503", "http", "max-retries")),
        ("a std::vector of Foo.bar()", ("std::vector", "foo.bar", "foo")),
        ("set `allkeys-lru`, not allkeys-random", ("allkeys-lru",)),
        ("call `getContextUsage()` or auth_api", ("getcontextusage", "auth_api")),
        (
            'we watched "The Quiet Harbour" and "it was fine"',
            ("the quiet harbour", "quiet harbour", "quiet", "harbour"),
        ),
        ("端口在redis.conf里。《红楼梦》", ("redis.conf", "红楼梦")),
        ("on 2026-03-01 at 06:12 it cost 17.40, in 2024, either/or", ()),
    ],
)
def test_identifiers(text, expected):
    """Identifiers, code symbols and quoted titles are entities; dates, times, prices and years are not."""
    assert find_entities(text) == expected


def test_code_blocks_hold_identifiers_but_no_names():
    """A fenced block contributes code symbols, never its capitalised keywords."""
    assert find_entities("so:\n```\nthe Persistent timer\nmax_retries: x\n```\nthanks") == ("max_retries",)


def test_known_entities_are_linked_in_any_casing():
    """What is known is found in lower case, longer names before their parts; what is unknown is not."""
    known = {"redis", "tilda marquardt", "tilda", "port 6381"}
    assert link_entities("does tilda Marquardt's REDIS use port 6381?", known) == (
        "tilda marquardt",
        "tilda",
        "redis",
        "port 6381",
    )
    assert link_entities("does tilda use redis?", frozenset()) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The leaking boiler in our cellar", ("leak boiler",)),
        ("about a new LGBTQ art show, then art shows", ("lgbtq art show", "art show")),
        ("pottery; class", ()),
        ("pottery\nclass", ()),
        ("it's really good, we don't sell 3 bikes", ()),
        ("", ()),
    ],
)
def test_phrases(text, expected):
    """Words side by side are a phrase, whatever their endings; stop words, adverbs, numbers and marks part them."""
    assert find_phrases(text) == expected


def test_each_entity_comes_once_in_order():
    """Entities are given in order of first appearance."""
    assert find_entities("then Mira met Jonas, and Jonas met Mira") == ("mira", "jonas")


@pytest.mark.parametrize(
    "unit", ["a", "aA", "a.", "a/", '"x ', "Abc ", "`a", "```", "-", "port ", "port", " ", "A", "12 ", "/a", "x_"]
)
def test_time_grows_linearly(unit):
    """A long repetitive text costs no more per character than a short one, give or take noise."""
    text = (unit * 100_000)[:100_000]
    started = time.process_time()
    find_entities(text)
    find_phrases(text)
    assert time.process_time() - started < 2


@given(st.text())
def test_any_text_is_read(text):
    """Every text gives normalised, distinct, non-empty entities, and the same ones again."""
    found = find_entities(text)
    assert len(set(found)) == len(found)
    assert all(entity == entity.casefold() and entity.strip() == entity and entity for entity in found)
    assert all(" " in phrase for phrase in find_phrases(text))
    assert link_entities(text, set(found)) == tuple(dict.fromkeys(link_entities(text, set(found))))
    assert set(link_entities(text, set(found))) == set(found)
