"""Conversations with the OpenAI Python SDK that keep nothing but what a client sees.

usage: conversations.py BASE_URL KEY; prints one JSON object of what the SDK made of them.
"""

import json
import sys

from openai import OpenAI

base_url, key = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0)

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def say(messages, text, **settings):
    """One more turn, in which effects ask; the answer that is kept is its visible text."""
    messages.append({"role": "user", "content": text})
    completion = client.chat.completions.create(
        model="demo", messages=messages, extra_body={"toolhand": {"mode": "default"}}, **settings
    )
    choice = completion.choices[0]
    messages.append({"role": "assistant", "content": choice.message.content})
    return {
        "text": choice.message.content,
        "finish": choice.finish_reason,
        "asked": completion.model_extra["toolhand"].get("asked", []),
        "session": completion.model_extra["toolhand"]["session"],
    }


def memory():
    messages = []
    read = say(messages, "read notes.txt and list *.txt")
    recalled = say(messages, "recall")
    return {"read": read, "recalled": recalled, "roles": [it["role"] for it in messages]}


def approval():
    messages = []
    question = say(messages, "write plum to of-python.txt")
    allowed = say(messages, "1")
    denied = [say(messages, "write pear to pear.txt"), say(messages, "no, thank you")]
    return {"question": question, "allowed": allowed, "denied": denied}


def question():
    """The model's own question, answered by a number."""
    options = [{"label": label, "description": ""} for label in ("Red", "Blue")]
    asked = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    messages = []
    question = say(messages, "call AskUserQuestion with " + json.dumps({"questions": [asked]}))
    return {"question": question, "answered": say(messages, "2")}


def mixed():
    """The model calls a tool of the server and one of the client in one message."""
    messages = [{"role": "user", "content": 'read notes.txt and call get_weather with {"city": "Oslo"}'}]
    settings = {"model": "demo", "tools": [WEATHER_TOOL]}
    first = client.chat.completions.create(messages=messages, **settings)
    message = first.choices[0].message
    call = message.tool_calls[0]
    messages.append(message)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain, 7 degrees"})
    second = client.chat.completions.create(messages=messages, **settings)
    messages.append({"role": "assistant", "content": second.choices[0].message.content})
    recalled = say(messages, "recall", tools=[WEATHER_TOOL])
    return {
        "calls": [call.function.name for call in message.tool_calls],
        "text": second.choices[0].message.content,
        "recalled": recalled["text"],
        "sessions": [it.model_extra["toolhand"]["session"] for it in (first, second)]
        + [recalled["session"]],
    }


told = {"memory": memory(), "approval": approval(), "question": question(), "mixed": mixed()}
print(json.dumps(told))
