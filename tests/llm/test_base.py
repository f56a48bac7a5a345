import pytest

from neuralstream.errors import ContextOverflowError
from neuralstream.llm import Request
from neuralstream.llm.base import check_fits, check_whole, fewest_tokens, without_thinking

PROSE = "We moved the broker to the second rack, since the first one ran too hot in summer. " * 100
CODE = 'for (const row of rows) { out[row.id] = `${row.a ?? "-"}:${row.b}`; }\n' * 100
CHINESE = "我们把缓存服务器搬到了第二个机架，因为第一个机架夏天太热。" * 100
TABLE = ("name" + " " * 120 + "|" + "=" * 200 + "\n") * 40

LAUGHTER = "哈哈哈哈" * 200

# What llama.cpp's /tokenize makes of them with Qwen2.5's vocabulary.
MEASURED = {PROSE: 1901, CODE: 2500, CHINESE: 1900, TABLE: 320, LAUGHTER: 200}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[1]", "[1]"),
        ("<think></think>\n[1]", "[1]"),
        ("\n<think>\nWhat [is] this?\n</think>\n\n[1]\n", "[1]"),
        ("What is [this]?\n</think>\n[1]", "[1]"),
        ("<think>and on and on", ""),
        ('{"gems": ["never write </think>"]}', '{"gems": ["never write </think>"]}'),
        ("```json\n[]\n``` </think>", "```json\n[]\n``` </think>"),
    ],
)
def test_thinking_is_taken_off(text, left):
    """With both tags, the closing one alone, or cut off before it; never from within an answer."""
    assert without_thinking(text) == left


def test_prompt_and_answer_share_the_context():
    """What fits exactly is let through; the message says the numbers and the settings."""
    request = Request("x" * 400, system="y" * 40, max_tokens=90)
    assert request.tokens == 110
    check_fits(request, 200)
    with pytest.raises(ContextOverflowError, match=r"about 110 tokens and an answer of 90 exceed the context of 199"):
        check_fits(request, 199)


@pytest.mark.parametrize("text", list(MEASURED), ids=["prose", "code", "chinese", "table", "laughter"])
def test_a_prompt_that_was_read_whole_raises_no_alarm(text):
    """However far the estimate is from what a tokenizer makes of prose, code, Chinese, a table or laughter."""
    assert fewest_tokens(text) <= MEASURED[text]
    check_whole(Request(text), MEASURED[text], 100, 8192)


@pytest.mark.parametrize("text", [PROSE, CODE, CHINESE], ids=["prose", "code", "chinese"])
def test_a_prompt_that_was_cut_is_noticed(text):
    """A server keeps half of its context, or fills it; or answers after far less than the prompt's words."""
    request = Request(text)
    context = MEASURED[text] - 200
    for kept in (context // 2 + 2, context, context - 50):
        with pytest.raises(ContextOverflowError, match=f"read {kept} tokens"):
            check_whole(request, kept, 60, context)
    with pytest.raises(ContextOverflowError):
        check_whole(request, 300, 60, 100_000)


@pytest.mark.parametrize("count", [None, 0])
def test_a_server_that_does_not_count_is_believed(count):
    """Nothing can be told from it."""
    check_whole(Request(PROSE), count, None, 100)


def test_a_prompt_that_fills_half_of_the_context_is_not_taken_for_cut():
    """Where the estimate agrees with the count."""
    check_whole(Request("word " * 1640), 2050, 10, 4096)


@pytest.mark.parametrize("text", ["हिन्दी में लिखा गया", "résumé", "ทดสอบภาษาไทย"])
def test_vowel_signs_make_no_words(text):
    """A word of another alphabet, or with loose accents, may be one token."""
    assert fewest_tokens(text) <= 1
