import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import rekindle
from rekindle.text.redact.detect import find_secrets, mask

BODY = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5kL7n"
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LINE = "MIIEowIBAAKCAQEA1234567890abcdef"
PEM = f"{BEGIN}\nMIIEpAIBAAKCAQEA0Z3VS5JJ\nq+/=abcd\n{END}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use sk-ant-api03-{BODY} now", "use sk-*** now"),
        (f"sk-proj-{BODY}", "sk-***"),
        (f"ghp_{BODY}", "ghp_***"),
        (f"gho_{BODY}, and", "gho_***, and"),
        (f"github_pat_{BODY}", "github_pat_***"),
        (f"glpat-{BODY[:20]}", "glpat-***"),
        ("AKIAIOSFODNN7EXAMPLE.", "AKIA***."),
        (f"xoxb-123456789012-{BODY}", "xoxb-***"),
        (f"xapp-1-{BODY}", "xapp-***"),
        (f"AIza{BODY[:35]}", "AIza***"),
        (f"ya29.{BODY}", "ya29.***"),
        (f"npm_{BODY[:36]}", "npm_***"),
        (f"hf_{BODY}", "hf_***"),
        (f"sk_live_{BODY}", "sk_live_***"),
        (f"SG.{BODY[:22]}.{BODY}", "SG.***"),
        (f"eyJ{BODY}.eyJ{BODY}.{BODY}", "eyJ***"),
        (f"curl -H 'Authorization: Bearer {BODY}'", "curl -H 'Authorization: Bearer ***'"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic ***"),
        (f'"authorization": "{BODY}"', '"authorization": "***"'),
        (f"bearer {BODY}", "bearer ***"),
        (f"export OPENAI_API_KEY={BODY}", "export OPENAI_API_KEY=***"),
        ('{"client_secret": "s3cr3t-value"}', '{"client_secret": "***"}'),
        ("password: hunter2hunter2", "password: ***"),
        ("DB_PASSWORD='correct4horse'", "DB_PASSWORD='***'"),
        ("access-key-id => abc12345", "access-key-id => ***"),
        ("postgres://bob:pa55@db/x", "postgres://bob:***@db/x"),
        ("redis://:swordfish@host:6379", "redis://:***@host:6379"),
        (PEM, f"{BEGIN}***\n{END}"),
        (f"{BEGIN}\n{PEM}", f"{BEGIN}\n{BEGIN}***\n{END}"),
        (f"{PEM}\n{PEM}".replace("\n", "\\n"), None),
        (PEM[:64] + " … (cut)", f"{BEGIN}*** … (cut)"),
        ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
        # By form, after any text.
        (f"\x1b[32mghp_{BODY}\x1b[0m", "\x1b[32mghp_***\x1b[0m"),
        (f"[1mghp_{BODY}", "[1mghp_***"),
        ("\x1b[1mAKIAIOSFODNN7EXAMPLE\x1b[0m", "\x1b[1mAKIA***\x1b[0m"),
        (f"\\u001b[31meyJ{BODY}.eyJ{BODY}", "\\u001b[31meyJ***"),
        (f"ghp_{BODY[:20]}\x1b[31m{BODY[20:]}\x1b[m", "ghp_***\x1b[m"),
        (f"\x1b]8;;https://u:{BODY}@h\x07x", "\x1b]8;;https://u:***@h\x07x"),
        (f"ghp_{BODY[:20]}\u200b{BODY[20:]}", "ghp_***"),
        (f'"log":"line\\nghp_{BODY}"', '"log":"line\\nghp_***"'),
        (f"x\\tsk-proj-{BODY}", "x\\tsk-***"),
        ("?id%3DAKIAIOSFODNN7EXAMPLE", "?id%3DAKIA***"),
        (f"k\\u003dAIza{BODY[:35]}", "k\\u003dAIza***"),
        (f"my_ghp_{BODY}", "my_ghp_***"),
        ("sk-or-v1-0123456789abcdef0123456789abcdef", "sk-***"),
        (f"whsec_{BODY}", "whsec_***"),
        (f"https://hooks.slack.com/services/T0/B0/{BODY}", "https://hooks.slack.com/services/***"),
        (f"110201543:AA{BODY[:33]}", "110201543:AA***"),
        (f"AKIAIOSFODNN7EXAMPLE,{AWS}", "AKIA***,***"),
        ("Bearer abcdefghijklmnopqrstuvwxyz", "Bearer ***"),
        ("Cookie: session=abcdef0123456789abcdef", "Cookie: session=***"),
        ("Set-Cookie: a=b; id=abcdef0123456789", "Set-Cookie: a=b; id=***"),
        # By name.
        ("\x1b[01;31m\x1b[KAPI_KEY\x1b[m\x1b[K=abcdef0123456789",
         "\x1b[01;31m\x1b[KAPI_KEY\x1b[m\x1b[K=***"),
        ('{\\"api_key\\":\\"abcdef0123456789\\"}', '{\\"api_key\\":\\"***\\"}'),
        ('{"name": "API_KEY", "value": "abcd1234efgh5678"}', '{"name": "API_KEY", "value": "***"}'),
        ('<add key="ApiKey" value="abcd1234efgh"/>', '<add key="ApiKey" value="***"/>'),
        ('["curl", "--token", "abcd1234efgh9999"]', '["curl", "--token", "***"]'),
        ("tool --token abcdef0123456789abcdef", "tool --token ***"),
        ("mysql --password hunter2hunter2", "mysql --password ***"),
        ("mysql --password 'hunter two'", "mysql --password '***'"),
        ("curl -u admin:hunter2hunter2 https://x.org", "curl -u admin:*** https://x.org"),
        (f"aws configure set aws_secret_access_key {AWS}",
         "aws configure set aws_secret_access_key ***"),
        ("machine x login me password hunter2hunter2", "machine x login me password ***"),
        ("the password is hunter2hunter2", "the password is ***"),
        ("DB_PASSWORD=correcthorsebatterystaple", "DB_PASSWORD=***"),
        ("DB_PASSWORD=correct-horse-battery", "DB_PASSWORD=***"),
        ("  password: correcthorse\n", "  password: ***\n"),
        ('"password": "SuperSecretPassword"', '"password": "***"'),
        ('"password": "12345678"', '"password": "***"'),
        ('password = "my secret pass 1"', 'password = "***"'),
        ('password: "correct horse battery staple"', 'password: "***"'),
        ('password="ab(cd1234ef"', 'password="***"'),
        ('password="ab\\"cd1234ef"', 'password="***"'),
        ('password="cut12345', 'password="***'),
        ("password=$ecret1234", "password=***"),
        ("password=S3cr3t!", "password=***"),
        ('if password == "hunter2hunter2":', 'if password == "***":'),
        ('os.environ["API_KEY"] = "abcd1234efgh"', 'os.environ["API_KEY"] = "***"'),
        ('token: str = "abcdefghijklmnop"', 'token: str = "***"'),
        (f"AWS_SECRET_ACCESS_KEY=/{AWS[1:]}", "AWS_SECRET_ACCESS_KEY=***"),
        (f"aws_secret_access_key = {AWS}", "aws_secret_access_key = ***"),
        (f"AccountName=a;AccountKey={BODY}==;", "AccountName=a;AccountKey=***;"),
        ("Server=x;Uid=y;Pwd=hunter2hunter2;", "Server=x;Uid=y;Pwd=***;"),
        ("HEROKU_API_KEY=01234567-89ab-cdef-0123-456789abcdef", "HEROKU_API_KEY=***"),
        ("passphrase: hunter2hunter2", "passphrase: ***"),
        ("x-api-key: abcdef0123456789", "x-api-key: ***"),
        ("?token=abcdef0123456789&x=1", "?token=***&x=1"),
        ("f(token=abcdef0123456789)", "f(token=***)"),
        ("<password>hunter2hunter2</password>", "<password>***</password>"),
        ("api_key:\n  abcdef0123456789", "api_key:\n  ***"),
        ("| API_KEY | abcdef0123456789 |", "| API_KEY | *** |"),
        ("**Token:** abcdef0123456789abcdef", "**Token:** ***"),
        ("token: `abcdef0123456789`", "token: `***`"),
        ("token=" + "ab1" * 200, "token=***"),
        # In addresses.
        ("postgres://u:$ecret99@host/db", "postgres://u:***@host/db"),
        ("postgres://u:pa@ss99word@host", "postgres://u:***@host"),
        ("postgres://u:pa/ss99word@host/db", "postgres://u:***@host/db"),
        ("https://oauth2:abcdef0123@gitlab.com/x", "https://oauth2:***@gitlab.com/x"),
        # In PEM form.
        (f"  {PEM}".replace("\n", "\n  "), f"  {BEGIN}***\n  {END}"),
        (f'"{PEM}"'.replace("\n", "\\n"), f'"{BEGIN}***\\n{END}"'),
        (f'"{PEM}"'.replace("\n", '\\n" +\n  "'), f'"{BEGIN}***\\n" +\n  "{END}"'),
        (f"     1\t{BEGIN}\n     2\t{LINE}\n     3\t{LINE}\n", f"     1\t{BEGIN}***\n"),
        (f"1:{BEGIN}\n2:{LINE}\n3:{LINE}\n4:{END}", f"1:{BEGIN}***\n4:{END}"),
        (f"+{BEGIN}\n+{LINE}\n+{LINE}\n", f"+{BEGIN}***\n"),
        (f"{BEGIN}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{LINE}\n", f"{BEGIN}***\n"),
        (f"{BEGIN}\n{LINE}\n-----END CERTIFICATE-----", f"{BEGIN}***\n-----END CERTIFICATE-----"),
    ],
)  # fmt: skip
def test_secrets_are_masked(text: str, shown: str | None) -> None:
    assert mask(text) == shown if shown is not None else "MIIE" not in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "commit 6f8d1b1c0e4fd655371b6a14f9097cd2cdffc82f",
        "550e8400-e29b-41d4-a716-446655440000",
        "sk-learn-and-other-long-words-with-dashes",
        "max_tokens=4096, token_count: 123456789",
        "the token: something, and its password: whatever",
        "api_key = os.environ['API_KEY_2']",
        "token = get_token2(session)",
        "API_KEY=${API_KEY_1}",
        "password=<your-password-1>",
        "secret_file: /etc/secrets/1.json",
        "Authorization: $AUTHORIZATION_1",
        "http://localhost:8080/@scope/package",
        "https://user:$PASSWORD@host",
        "git@github.com:owner/repository.git",
        "the bearer of good news arrived in the night",
        "AKIAIOSFODNN7EXAMPLEANDMORE, eyJust a word, ghp_short",
        "a tokenizer: unicode61",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA0Z3VS5JJ\n-----END CERTIFICATE-----",
        '{"url":"http://host:8080","mail":"me@x.org"}',
        'fetch("http://localhost:3000?email=a@b.com")',
        "http://localhost:4873?x=@scope/pkg",
        "ssh://git@host:22/x, redis://localhost:6379/0 and me@x.org",
        "https://user:password@host and https://u:<password>@host",
        f'if "{BEGIN}" in text:\n    return 1\n\ndef f():\n    x = "-----END CERTIFICATE-----"',
        f"{BEGIN}\n...\n{END}",
        "token = parser2.next_token",
        "token := lexer2.NextToken",
        "token = parser2next",
        "for(;;){tokenStart=i+1}}return result",
        "f(token=parser2next, x=1)",
        "password = form.password1",
        "credentials=service_account2.Credentials",
        "let secret: SecretString2021;",
        "  token: TokenV2Response;",
        "accessKey: CryptoKeyEd25519 | null",
        "token: HS256withRSA",
        "secretName: my-app-tls-v2",
        '"secretName": "my-app-tls-v2"',
        "private_key: keys/id_rsa_2048.pem",
        "tokens_per_s = total/elapsed_s2",
        "if token==TokenType.INT32:",
        'if token == "identifier":',
        'token = "identifier"',
        'token_range = "%d,%d-%d,%d:"',
        'class="sk-loading-spinner-container-v2-wrapper"',
        "sk-estimator-doc-link-v1-fitted-hover",
        "Authorization: authorizationHeader",
        "authorization: role-based-access",
        "Bearer authentication-scheme-rfc6750",
        "password: at-least-8-characters",
        "PWD=/home/someone/project2",
        '{"password": "Enter your password", "token": "Invalid token 1 of 2"}',
        '"api_key": "${API_KEY}", "token": "<your-token>", "secret": "xxxxxxxx"',
        'api_key="os.environ[\'KEY_1\']", token=f"{user}-{number1}"',
        'KEY = ("API_KEY_2", "TOKEN_1"), token="MY_TOKEN_1"',
        "use --token somehow, --password-file x1y2z3a4b5",
        "docker run -u 1000:1000; curl -u 100000:100000 x; curl -u $USER:$PASSWORD x",
        "Cookie: theme=dark-and-wonderful-mode; Cookie: a=1",
        '"max_tokens": "4096000000"',
        'token = "',
        'token="a\nb"',
    ],
)
def test_similar_texts_are_not_masked(text: str) -> None:
    assert mask(text) == text


