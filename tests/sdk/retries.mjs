// One unstreamed turn with each client, with the retries that it has by default.
//
// usage: node retries.mjs CLIENT BASE_URL KEY; prints what the client's error says.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { generateText } from "ai";
import OpenAI from "openai";

const [client, baseURL, apiKey] = process.argv.slice(2);
const model = "scripted";
const prompt = "Mark.";

const clients = {
  openai: () =>
    new OpenAI({ baseURL, apiKey }).chat.completions.create({
      model,
      messages: [{ role: "user", content: prompt }],
    }),
  ai: () => generateText({ model: createOpenAI({ baseURL, apiKey }).chat(model), prompt }),
  ai_compatible: () =>
    generateText({
      model: createOpenAICompatible({ name: "toolhand", baseURL, apiKey })(model),
      prompt,
    }),
  langchain: () => new ChatOpenAI({ model, apiKey, configuration: { baseURL } }).invoke(prompt),
};

try {
  await clients[client]();
  console.log(JSON.stringify({ status: 200 }));
} catch (error) {
  console.log(JSON.stringify({ status: error.status ?? error.statusCode ?? null }));
}
