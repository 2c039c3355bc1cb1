import re

import pytest

from rekindle.text.redact.detect import mask
from rekindle.text.redact.service_keys import find_service_keys

HEX = "0123456789abcdef" * 12
MIXED = "aB3dE5gH7jK9mN1pQ3sT5vX7zA" * 8
UPPER = "A1B2C3D4E5F6G7H8J9K0" * 5


@pytest.mark.parametrize(
    ("prefix", "secret"),
    [
        ("A3-", f"{UPPER[:6]}-{UPPER[:11]}-{UPPER[:5]}-{UPPER[:5]}-{UPPER[:5]}"),
        ("ATATT3", MIXED[:186]),
        ("dapi", HEX[:32]),
        ("hvb.", MIXED[:150]),
        ("glsa_", f"{MIXED[:32]}_{HEX[:8]}"),
        ("lin_api_", MIXED[:40]),
        ("pscale_pw_", MIXED[:43]),
        ("NRAK-", UPPER[:27]),
        ("sntryu_", HEX[:64]),
        ("access-production-", "01234567-89ab-cdef-0123-456789abcdef"),
        ("ab78Q~", MIXED[:34]),
        ("1234567890123456|", MIXED[:27]),
    ],
)
@pytest.mark.parametrize("around", ["{}", 'x = "{}"', "A={}", "see {}, please", r"one\n{}"])
def test_a_key_of_a_service_is_masked(prefix: str, secret: str, around: str) -> None:
    assert mask(around.format(prefix + secret)) == around.format(f"{prefix}***")


def test_a_key_that_is_known_by_its_end_is_masked() -> None:
    assert mask(f"{MIXED[:6]}_{MIXED[:29]}_mmk") == f"{MIXED[:6]}_***_mmk"


@pytest.mark.parametrize(
    "text",
    [
        "the API-KEY and the SK path, a pat on the back, key-value pairs, access-control",
        f"task-SK{HEX[:31]} mySK{HEX[:32]} SK{HEX[:33]}",
        f"4b1d{HEX[:36]} is a commit, and sha256:{HEX[:64]} a digest",
        "| a | b |\n|---|---|\n| 123456789012345 | text |",
        "Q~ is no secret, t1.micro neither, and dp.example.com not either",
    ],
)
def test_ordinary_text_has_no_keys(text: str) -> None:
    assert list(find_service_keys(text)) == []


def test_the_cost_of_a_text_is_linear() -> None:
    text = "t1." + "a" * 100_000 + " EAA" * 20_000 + " fm2_" * 20_000
    assert list(find_service_keys(text)) == []
    assert re.search("t1", text)
