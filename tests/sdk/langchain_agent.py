"""Turns with LangChain as anyone would write them.

usage: langchain_agent.py BASE_URL KEY; prints one JSON object of what the library made of them.
"""

import json
import sys

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

base_url, key = sys.argv[1:]
cities = []

READ = "read notes.txt"
BOTH = 'read notes.txt and call get_weather with {"city": "Oslo"}'


@tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    cities.append(city)
    return f"{city}: rain, 7 degrees"


def model(**settings):
    return ChatOpenAI(model="demo", base_url=base_url, api_key=key, max_retries=0, **settings)


def answer():
    return {"text": model().invoke(READ).content}


def streamed():
    return {"text": "".join(chunk.content for chunk in model().stream(READ))}


def agent(**settings):
    """An agent with the library's own memory: it sends what it has seen."""
    cities.clear()
    worker = create_agent(model(**settings), [get_weather], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "one"}}

    def say(text):
        return worker.invoke({"messages": [{"role": "user", "content": text}]}, thread)["messages"]

    messages = say(BOTH)
    calls = [call["name"] for it in messages for call in getattr(it, "tool_calls", [])]
    recalled = say("recall")[-1].content
    return {
        "text": messages[-1].content,
        "calls": calls,
        "cities": list(cities),
        "recalled": recalled,
    }


told = {
    "answer": answer(),
    "streamed": streamed(),
    "agent": agent(),
    "agent_streamed": agent(streaming=True),
}
print(json.dumps(told))
