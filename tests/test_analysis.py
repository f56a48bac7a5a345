from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream import analysis
from neuralstream.analysis import STOP_WORDS, analyse, is_stop_word, words


def test_words_meet_across_case_accents_endings_and_possessives():
    """Query and document meet whatever their case, accents, inflection, width and apostrophes."""
    assert analyse("Caroline’s CAFÉS were running") == analyse("caroline's cafe runs")
    assert analyse("ｎａｉｖｅ") == analyse("naïve")
    assert analyse("Straße") == analyse("STRASSE")
    assert analyse("don't we'll he's") == []


def test_identifiers_are_found_whole_and_by_parts():
    """Addresses, versions, ticket and file names give their parts and one token for the whole."""
    for text, whole, parts in (
        ("at 10.0.0.5:6379", "10x0x0x5", {"10", "0", "5", "6379"}),
        ("v1.2.3", "v1x2x3", {"v1", "2", "3"}),
        ("max_turn_chars", "maxturnchar", {"max", "turn", "char"}),
        ("ERR-1042", "err1042", {"err", "1042"}),
        ("src/main.py.", "mainpi", {"src", "main", "py"}),
    ):
        tokens = analyse(text)
        assert tokens.count(whole) == 1
        assert parts <= set(tokens)
    assert set(analyse("err1042")) <= set(analyse("ERR-1042"))
    assert "123" not in analyse("1.2.3")


def test_unspaced_scripts_are_cut_into_characters_and_pairs():
    """Chinese, Japanese and Thai are found by parts of a sentence; Latin words inside stay whole."""
    assert analyse("東京タワー") == [*"東京タワー", "東京", "京タ", "タワ", "ワー"]
    assert set(analyse("東京")) < set(analyse("明日東京に行く"))
    assert set(analyse("สวัสดี")) < set(analyse("พูดว่าสวัสดีครับ"))
    assert analyse("用Redis缓存") == ["用", "redi", "缓", "存", "缓存"]
    assert analyse("がくせい") != analyse("かくせい"), "voiced kana are letters of their own"


def test_marks_and_invisible_characters_do_not_split_words():
    """Harakat, vowel signs, soft hyphens and zero-width joiners leave one token."""
    assert analyse("مَرْحَبًا") == analyse("مرحبا")
    assert len(analyse("हिन्दी")) == 1
    assert analyse("co\u00adoperation") == analyse("cooperation")
    assert analyse("pass\u200bword") == analyse("password")


@given(st.text(max_size=200))
def test_any_text_gives_tokens_an_engine_keeps_whole(text):
    """Tokens are never empty, hold letters and digits only, and are lower case; no text is an error."""
    for token in analyse(text):
        assert token.isalnum()
        assert token == token.casefold()
    assert all(word.isalnum() for word in words(text))


def test_stop_words_carry_no_content():
    """A query of stop words has no tokens."""
    assert analyse("what did you do with them?") == []
    assert is_stop_word("the")
    assert not is_stop_word("port")
    assert list(words("The café!")) == ["the", "cafe"]
    assert all(word == word.casefold() for word in STOP_WORDS)


def test_threads_stem_at_once():
    """Many threads analysing at the same time get what one thread gets, each from a stemmer of its own."""
    texts = [f"running connections number{index} generously organised" * 20 for index in range(8)]
    expected = [analyse(text) for text in texts]
    wrong: list[int] = []
    stemmers = []

    def work(index: int) -> None:
        stemmers.append(analysis._stemmer())
        wrong.extend(index for _ in range(50) if analyse(texts[index]) != expected[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({id(stemmer) for stemmer in stemmers}) == len(threads)


def test_tokens_are_the_same_in_every_process():
    """Analysis depends on nothing but the text, not on the hash seed or the locale."""
    text = "Ünïcode 東京 v1.2.3 running"
    code = f"from neuralstream.analysis import analyse; print(analyse({text!r}) == {analyse(text)!r})"
    environment = os.environ | {"PYTHONPATH": str(Path(analysis.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "True"


@pytest.mark.timeout(60)
def test_a_long_word_does_not_hang():
    """A hex dump of 200,000 letters is one word; trying every letter as a beginning would take many minutes."""
    assert len(analyse("0f" * 100_000)) == 1
