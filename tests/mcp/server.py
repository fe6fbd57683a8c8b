"""An MCP server on standard input and output that does what its one argument says: JSON, or the
path of a file that holds it.

Members: `tools` (the list) or `pages`; `on_start`, `on_list`, `on_call`: what to do, a list of
actions; `calls`: the same by the name of the tool; `answers`: results by method; `log`: a file.
"""

import json
import os
import socket
import sys
import threading
import time

argument = sys.argv[1]


def read_script():
    if not argument.startswith("/"):
        return json.loads(argument)
    with open(argument) as file:
        return json.load(file)


script = read_script()
out = sys.stdout.buffer
calls = []


def send(message):
    out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    out.flush()


def log(word):
    if "log" in script:
        with open(script["log"], "a") as file:
            file.write(word + "\n")


def reach(aims):
    """What becomes of writing and reading files and of a connection."""
    attempts = {
        "write": lambda: open(aims["write"], "w").close(),
        "read": lambda: open(aims["read"]).close(),
        "connect": lambda: socket.create_connection(("127.0.0.1", aims["port"]), 5).close(),
    }
    outcomes = {}
    for what, attempt in attempts.items():
        try:
            attempt()
            outcomes[what] = "done"
        except OSError:
            outcomes[what] = "failed"
    return outcomes


def keep(directory):
    """Leaves a file in a directory, and says whether there was one."""
    mark = os.path.join(directory, "mark")
    os.makedirs(directory, exist_ok=True)
    was_there = os.path.exists(mark)
    open(mark, "w").close()
    return "kept it before" if was_there else "kept nothing before"


def act(actions, request):
    for action in actions:
        kind, value = next(iter(action.items()))
        if kind == "exit":
            sys.stdout.flush()
            os._exit(value)
        elif kind == "raw":
            out.write(value["text"].encode() * value.get("times", 1))
            out.flush()
        elif kind == "stderr":
            sys.stderr.write("x" * value)
        elif kind == "write":
            sys.stderr.write(value)
            sys.stderr.flush()
        elif kind == "keep":
            text = keep(os.environ[value])
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        elif kind == "kept":
            sys.stderr.write(keep(os.environ[value]))
            sys.stderr.flush()
            os._exit(1)
        elif kind == "send":
            send(value)
        elif kind == "progress":
            token = request["params"]["_meta"]["progressToken"]
            for n in range(value):
                params = {"progressToken": token, "progress": n, "total": value, "message": "step"}
                send({"method": "notifications/progress", "params": params})
                time.sleep(0.05)
        elif kind == "result":
            send({"id": request["id"], "result": value})
        elif kind == "error":
            send({"id": request["id"], "error": value})
        elif kind == "change":
            script["tools"] = value
            send({"method": "notifications/tools/list_changed"})
        elif kind == "reload":
            script.update(read_script())
            send({"method": "notifications/tools/list_changed"})
        elif kind == "env":
            text = os.environ.get(value, "unset")
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        elif kind == "echo":
            text = json.dumps(request["params"]["arguments"], sort_keys=True)
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        elif kind == "reach":
            text = " ".join(f"{what}:{outcome}" for what, outcome in reach(value).items())
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        elif kind == "set":
            script.update(value)
        elif kind == "read":
            # A pipe, which holds the server until somebody opens it for writing.
            with open(value) as gate:
                gate.read()
        elif kind == "late":
            send({"id": calls[-2], "result": value})
        elif kind == "pair":
            # Answers the call before with this one, whichever came first.
            if len(calls) % 2 == 0:
                for call in calls[-2:]:
                    send({"id": call, "result": value})
        elif kind == "hang":
            pass
        elif kind == "deaf":
            # It reads nothing any more; with `close` its input is closed.
            if value == "close":
                os.close(0)
            threading.Event().wait()


def page(cursor):
    pages = script.get("pages")
    if pages is None:
        return {"tools": script["tools"]}
    index = int(cursor or 0) % len(pages)
    return {"tools": pages[index], "nextCursor": str(index + 1)}


act(script.get("on_start", []), None)
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    log(method or json.dumps(message.get("error") or message.get("result")))
    if method == "initialize":
        if "on_initialize" in script:
            act(script["on_initialize"], message)
            continue
        capabilities = script.get("capabilities", {"tools": {"listChanged": True}})
        send({"id": message["id"], "result": {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1.2"},
            "instructions": script.get("instructions"),
        }})
    elif method == "tools/list":
        if "on_list" in script:
            act(script["on_list"], message)
        else:
            send({"id": message["id"], "result": page(message.get("params", {}).get("cursor"))})
    elif method == "tools/call":
        name = message["params"]["name"]
        calls.append(message["id"])
        act(script.get("calls", {}).get(name, script.get("on_call", [])), message)
    elif method in script.get("answers", {}):
        if script["answers"][method] == "never":
            continue
        send({"id": message["id"], "result": script["answers"][method]})
    elif method and "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
