import time

import pytest

from neuralstream.extract.sentences import CodeBlock, split_text


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One here. Two there! Three?", ("One here.", "Two there!", "Three?")),
        ("sold. 4.2.2 till M3 is out", ("sold.", "4.2.2 till M3 is out")),
        ("Ask Dr. Hale, e.g. about v1.9.4.", ("Ask Dr. Hale, e.g. about v1.9.4.",)),
        ("hosts:\n- merlin\n2) osprey\n# End", ("hosts:", "merlin", "osprey", "End")),
        ("| host | port |\n|---|--:|\n| merlin | 6381 |", ("host, port", "merlin, 6381")),
        ("搬到了6381端口。谢谢！", ("搬到了6381端口。", "谢谢！")),
        ("🎉 ... !!!", ()),
    ],
)
def test_sentences(text, sentences):
    """Sentences end at marks and line breaks; abbreviations, versions, bullets and table rules do not count."""
    assert split_text(text).sentences == sentences


def test_code_blocks_are_no_sentences():
    """A fenced block is kept whole with its language, even when the closing fence is missing."""
    prose = split_text("use this\n```YAML\na: 1\n\nb: 2\n```\nand\n```\nopen")
    assert prose.sentences == ("use this", "and")
    assert prose.code == (CodeBlock("yaml", "a: 1\n\nb: 2"), CodeBlock("", "open"))


@pytest.mark.parametrize("unit", ["a. ", "a", ". ", "```", "``` ", "|", "| ", "- ", "e.g. ", "\n", "!"])
def test_time_grows_linearly(unit):
    """A long repetitive message is taken apart in no time."""
    started = time.process_time()
    split_text((unit * 100_000)[:100_000])
    assert time.process_time() - started < 2
