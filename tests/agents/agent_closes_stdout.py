"""An agent that closes its output and keeps running when it is prompted with `hush`."""

import json
import os
import sys
import time

for line in sys.stdin:
    request = json.loads(line)
    results = {
        "initialize": {"protocolVersion": 1},
        "session/new": {"sessionId": f"mute-{os.getpid()}"},
        "session/prompt": {"stopReason": "end_turn"},
    }
    if "hush" in json.dumps(request["params"].get("prompt", [])[-1:]):
        os.close(1)
        time.sleep(60)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}
    os.write(1, json.dumps(answer).encode() + b"\n")
