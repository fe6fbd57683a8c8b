"""Turns with the OpenAI Agents SDK as anyone would write them.

usage: agents_sdk.py BASE_URL KEY; prints one JSON object of what the SDK made of them.
"""

import asyncio
import json
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI, NotFoundError
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

set_tracing_disabled(True)

base_url, key = sys.argv[1:]
client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
model = OpenAIChatCompletionsModel(model="demo", openai_client=client)
cities = []

READ = "read notes.txt"
BOTH = 'read notes.txt and call get_weather with {"city": "Oslo"}'


class Summary(BaseModel):
    title: str
    lines: int


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    cities.append(city)
    return f"{city}: rain, 7 degrees"


def kinds(result):
    return [item.type for item in result.new_items]


async def answer():
    result = await Runner.run(Agent(name="Assistant", model=model), READ)
    usage = result.context_wrapper.usage
    return {"text": result.final_output, "kinds": kinds(result), "usage": usage.total_tokens}


async def streamed():
    result, text = Runner.run_streamed(Agent(name="Assistant", model=model), READ), ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            text += event.data.delta
    return {"text": text, "final": result.final_output}


async def tool():
    agent = Agent(name="Assistant", model=model, tools=[get_weather])
    cities.clear()
    result = await Runner.run(agent, BOTH)
    return {"text": result.final_output, "cities": list(cities), "kinds": kinds(result)}


async def tool_streamed():
    agent = Agent(name="Assistant", model=model, tools=[get_weather])
    cities.clear()
    result = Runner.run_streamed(agent, BOTH)
    async for _ in result.stream_events():
        pass
    return {"text": result.final_output, "cities": list(cities), "kinds": kinds(result)}


async def structured():
    agent = Agent(name="Assistant", model=model, output_type=Summary)
    result = await Runner.run(agent, READ)
    return result.final_output.model_dump()


async def handoff():
    reader = Agent(name="Reader", model=model, handoff_description="Reads files.")
    agent = Agent(name="Assistant", model=model, handoffs=[reader])
    result = await Runner.run(agent, "call transfer_to_reader with {}")
    return {"last": result.last_agent.name, "kinds": kinds(result)}


async def responses():
    try:
        await client.responses.create(model="demo", input=READ)
    except NotFoundError as error:
        return {"status": error.status_code, "message": error.message}


async def main():
    return {
        "answer": await answer(),
        "streamed": await streamed(),
        "tool": await tool(),
        "tool_streamed": await tool_streamed(),
        "structured": await structured(),
        "handoff": await handoff(),
        "responses": await responses(),
    }


print(json.dumps(asyncio.run(main())))
