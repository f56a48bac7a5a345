"""A LangGraph graph that remembers across threads: OPENAI_BASE_URL, OPENAI_API_KEY and MODEL say which model."""

import os
import uuid

from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from neuralstream import NeuralStream, Turn, Usage

WINDOW = 32_768

memory = NeuralStream()
model = ChatOpenAI(model=os.environ["MODEL"], timeout=300)


def answer(state: MessagesState, config: RunnableConfig) -> MessagesState:
    """Ask the model with what is remembered, which stays out of the state, and keep the exchange."""
    session, words = config["configurable"]["thread_id"], state["messages"][-1].text
    block = memory.context(words, session_id=session).text
    remembered = [SystemMessage(block)] if block else []
    reply = model.invoke(remembered + state["messages"])
    memory.capture(Turn.exchange(words, reply.text, session_id=session))
    memory.turn_end(session, Usage(tokens=reply.usage_metadata["total_tokens"], context_window=WINDOW))
    return {"messages": [reply]}


graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=InMemorySaver())

if __name__ == "__main__":
    with memory:
        thread = uuid.uuid4().hex
        while words := input("> "):
            state = graph.invoke({"messages": [("user", words)]}, {"configurable": {"thread_id": thread}})
            print(state["messages"][-1].text)
        memory.end_session(thread)
