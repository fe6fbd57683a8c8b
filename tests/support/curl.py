#!/usr/bin/env python3
"""Stands in for curl where there is none: the options of the commands that we print.

An option that it does not know is an error, so that no test passes by leaving it out.
"""

import sys
import urllib.error
import urllib.request

FLAGS = {"-s", "-S", "-sS", "-N", "-sN", "-sSN", "--no-buffer", "--silent", "--show-error"}
DATA = {"-d", "--data", "--data-raw"}


def parse(arguments):
    url, headers, data = None, {}, None
    arguments = iter(arguments)
    for argument in arguments:
        if argument in FLAGS:
            continue
        if argument in {"-H", "--header"}:
            name, _, value = next(arguments).partition(":")
            headers[name.strip()] = value.strip()
        elif argument in DATA:
            data = next(arguments).encode()
        elif argument.startswith("-") or url is not None:
            sys.exit(f"curl.py: {argument} is not known here")
        else:
            url = argument if "://" in argument else f"http://{argument}"
    return urllib.request.Request(url, data=data, headers=headers)


try:
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        parse(sys.argv[1:])
    )
except urllib.error.HTTPError as refusal:
    answer = refusal
except OSError as error:
    print(f"curl: (7) {error}", file=sys.stderr)
    sys.exit(7)
while piece := answer.read1():
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
