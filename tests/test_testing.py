from datetime import UTC, datetime, timedelta

import httpx

from neuralstream.extract.base import Batch, Extraction
from neuralstream.testing import (
    FakeClock,
    FakeEmbedder,
    OllamaReply,
    OpenAIReply,
    ScriptedChat,
    ScriptedExtractor,
    ScriptedOllama,
    ScriptedOpenAI,
)
from neuralstream.types import Turn


def test_the_clock_moves_only_when_told():
    """It starts at a known time, moves by durations, seconds and named units, and jumps."""
    clock = FakeClock("2026-05-08T10:00:00Z")
    assert clock() == clock() == datetime(2026, 5, 8, 10, tzinfo=UTC)
    clock.advance(timedelta(minutes=1))
    clock.advance(30)
    assert clock.advance(hours=1) == clock() == datetime(2026, 5, 8, 11, 1, 30, tzinfo=UTC)
    assert clock.set("2027-01-01") == datetime(2027, 1, 1, tzinfo=UTC)


def test_fake_vectors_are_near_where_words_are_shared():
    """Stemmed words count, stop words do not."""
    embedder = FakeEmbedder()
    scores = embedder.embed_documents(["Redis ports", "a lake at sunrise"]) @ embedder.embed_query("the port of redis")
    assert scores[0] > 0.99
    assert abs(scores[1]) < 0.5


def test_an_unscripted_extractor_never_answers_the_same():
    """Each call makes one new gem of the batch's turns, and the batch is recorded."""
    clock = FakeClock()
    turn = Turn.exchange("Use port 6381", "Done.", session_id="s", index=3, created_at=clock())
    extractor = ScriptedExtractor()
    first, second = (extractor.extract(Batch("b", (turn,))).gems[0] for _ in "12")
    assert first.gem_id != second.gem_id
    assert (first.source_turns, first.source.turn_range) == ((turn.turn_id,), "3-3")
    assert len(extractor.batches) == 2


def test_a_script_decides_what_is_extracted():
    """A function of the batch gives gems or a whole extraction."""
    batch = Batch("b", (Turn.exchange("a", "b", session_id="s"),))
    assert ScriptedExtractor(lambda _: []).extract(batch) == Extraction(())
    assert ScriptedExtractor(lambda _: Extraction(cost={"calls": 2})).extract(batch).cost == {"calls": 2}


def test_the_server_answers_as_scripted_and_records():
    """Listed answers come once each in order, a list is streamed, and then the server behaves by itself."""
    with ScriptedOllama() as server, httpx.Client(base_url=server.url, timeout=60) as client:
        server.script("/api/chat", [{"done": True}, [{"n": 1}, {"n": 2}], OllamaReply.error("busy", 503)])
        assert client.post("/api/chat", json={"model": "m", "messages": []}).json() == {"done": True}
        assert client.post("/api/chat", json={}).text.splitlines() == ['{"n": 1}', '{"n": 2}']
        assert client.post("/api/chat", json={}).status_code == 503
        assert client.post("/api/chat", json={"model": "snowflake-arctic-embed2"}).status_code == 501
        server.script("/api/generate", lambda request: {"response": request.body["prompt"].upper()})
        assert client.post("/api/generate", json={"prompt": "hi"}).json() == {"response": "HI"}
        assert client.get("/api/version").json()["version"]
        assert [request.path for request in server.requests].count("/api/chat") == 4
        assert server.asked("/api/chat")[0].body == {"model": "m", "messages": []}


def chat(client, path, words, **more):
    """What a model says to a prompt of so many words."""
    messages = [{"role": "system", "content": "first"}, {"role": "user", "content": "word " * words + "last"}]
    return client.post(path, json={"model": "qwen3", "messages": messages, **more})


def test_an_ollama_model_chats_and_cuts_prompts_without_a_word():
    """It reads half of its context, from the end, and stops at the longest answer; it can what it was said to."""
    models = {"qwen3": ScriptedChat(lambda prompt: prompt.split()[0] + " …" + prompt[-4:], capabilities=["thinking"])}
    with ScriptedOllama(models) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        whole = chat(client, "/api/chat", 10).json()
        assert whole["message"] == {"role": "assistant", "content": "first …last"}
        assert (whole["done_reason"], whole["prompt_eval_count"], whole["eval_count"]) == ("stop", 16, 3)
        cut = chat(client, "/api/chat", 2000, options={"num_ctx": 2048}).json()
        assert (cut["message"]["content"], cut["prompt_eval_count"]) == ("word …last", 1026)
        short = chat(client, "/api/chat", 10, options={"num_predict": 1}).json()
        assert (short["message"]["content"], short["done_reason"]) == ("firs", "length")
        assert client.post("/api/show", json={"model": "qwen3"}).json()["capabilities"] == ["thinking"]
        assert chat(client, "/api/embed", 1).status_code == 501


def test_an_ollama_model_that_cannot_think_refuses_the_option():
    """As Ollama does."""
    with ScriptedOllama() as server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert chat(client, "/api/chat", 1).json()["message"]["content"] == '{"gems": []}'
        assert chat(client, "/api/chat", 1, think=False).status_code == 400


def test_an_openai_model_chats_and_refuses_prompts_that_are_too_long():
    """It lists its context, wants the key, and says what went wrong."""
    with (
        ScriptedOpenAI({"qwen3": ScriptedChat("Hello.")}, context_length=100, api_key="k") as server,
        httpx.Client(base_url=server.url, timeout=60, headers={"authorization": "Bearer k"}) as client,
    ):
        assert client.get("/models").json()["data"] == [{"id": "qwen3", "max_model_len": 100}]
        said = chat(client, "/chat/completions", 10).json()
        assert said["choices"][0]["message"]["content"] == "Hello."
        assert said["choices"][0]["finish_reason"] == "stop"
        assert said["usage"] == {"prompt_tokens": 16, "completion_tokens": 2}
        refused = chat(client, "/chat/completions", 1000)
        assert (refused.status_code, "maximum context length" in refused.text) == (400, True)
        assert client.post("/chat/completions", json={"model": "none"}).status_code == 404
        assert client.get("/else").status_code == 404
        assert client.get("/models", headers={"authorization": "Bearer x"}).status_code == 401
        server.script("/v1/chat/completions", [OpenAIReply.answer("scripted", "length")])
        assert chat(client, "/chat/completions", 1).json()["choices"][0]["finish_reason"] == "length"
