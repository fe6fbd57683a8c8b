// Turns with the AI SDK as anyone would write them.
//
// usage: node ai.mjs BASE_URL KEY; prints one JSON object of what the SDK made of them.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({ name: "toolhand", baseURL, apiKey, includeUsage: true });
const model = openai.chat("demo");
const prompt = "read notes.txt";
const both = 'read notes.txt and call get_weather with {"city": "Oslo"}';
const schema = z.object({ title: z.string(), lines: z.number().int() });

// The client's tools, with the cities that they were called for.
function weather() {
  const cities = [];
  const get_weather = tool({
    description: "Tells the weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city);
      return `${city}: rain, 7 degrees`;
    },
  });
  return { cities, tools: { get_weather } };
}

async function unstreamed() {
  const { text, finishReason, usage, steps } = await generateText({ model, prompt, maxRetries: 0 });
  return { text, finish: finishReason, usage: usage.totalTokens, steps: steps.length };
}

async function streamed() {
  const result = streamText({ model, prompt, maxRetries: 0 });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  const usage = await result.usage;
  return { text, finish: await result.finishReason, usage: usage.totalTokens };
}

async function clientTool() {
  const { cities, tools } = weather();
  const settings = { model, prompt: both, tools, stopWhen: stepCountIs(5), maxRetries: 0 };
  const { text, steps } = await generateText(settings);
  return { text, cities, steps: steps.length };
}

async function clientToolStreamed() {
  const { cities, tools } = weather();
  const settings = { model, prompt: both, tools, stopWhen: stepCountIs(5), maxRetries: 0 };
  const result = streamText(settings);
  await result.consumeStream();
  return { text: await result.text, cities, steps: (await result.steps).length };
}

// The answer to both kinds of tools, and what the next request's model sees of it.
async function mixedMemory() {
  const { cities, tools } = weather();
  const settings = { model, tools, stopWhen: stepCountIs(5), maxRetries: 0 };
  const messages = [{ role: "user", content: both }];
  const first = await generateText({ ...settings, messages });
  messages.push(...first.response.messages, { role: "user", content: "recall" });
  const { text } = await generateText({ ...settings, messages });
  const sessions = first.steps.map(({ response }) => response.headers["x-toolhand-session"]);
  return { text, cities, sessions };
}

async function structured() {
  const { output } = await generateText({
    model,
    prompt,
    output: Output.object({ schema }),
    maxRetries: 0,
  });
  const { object } = await generateObject({ model, prompt, schema, maxRetries: 0 });
  const { fullStream, output: streamedOutput } = streamText({
    model,
    prompt,
    output: Output.object({ schema }),
    maxRetries: 0,
  });
  for await (const _ of fullStream);
  return { output, object, streamed: await streamedOutput };
}

async function reasoning() {
  const result = streamText({ model: compatible("demo"), prompt, maxRetries: 0 });
  let lines = "";
  for await (const part of result.fullStream) {
    if (part.type === "reasoning-delta") lines += part.text;
  }
  return { lines, text: await result.text };
}

async function responses() {
  try {
    await generateText({ model: openai("demo"), prompt, maxRetries: 0 });
  } catch (error) {
    return { status: error.statusCode, message: error.message };
  }
}

console.log(
  JSON.stringify({
    unstreamed: await unstreamed(),
    streamed: await streamed(),
    client_tool: await clientTool(),
    client_tool_streamed: await clientToolStreamed(),
    mixed_memory: await mixedMemory(),
    structured: await structured(),
    reasoning: await reasoning(),
    responses: await responses(),
  }),
);