def test_nested_secrets_are_masked_once() -> None:
    text = f"API_KEY=ghp_{BODY} and token={BODY}"
    assert mask(text) == "API_KEY=*** and token=***"
    assert find_secrets(text) == [(8, 12 + len(BODY)), (text.index("token=") + 6, len(text))]


PIECES = st.sampled_from(
    [
        "sk-", "ghp_", "eyJ", ".eyJ", "token=", "://", ":", "@", "bearer ", "-----BEGIN ",
        "PRIVATE KEY-----", "-----END ", "\n", " ", "-", "a", "A", "1", BODY, "=", '"', "\\n",
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5)).map("".join))
def test_the_rest_of_the_text_is_unchanged(text: str) -> None:
    end = 0
    for begin, after in find_secrets(text):
        assert end <= begin < after <= len(text)
        end = after
    hidden = mask(text)
    assert mask(hidden) == hidden
    if not find_secrets(text):
        assert hidden == text


KEYS = st.sampled_from(
    [
        f"ghp_{BODY}", f"sk-ant-api03-{BODY}", "AKIAIOSFODNN7EXAMPLE", f"xoxb-1234-{BODY}",
        f"eyJ{BODY}.eyJ{BODY}.{BODY}", f"whsec_{BODY}", f"glpat-{BODY}", f"AIza{BODY[:35]}",
        f"https://hooks.slack.com/services/T0/B0/{BODY}", f"{BEGIN}\n{LINE}\n{END}",
    ]
)  # fmt: skip
AROUND = st.sampled_from(
    [
        "", " ", "\n", "\t", '"', "'", "`", "=", ":", ",", ";", "(", ")", "[", "]", "{", "}", "<",
        ">", "|", "/", "&", "?", "\\n", "\\t", "\\r\\n", '\\"', "%3D", "%20", "\\u003d", "\\x3d",
        "\x1b[32m", "\x1b[0m", "\x1b[01;31m\x1b[K", "\\u001b[1m", "[31m", "\x1b]0;x\x07", "token=",
        "Bearer ", "--token ", '"password": "', "é", "…", "\u200b",
    ]
)  # fmt: skip


