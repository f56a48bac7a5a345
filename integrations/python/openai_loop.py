"""A chat that remembers, with any OpenAI-compatible server: OPENAI_BASE_URL, OPENAI_API_KEY and MODEL say which."""

import os
import uuid

from openai import OpenAI

from neuralstream import NeuralStream, Turn, Usage

SESSION, WINDOW = uuid.uuid4().hex, 32_768

with NeuralStream() as memory, OpenAI(timeout=300) as client:
    messages = []
    while words := input("> "):
        block = memory.context(words, session_id=SESSION).text
        messages.append({"role": "user", "content": words})
        remembered = [{"role": "system", "content": block}] if block else []  # not kept in messages
        reply = client.chat.completions.create(model=os.environ["MODEL"], messages=remembered + messages)
        answer = reply.choices[0].message.content
        messages.append({"role": "assistant", "content": answer})
        memory.capture(Turn.exchange(words, answer, session_id=SESSION))
        memory.turn_end(SESSION, Usage(tokens=reply.usage.total_tokens, context_window=WINDOW))
        print(answer)
    memory.end_session(SESSION)
