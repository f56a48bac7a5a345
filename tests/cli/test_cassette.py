from neuralstream.llm.cassette import Cassette, Recording


def test_cassettes_are_merged(cli, tmp_path):
    """Two files become one, and the command says how many answers it holds; a missing file is wrong use."""
    one, two, out = (tmp_path / f"{name}.jsonl" for name in ("one", "two", "out"))
    for path, key in ((one, "b"), (two, "a")):
        Cassette(path).add(Recording(key, "qwen3", {}, {}, "[]", "stop"))
    ran = cli("cassette", "merge", one, two, "--out", out)
    assert ran.code == 0
    assert "holds 2 answers" in ran.err
    assert [found.key for found in Cassette(out)] == ["a", "b"]
    assert cli("cassette", "merge", tmp_path / "none.jsonl", "--out", out).code == 2
