"""An agent that is called as Claude Code's is, has every session, and notes what it hears."""

import json
import sys
from pathlib import Path

RESULTS = {
    "initialize": {
        "protocolVersion": 1,
        "agentInfo": {"name": "@vendor/claude-agent-acp", "version": "1"},
        "agentCapabilities": {"sessionCapabilities": {"resume": {}}},
    },
}

with Path(sys.argv[1]).open("w", encoding="utf-8") as heard:
    for line in sys.stdin:
        heard.write(line)
        heard.flush()
        message = json.loads(line)
        if "id" in message:
            result = RESULTS.get(message["method"], {})
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
            sys.stdout.write("\n")
            sys.stdout.flush()
