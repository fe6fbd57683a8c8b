"""One unstreamed turn with each client, with the retries that it has by default.

usage: python retries.py CLIENT BASE_URL KEY; prints what the client's error says.
"""

import json
import sys

import openai
from langchain_openai import ChatOpenAI

CLIENT, BASE_URL, KEY = sys.argv[1:]
MODEL = "scripted"
PROMPT = "Mark."


def ask_openai():
    client = openai.OpenAI(base_url=BASE_URL, api_key=KEY)
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": PROMPT}])


def ask_langchain():
    ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=KEY).invoke(PROMPT)


CLIENTS = {"openai": ask_openai, "langchain": ask_langchain}

try:
    CLIENTS[CLIENT]()
    print(json.dumps({"status": 200}))
except openai.APIStatusError as error:
    print(json.dumps({"status": error.status_code}))