@given(AROUND, AROUND, KEYS, AROUND, st.text())
def test_a_key_is_masked_in_any_surroundings(
    first: str, before: str, key: str, after: str, rest: str
) -> None:
    hidden = mask(f"{first}{before}{key}{after} {rest}")
    for secret in (BODY[:20], "IOSFODNN7", LINE):
        assert secret not in hidden
    assert mask(hidden) == hidden


@pytest.mark.slow
def test_source_code_stays_readable() -> None:
    """Only values that the code itself calls secrets are masked."""
    tests = Path(__file__).parents[2]
    files = [*Path(rekindle.__file__).parent.rglob("*.py"), *tests.rglob("*.py")]
    full_of_secrets = {Path(__file__).name, "test_redact_transcript.py", "test_commands.py"}
    hidden = {
        text[begin:end]
        for file in files
        if file.name not in full_of_secrets and not {"node_modules", "fixtures"} & set(file.parts)
        for text in [file.read_text(encoding="utf-8")]
        for begin, end in find_secrets(text)
    }
    assert hidden <= {
        "hunter2-hunter2",
        "abcd1234efgh",
        "0123456789abcdefghijABCDEFGHIJ123456",
        "sk-0123456789abcdef0123",
        "sk-ant-api03-",
    }


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "piece",
    [
        "sk-", "-eyJ", "eyJaaaaaaaa.", "a-", "token", "token=", "password:a", "x://", "a:", "@",
        "-----BEGIN PRIVATE KEY-----", "-----BEGIN A A A ", "A" * 16 + "\\n", "bearer ", "SG.a",
        "authorization: ", "ghp_", "1a", " ", "key_", "-----BEGIN PRIVATE KEY-----" + "A" * 16,
        f"{BEGIN} ", "a", '"', "-----BEGIN ", "http://a:", 'token="', "token: a = ", "--token ",
        "token:\n ", "password is ", "-token-", "curl -u ", "Cookie: a=", "postgres://u:a/",
        "\x1b]", "\x1b[1m", "[1", "\\n", "token=a.", "password=a_A1",
        'password="a b\\"', f"{BEGIN}\n1:",
    ],
)  # fmt: skip
def test_masking_takes_linear_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    begin = time.process_time()
    mask(text)
    # Quadratic time would be minutes.
    assert time.process_time() - begin < 5
