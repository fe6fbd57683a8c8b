"""An MCP server on standard input and output: `echo` answers at once, `wait` after 100 ms, whatever
else goes on. The argument is how many tools it has, or `hang`: it answers nothing.
"""

import json
import sys
import threading

argument = sys.argv[1]
if argument == "hang":
    sys.stdin.read()
    sys.exit()

lock = threading.Lock()
names = ["echo", "wait"] + [f"tool_{number}" for number in range(int(argument) - 2)]
schema = {"type": "object", "properties": {"text": {"type": "string"}}}
described = "Does what its name says, to the text that it is given."
tools = [{"name": name, "description": described, "inputSchema": schema} for name in names]


def answer(request, result):
    text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"name": "bench", "version": "1"}
        capabilities = {"tools": {}}
        answer(message, {
            "protocolVersion": version, "capabilities": capabilities, "serverInfo": about,
        })
    elif method == "tools/list":
        answer(message, {"tools": tools})
    elif method == "tools/call":
        content = {"content": [{"type": "text", "text": "done"}]}
        if message["params"]["name"] == "wait":
            threading.Timer(0.1, answer, (message, content)).start()
        else:
            answer(message, content)
