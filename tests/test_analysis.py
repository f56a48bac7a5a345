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
from neuralstream.analysis import STOP_WORDS, analyse, analyse_whole_words, is_stop_word, words
from neuralstream.english import FOREIGN, reads_english


def test_words_meet_across_case_accents_endings_and_possessives():
    """Query and document meet whatever their case, accents, inflection, width and apostrophes."""
    assert (
        analyse("Caroline’s CAFÉS were running") == analyse("caroline's cafe is running") == ["carolin", "cafe", "run"]
    )
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


def test_short_texts_that_may_be_english_still_meet_english_ones():
    """A question without function words has at least the tokens it has inside an English sentence."""
    asked = analyse("notebook kernel migration")
    told = analyse("The migration of the notebook kernel is what we want")
    assert set(told) & set(asked) == {"notebook", "kernel", "migrat"}
    assert not {"note", "book"} & set(asked), "pieces are no words"
    assert not any(token.startswith("4") for token in told), "an English line is not cut"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Versicherung", "Meine Haftpflichtversicherungsnummer ist HK-88213-07."),
        ("Nüsse", "Oskar hat eine Haselnussallergie."),
        ("Holz", "Das Brennholz verschenken wir."),
        ("ueberstunden", "Jannes hat noch 37 Überstunden."),
        ("boekingen", "De boekingsnummers staan in de mail."),
        ("kinesitherapeute", "Le kiné est le meilleur kinésithérapeute de la ville."),
        ("declaraciones", "La declaración se presenta en junio."),
        ("umowa", "Numer umowy to 4471."),
        ("Wlodek", "Włodek przyjdzie w sobotę."),
        ("duong", "Đường đến nhà bà ngoại là một con đường nhỏ."),
        ("договоры", "Номер договора лежит в папке."),
        ("συμβόλαιο", "Τα συμβόλαια είναι στο συρτάρι."),
        ("sigortalar", "Sigorta numarası bir kağıtta yazıyor."),
    ],
)
def test_inflected_compound_and_accented_words_meet_in_other_languages(query, text):
    """A word is found in its compounds, in other forms of it, and without its accents, whatever the language."""
    assert set(analyse(query)) & set(analyse(text))


def test_a_line_is_cut_by_its_own_language():
    """A German line beside an English reply is searchable by parts; the reply is not blown up."""
    tokens = analyse("Wo ist die Versicherungsnummer?\nI have put the number into your notebook.")
    assert "4numm" in tokens
    assert "4note" not in tokens
    assert not any(
        token.startswith("4") for token in analyse("This is the build for la Torre:\npipeline finished\nworker stopped")
    )


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("what is the port of the staging server", True),
        ("Who booked the room in Los Angeles for us and when?", True),
        ("wie heißt der Server", False),
        ("où est la clé", False),
        ("Vad är det för port", False),
        ("the The North Face Jacke ist bei dir", False),
        ("thật thế", None),
        ("redis port 6381", None),
        ("", None),
    ],
)
def test_function_words_tell_english(line, english):
    """Most of the function words decide; a line without any tells nothing, and accents keep thế from being the."""
    assert reads_english(line.casefold().split()) is english
    assert not FOREIGN & STOP_WORDS


def test_scripts_without_spaces_are_cut_into_words_and_pieces():
    """Dictionary words, single Han characters, pairs of kana and of Thai letters; Latin words inside stay whole."""
    assert analyse("東京に行くバス") == ["東", "京", "行", "クバ", "バス", "東京", "ニ", "行ク", "バス"]
    assert analyse("用Redis缓存") == ["用", "用", "redi", "缓", "存", "缓存", "缓", "存"]
    assert {"发票", "客户"} <= set(analyse("客户要的是增值税专用发票"))
    assert "\u0e19\u0e33" in analyse("ดื่มน้ำ"), "the vowel AM is spelt as dictionaries do"
    assert {"ทนตแพทย", "วน", "ไหน"} <= set(analyse("นัดทันตแพทย์วันไหน"))
    assert set(analyse("东京")) - set(analyse("京东")) == {"东京"}, "the word tells what single characters do not"
    assert {"한국어를", "한국", "어"} <= set(analyse("한국어를 공부합니다"))
    assert analyse("がくせい") != analyse("かくせい"), "voiced kana are letters of their own"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("東京", "明日東京に行く"),
        ("สวัสดี", "พูดว่าสวัสดีครับ"),
        ("น้ำแข็ง", "โรงน้ำแข็งบางซื่อ"),
        ("ນ້ຳ", "ດື່ມນ້ຳຫຼາຍໆ"),
        ("ភាសា", "ខ្ញុំរៀនភាសាខ្មែរ"),
        ("保险", "货物运输险换了一家保险公司"),
        ("학교", "학교에서 만나요"),
    ],
)
def test_a_word_is_found_inside_a_sentence_without_spaces(query, text):
    """Most tokens of a word are among those of the sentence around it, whichever way that is cut."""
    asked = set(analyse(query))
    assert len(asked & set(analyse(text))) > len(asked) / 2


def test_ways_to_write_the_same_meet():
    """Widths, kana, final long vowels, digits of other scripts, ligatures and strokes are one spelling."""
    for one, other in (
        ("ｻｰﾊﾞｰ", "サーバ"),
        ("ＴＫ－３０８", "TK-308"),
        ("じゃがいも", "ジャガイモ"),
        ("๔๔๑๙", "4419"),
        ("٣٤", "34"),
        ("œuvre", "oeuvre"),
        ("Łódź", "lodz"),
        ("ISTANBUL ığdır", "istanbul igdir"),
        ("葛\U000e0101城", "葛城"),
    ):
        words_of_one, words_of_other = analyse_whole_words(one), analyse_whole_words(other)
        assert words_of_one[-1] == words_of_other[-1], (one, other)
    assert analyse("キー")[-1] == "キー", "a short word keeps its long vowel"


def test_what_stands_around_a_word_changes_no_token_of_its_own():
    """Every text that holds a phrase has the phrase's whole words, in whichever language it goes on."""
    for phrase in ("Versicherung kündigen", "東京タワー 六月", "port 6381", "café v1.2.3", "ร้านกาแฟ ใหม่"):
        for before, after in (("", ""), ("what is the ", " of this"), ("wo ist die ", " und das"), ("我们 ", " 吗")):
            assert set(analyse_whole_words(phrase)) <= set(analyse(before + phrase + after))


def test_segmentation_loads_only_for_its_scripts():
    """Texts in other scripts load no tables of ICU."""
    code = (
        "import sys; from neuralstream.analysis import analyse;"
        "analyse('Grüße, мир'); assert 'icu4py' not in sys.modules;"
        "analyse('東京'); assert 'icu4py' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
    texts = [f"running connections number{index} generously organised 東京都庁{index}へ行く" * 20 for index in range(8)]
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
    assert len(analyse("ab" * 100_000)) == 1
    assert len(analyse("東京" * 50_000)) > 100_000
