"""Turns with the OpenAI Python SDK as anyone would write them.

usage: turns.py BASE_URL KEY; prints one JSON object of what the SDK made of them.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI, NotFoundError, OpenAI
from pydantic import BaseModel

base_url, key = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
asynchronous = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)

READ = [{"role": "user", "content": "read notes.txt"}]
WEATHER = [{"role": "user", "content": 'call get_weather with {"city": "Oslo"}'}]
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


def unstreamed():
    completion = client.chat.completions.create(model="demo", messages=READ)
    return {
        "text": completion.choices[0].message.content,
        "finish": completion.choices[0].finish_reason,
        "usage": completion.usage.total_tokens,
    }


def streamed():
    text, finish, usage = "", None, 0
    stream = client.chat.completions.create(
        model="demo", messages=READ, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage.total_tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return {"text": text, "finish": finish, "usage": usage}


def helper():
    with client.chat.completions.stream(model="demo", messages=READ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    return {"text": final.message.content, "finish": final.finish_reason, "kinds": sorted(kinds)}


def cards():
    """Chunks that carry items of cards are ordinary ones for the stream helper."""
    with client.chat.completions.stream(
        model="demo", messages=READ, extra_body={"toolhand": {"progress": "cards"}}
    ) as stream:
        chunks = [event.chunk for event in stream if event.type == "chunk"]
        final = stream.get_final_completion().choices[0]
    items = [chunk.model_extra["item"] for chunk in chunks if "item" in chunk.model_extra]
    return {
        "text": final.message.content,
        "calls": final.message.tool_calls,
        "items": [item["type"] for item in items],
    }


def client_tool():
    first = client.chat.completions.create(model="demo", messages=WEATHER, tools=[WEATHER_TOOL])
    choice = first.choices[0]
    call = choice.message.tool_calls[0]
    answer = {"role": "tool", "tool_call_id": call.id, "content": "rain, 7 degrees"}
    second = client.chat.completions.create(
        model="demo", messages=[*WEATHER, choice.message, answer], tools=[WEATHER_TOOL]
    )
    return {
        "finish": choice.finish_reason,
        "name": call.function.name,
        "arguments": json.loads(call.function.arguments),
        "text": second.choices[0].message.content,
    }


def client_tool_streamed():
    with client.chat.completions.stream(
        model="demo", messages=WEATHER, tools=[WEATHER_TOOL]
    ) as stream:
        choice = stream.get_final_completion().choices[0]
    call = choice.message.tool_calls[0]
    return {
        "finish": choice.finish_reason,
        "name": call.function.name,
        "arguments": json.loads(call.function.arguments),
    }


class Summary(BaseModel):
    title: str
    lines: int


def structured():
    completion = client.chat.completions.parse(
        model="demo", messages=READ, response_format=Summary
    )
    with client.chat.completions.stream(
        model="demo", messages=READ, response_format=Summary
    ) as stream:
        final = stream.get_final_completion()
    parsed = [it.choices[0].message.parsed.model_dump() for it in (completion, final)]
    return {"unstreamed": parsed[0], "streamed": parsed[1]}


def extension():
    completion = client.chat.completions.create(
        model="demo", messages=READ, extra_body={"toolhand": {"progress": "none", "max_rounds": 5}}
    )
    return completion.model_extra["toolhand"]


def unknown_model():
    try:
        client.chat.completions.create(model="no-such-model", messages=READ)
    except NotFoundError as error:
        return {"status": error.status_code, "code": error.code}


async def async_unstreamed():
    completion = await asynchronous.chat.completions.create(model="demo", messages=READ)
    return {"text": completion.choices[0].message.content}


async def async_helper():
    async with asynchronous.chat.completions.stream(model="demo", messages=READ) as stream:
        async for _ in stream:
            pass
        completion = await stream.get_final_completion()
    return {"text": completion.choices[0].message.content}


async def asynchronously():
    return {"async": await async_unstreamed(), "async_helper": await async_helper()}


told = {
    "models": [model.id for model in client.models.list()],
    "unstreamed": unstreamed(),
    "streamed": streamed(),
    "helper": helper(),
    "cards": cards(),
    "client_tool": client_tool(),
    "client_tool_streamed": client_tool_streamed(),
    "structured": structured(),
    "extension": extension(),
    "unknown_model": unknown_model(),
    **asyncio.run(asynchronously()),
}
print(json.dumps(told))
