from rekindle.transcript.id_registry import IdRegistry


def test_an_id_in_use_gets_a_suffix() -> None:
    ids = IdRegistry()
    assert ids.claim("tool", "a", 3) == "a"
    assert ids.claim("user", "a", 4) == "a"
    assert ids.claim("tool", "a", 5) == "a~5"


def test_released_ids_can_be_claimed_again() -> None:
    ids = IdRegistry()
    for name in ("a", "b", "c"):
        ids.claim("tool", name, 1)
    ids.retire("~x")
    ids.claim("tool", "d", 2)
    ids.release({("tool", "b"), ("tool", "d"), ("user", "a")})
    assert (ids.retired_ids, ids.suffix) == ({"a", "c"}, "~x")
    assert [ids.claim("tool", name, 9) for name in ("a", "b", "d")] == ["a~9", "b", "d"]
    assert ids.retired_ids == {"a", "c"}
