from rekindle.proxy.flow import Refusal


def test_a_refusal_carries_the_error_of_the_response() -> None:
    refusal = Refusal(-32602, "wrong", {"field": "x"})
    assert str(refusal) == "wrong"
    assert (refusal.code, refusal.message, refusal.data) == (-32602, "wrong", {"field": "x"})
