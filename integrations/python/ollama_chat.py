"""A chat that remembers, with Ollama: OLLAMA_HOST and MODEL say which."""

import os
import uuid

from ollama import Client

from neuralstream import NeuralStream, Turn, Usage

SESSION, WINDOW = uuid.uuid4().hex, 8192

with NeuralStream() as memory, Client(timeout=300) as client:
    messages = []
    while words := input("> "):
        block = memory.context(words, session_id=SESSION).text
        messages.append({"role": "user", "content": words})
        remembered = [{"role": "system", "content": block}] if block else []  # not kept in messages
        reply = client.chat(os.environ["MODEL"], remembered + messages, options={"num_ctx": WINDOW})
        answer = reply.message.content
        messages.append({"role": "assistant", "content": answer})
        memory.capture(Turn.exchange(words, answer, session_id=SESSION))
        memory.turn_end(SESSION, Usage(tokens=reply.prompt_eval_count + reply.eval_count, context_window=WINDOW))
        print(answer)
    memory.end_session(SESSION)
