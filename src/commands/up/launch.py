"""Runs a Python module for `toolhand up`, and ends when `up` ends, however it ends.

Standard input is a pipe that only `up` holds: it closes even when `up` is killed.
This process leads a group of its own, so its children end with it. Workers that it
forks watch the pipe themselves, so they end with `up` even when this process was killed.

First of all, the environment comes over that pipe: what a process is started with can
be read from outside for as long as it lives. 16 hexadecimal digits say how many bytes
there are; NAME=VALUE each, with a zero behind it.
"""

import os
import runpy
import signal
import sys
import threading


def end_with_parent(lifeline):
    while os.read(lifeline, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def read_exactly(count):
    whole = b""
    while len(whole) < count:
        piece = os.read(0, count - len(whole))
        if not piece:
            sys.exit(1)
        whole += piece
    return whole


for entry in read_exactly(int(read_exactly(16), 16)).split(b"\0"):
    name, _, value = entry.partition(b"=")
    if name:
        os.environb[name] = value

lifeline = os.dup(0)
nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.close(nothing)


def watch_lifeline():
    threading.Thread(target=end_with_parent, args=(lifeline,), daemon=True).start()


watch_lifeline()
# A forked process has no thread but the one that forked.
os.register_at_fork(after_in_child=watch_lifeline)

# What listens on loopback is not behind the proxy.
for name in ("NO_PROXY", "no_proxy"):
    others = os.environ.get(name)
    os.environ[name] = ",".join(filter(None, [others, "127.0.0.1", "localhost"]))

sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
