// Turns with the OpenAI Node SDK as anyone would write them.
//
// usage: node turns.mjs BASE_URL KEY; prints one JSON object of what the SDK made of them.

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

const read = { model: "demo", messages: [{ role: "user", content: "read notes.txt" }] };
const weather = {
  model: "demo",
  messages: [{ role: "user", content: 'call get_weather with {"city": "Oslo"}' }],
  tools: [
    {
      type: "function",
      function: {
        name: "get_weather",
        parameters: { type: "object", properties: { city: { type: "string" } } },
      },
    },
  ],
};

async function unstreamed() {
  const completion = await client.chat.completions.create(read);
  const [choice] = completion.choices;
  return { text: choice.message.content, finish: choice.finish_reason };
}

async function streamed() {
  let text = "";
  let finish = null;
  const stream = await client.chat.completions.create({ ...read, stream: true });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { text, finish };
}

async function helper() {
  const runner = client.chat.completions.stream(read);
  const completion = await runner.finalChatCompletion();
  const [choice] = completion.choices;
  return { text: choice.message.content, finish: choice.finish_reason };
}

async function cards() {
  const items = [];
  const runner = client.chat.completions.stream({ ...read, toolhand: { progress: "cards" } });
  runner.on("chunk", (chunk) => chunk.item && items.push(chunk.item.type));
  const completion = await runner.finalChatCompletion();
  const [choice] = completion.choices;
  const { content: text, tool_calls: calls = null } = choice.message;
  return { text, finish: choice.finish_reason, calls, items };
}

// A question to the person, as an event or beside a card; the stream helper reads both.
async function asked(progress) {
  const messages = [{ role: "user", content: `write plum to of-node-${progress}.txt` }];
  const kinds = [];
  const request = () => ({ model: "demo", messages, toolhand: { progress, mode: "default" } });
  const runner = client.chat.completions.stream(request());
  runner.on("chunk", (chunk) => {
    const kind = chunk.choices[0]?.delta?.toolhand?.type ?? chunk.item?.type;
    if (kind) kinds.push(kind);
  });
  const { choices, toolhand } = await runner.finalChatCompletion();
  messages.push(choices[0].message, { role: "user", content: "1" });
  const second = await client.chat.completions.stream(request()).finalChatCompletion();
  return {
    kinds,
    finish: choices[0].finish_reason,
    calls: choices[0].message.tool_calls ?? null,
    asked: toolhand.asked,
    text: second.choices[0].message.content,
  };
}

async function clientTool() {
  const runner = client.chat.completions.stream(weather);
  const completion = await runner.finalChatCompletion();
  const [choice] = completion.choices;
  const [call] = choice.message.tool_calls;
  const answer = { role: "tool", tool_call_id: call.id, content: "rain, 7 degrees" };
  const second = await client.chat.completions.create({
    ...weather,
    messages: [...weather.messages, choice.message, answer],
  });
  return {
    finish: choice.finish_reason,
    name: call.function.name,
    arguments: JSON.parse(call.function.arguments),
    text: second.choices[0].message.content,
  };
}

async function structured() {
  const schema = z.object({ title: z.string(), lines: z.number().int() });
  const completion = await client.chat.completions.parse({
    ...read,
    response_format: zodResponseFormat(schema, "summary"),
  });
  return completion.choices[0].message.parsed;
}

async function wrongKey() {
  const stranger = new OpenAI({ baseURL, apiKey: "sk-wrong", maxRetries: 0 });
  try {
    await stranger.chat.completions.create(read);
  } catch (error) {
    return { status: error.status, code: error.code };
  }
}

console.log(
  JSON.stringify({
    unstreamed: await unstreamed(),
    streamed: await streamed(),
    helper: await helper(),
    cards: await cards(),
    asked: { events: await asked("events"), cards: await asked("cards") },
    client_tool: await clientTool(),
    structured: await structured(),
    wrong_key: await wrongKey(),
  }),
);
