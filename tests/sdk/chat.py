"""A chat with the OpenAI Python SDK that keeps nothing but what a client sees.

usage: chat.py BASE_URL KEY MODEL; reads what a person says from stdin, one JSON string a line.
Prints each piece of the answer's text as it comes, then the whole answer, as JSON objects.
"""

import json
import sys

from openai import OpenAI

base_url, key, model = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0)


def tell(**what):
    print(json.dumps(what), flush=True)


def answer(messages):
    text, finish = "", None
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            if choice.delta.content:
                text += choice.delta.content
                tell(piece=choice.delta.content)
    tell(text=text, finish=finish)
    return text


messages = []
for line in sys.stdin:
    messages.append({"role": "user", "content": json.loads(line)})
    messages.append({"role": "assistant", "content": answer(messages)})
