"""An MCP server on standard input and output that does what the argument `do` of each call says.

Its arguments are a directory and its name. Each call that arrives is noted there by its argument
`n` before anything else happens, and each start by the name.
"""

import json
import os
import signal
import sys

directory, name = sys.argv[1:]
dies_next = os.path.join(directory, name + ".dies")
out = sys.stdout.buffer
held = []

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NOISE = "starting up…\n\0\n{}\n[]\n{\"half\": \n{\"jsonrpc\": \"1.0\"}\n"


def note(file, word):
    # One write in append mode: no other server's line is torn.
    log = os.open(os.path.join(directory, file), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, (word + "\n").encode())
    os.close(log)


def write(data):
    out.write(data)
    out.flush()


def line_of(message):
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"


def send(**message):
    write(line_of(message))


def text(words):
    return {"type": "text", "text": words}


def tools():
    schema = {"type": "object"}
    return [{"name": tool, "description": "Does it.", "inputSchema": schema} for tool in ("do", "see")]


def answer(call, n, *more, word="done", **members):
    return {"id": call, "result": {"content": [text(f"{word} {n}."), *more], **members}}


def foreign(call):
    return {"id": call, "result": {"content": [text("foreign")]}}


def call_tool(message):
    call, params = message["id"], message["params"]
    n, do = params["arguments"]["n"], params["arguments"]["do"]
    note("calls", str(n))
    if do == "answers":
        send(**answer(call, n))
    elif do == "late":
        held.append(answer(call, n))
    elif do == "twice":
        send(**answer(call, n))
        send(**foreign(call))
    elif do == "unknown_first":
        for unknown in (10**6 + n, "x", None, -1):
            send(**foreign(unknown))
        send(**answer(call, n))
    elif do == "refuses":
        send(id=call, error={"code": -32000, "message": f"refused {n}."})
    elif do == "fails":
        send(**answer(call, n, word="failed", isError=True))
    elif do == "progress":
        token = params["_meta"]["progressToken"]
        for step in range(30):
            about = {"progressToken": token, "progress": step, "message": "step"}
            send(method="notifications/progress", params=about)
        send(method="notifications/progress", params={"progressToken": "x", "progress": 1})
        send(**answer(call, n))
    elif do == "list_changed":
        send(method="notifications/tools/list_changed")
        send(**answer(call, n))
    elif do == "never":
        pass
    elif do == "exits":
        os._exit(n % 100)
    elif do == "is_killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif do == "dies_twice":
        open(dies_next, "w").close()
        os._exit(1)
    elif do == "answers_and_exits":
        send(**answer(call, n))
        os._exit(0)
    elif do == "noise":
        write(NOISE.encode() * 10 + b"\xff\xfe\n")
        send(**answer(call, n))
    elif do == "long_line":
        write(line_of(answer(call, n))[:-10])
        for _ in range(100):
            write(b"x" * 2**20)
        write(b"\n")
    elif do == "half_line":
        write(line_of(answer(call, n))[:-10])
        os._exit(0)
    elif do == "floods_stderr":
        for _ in range(64):
            sys.stderr.write("x" * 2**15 + "\n")
        send(**answer(call, n))
    elif do == "asks":
        for method in ("sampling/createMessage", "roots/list", "elicitation/create"):
            asked = {"messages": [], "maxTokens": 1, "message": "?", "requestedSchema": {}}
            send(id=f"{method}{n}", method=method, params=asked)
        send(**answer(call, n))
    elif do == "split_text":
        for byte in line_of(answer(call, n, text("äöü 漢字 🙂"))):
            write(bytes([byte]))
    elif do == "picture":
        send(**answer(call, n, {"type": "image", "data": PICTURE, "mimeType": "image/png"}))
    elif do == "blob":
        blob = {"uri": "x://blob", "mimeType": "application/x-blob", "blob": "QUJD" * 2**18}
        send(**answer(call, n, {"type": "resource", "resource": blob}))
    elif do == "long_text":
        send(**answer(call, n, text("line of it\n" * 2**18)))
    elif do == "malformed":
        send(id=call, result={"content": 5})
    else:
        raise ValueError(do)


note("starts", name)
for line in sys.stdin:
    message = json.loads(line)
    while held:
        send(**held.pop())
    method = message.get("method")
    if method == "initialize":
        send(id=message["id"], result={
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": name, "version": "1"},
        })
    elif method == "tools/list":
        if os.path.exists(dies_next):
            os.remove(dies_next)
            os._exit(3)
        send(id=message["id"], result={"tools": tools()})
    elif method == "tools/call":
        call_tool(message)
