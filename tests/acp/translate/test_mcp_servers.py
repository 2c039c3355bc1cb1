from rekindle.acp.translate.mcp_servers import servers_to_v1, servers_to_v2


def test_servers_are_translated_both_ways() -> None:
    stdio = {"name": "a", "command": "/a", "args": [], "env": []}
    http = {"type": "http", "name": "b", "url": "u", "headers": []}
    assert servers_to_v2([stdio, http]) == [{"type": "stdio", **stdio}, http]
    bare = [
        {"type": "stdio", "name": "a", "command": "/a"},
        {"type": "http", "name": "b", "url": "u"},
    ]
    assert servers_to_v1(bare) == [stdio, http]
