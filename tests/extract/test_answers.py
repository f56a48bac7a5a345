"""The gems in an answer are found whatever stands around them, and however the model named things."""

import json

import pytest

from neuralstream.extract.answers import ParseError, read_answer

ONE = {"source_turns": [4], "content": "Redis listens on port 6381.", "tags": ["fact"]}
TWO = {"source_turns": [5], "content": "Ada backs merlin up at night.", "tags": ["fact"]}
WHOLE = json.dumps({"gems": [ONE, TWO]})


def contents(text):
    """What the gems of an answer say."""
    return [item["content"] for item in read_answer(text).items]


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        json.dumps({"gems": [ONE, TWO]}, indent=2),
        f'<think>Port first. {{"gems": []}}</think>\n{WHOLE}',
        f"<think></think>{WHOLE}",
        f"\n<think>\n\n</think>\n\n{WHOLE}",
        f"I should look at turn [4] first.</think>{WHOLE}",
        f"Here are the gems of turns [4] and [5]:\n\n{WHOLE}\n\nLet me know if you need more!",
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}\n```\nThese follow the schema.",
        json.dumps([ONE, TWO]),
        f"{json.dumps(ONE)}\n{json.dumps(TWO)}",
        json.dumps({"memories": [ONE, TWO]}),
        json.dumps({"Gems": [ONE, TWO]}),
        json.dumps({"answer": {"gems": [ONE, TWO]}}),
        json.dumps({"type": "object", "properties": {"gems": [ONE, TWO]}}),
        json.dumps({"drafts": ["port", "backup"], "gems": [ONE, TWO]}),
        WHOLE.replace("}]}", "},]}").replace('"],', '",],'),
        WHOLE.replace('"', "'"),
        WHOLE[:-2],
        WHOLE[:-1],
        WHOLE.replace('{"gems": ', "gems: ")[:-1],
        json.dumps({"gems": [[ONE], [TWO]]}),
        WHOLE.replace("content", "statement"),
        json.dumps({"gems": [{"source_turns": [4], "text": ONE["content"]}, {"fact": TWO["content"]}]}),
        json.dumps({"gems": [ONE["content"], TWO["content"]]}),
        json.dumps({"facts": [ONE], "decisions": [], "code": [TWO]}),
    ],
)
def test_the_gems_are_found(text):
    """Thinking, prose, fences, other outer forms, other keys and broken JSON do not hide them."""
    assert contents(text) == [ONE["content"], TWO["content"]]


@pytest.mark.parametrize("before", ["", "<think>Hm.</think>\n", "```json\n", "<think></think>```json\n"])
def test_a_tag_that_was_talked_about_is_no_thinking(before):
    """People who work with such models speak of `</think>`."""
    said = "The parser drops all up to </think>, and <think> too."
    assert contents(f"{before}{json.dumps({'gems': [ONE | {'content': said}]})}") == [said]


def test_a_single_object_is_one_gem():
    """A model that found one thing leaves the list out."""
    assert contents(json.dumps(ONE)) == [ONE["content"]]
    assert contents(json.dumps({"gems": ONE})) == [ONE["content"]]


def test_lists_by_kind_say_the_kind():
    """The key a gem stands under is its tag."""
    (item,) = read_answer(json.dumps({"decisions": [], "facts": [], "todos": [TWO]})).items
    assert item["tags"] == "todo"


@pytest.mark.parametrize(
    "text", ['{"gems": []}', "[]", '{"gems": null}', '{"memories": []}', '{"facts": [], "todos": []}']
)
def test_nothing_worth_keeping_is_an_answer(text):
    """An empty list is no error."""
    assert read_answer(text).items == ()


@pytest.mark.parametrize(
    "text", ["", "  \n", "<think></think>", "<think>Let me see what the user said about", "</think>"]
)
def test_no_answer_is_said_to_be_empty(text):
    """Nothing at all, only thinking, or thinking that was cut off."""
    with pytest.raises(ParseError, match="empty"):
        read_answer(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Redis listens on port 6381, as you said in turn [4].",
        "user: and what about the backup?",
        "{}",
        "42",
        '"gems"',
        "[1, 2, 3]",
        '{"port": 6381}',
    ],
)
def test_what_holds_no_gems_is_no_answer(text):
    """Prose that goes on with the conversation, and JSON of something else."""
    with pytest.raises(ParseError, match='list "gems"'):
        read_answer(text)


def test_the_schema_is_no_answer():
    """A schema that comes back is named as what it is; gems after it count."""
    schema = json.dumps({"type": "object", "properties": {"gems": {"type": "array", "items": {"type": "object"}}}})
    with pytest.raises(ParseError, match="schema"):
        read_answer(schema)
    assert contents(f"{schema}\n{WHOLE}") == [ONE["content"], TWO["content"]]


@pytest.mark.parametrize("end", range(len(json.dumps({"gems": [ONE]})) + 1, len(WHOLE) - 3))
def test_a_gem_that_was_cut_off_is_left_out(end):
    """Wherever the answer ends inside the second gem, the first is whole and the second is not guessed."""
    written = read_answer(WHOLE[:end])
    assert [item["content"] for item in written.items] == [ONE["content"]]
    assert written.cut


def test_a_whole_answer_is_not_cut():
    """Prose after it, or a comma too many inside it, does not make it look cut off."""
    for text in (WHOLE, f"{WHOLE} Hope this helps", WHOLE.replace("}]}", "},]}") + "\nDone"):
        assert not read_answer(text).cut


@pytest.mark.parametrize("text", ["[" * 3000, "{" * 3000, '{"a":' * 3000, "9" * 5000])
def test_absurd_nesting_ends(text):
    """No depth and no length of number breaks the reader."""
    with pytest.raises(ParseError):
        read_answer(text)
