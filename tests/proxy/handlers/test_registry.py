from rekindle.acp import methods
from rekindle.proxy.handlers.registry import HANDLERS, HANDLERS_V2


def test_every_method_of_the_lifecycle_has_a_handler() -> None:
    assert (
        {*HANDLERS}
        == {*HANDLERS_V2}
        == (methods.LIFECYCLE | methods.HOST_METHODS | {methods.INITIALIZE})
    )


def test_only_resume_differs_in_version_2() -> None:
    differing = {method for method in HANDLERS if HANDLERS[method] is not HANDLERS_V2[method]}
    assert differing == {methods.RESUME}
