import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.capture.redact import redact_text, redact_turn
from neuralstream.types import Turn

RANDOM = random.Random(7)
LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"


def chars(alphabet, count):
    """A made-up value, so that no scanner takes this file for a leak."""
    return "".join(RANDOM.choices(alphabet, k=count))


def pem(kind, lines=12):
    """A key file of random letters."""
    body = "\n".join([*(chars(ALNUM + "+/", 64) for _ in range(lines)), chars(ALNUM, 22) + "=="])
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


SECRETS = {
    "aws": ("aws-key", "AKIA" + chars(string.ascii_uppercase + string.digits, 16)),
    "github": ("github-token", "ghp_" + chars(ALNUM, 36)),
    "github fine-grained": ("github-token", "github_pat_" + chars(ALNUM, 22) + "_" + chars(ALNUM, 59)),
    "gitlab": ("gitlab-token", "glpat-" + chars(ALNUM, 20)),
    "slack": ("slack-token", "xoxb-" + chars(string.digits, 12) + "-" + chars(LOWER, 24)),
    "slack app": ("slack-token", f"xapp-1-A{chars(string.digits, 10)}-{chars(string.digits, 13)}-{chars(HEX, 64)}"),
    "slack webhook": ("slack-token", "https://hooks.slack.com/services/T0AB1CD2E/B0AB1CD2E/" + chars(ALNUM, 24)),
    "stripe": ("stripe-key", "sk_live_" + chars(ALNUM, 24)),
    "stripe test": ("stripe-key", "sk_test_" + chars(ALNUM, 99)),
    "stripe webhook": ("stripe-key", "whsec_" + chars(ALNUM, 32)),
    "openai": ("openai-key", "sk-" + chars(ALNUM, 20) + "T3Blbk" + "FJ" + chars(ALNUM, 20)),
    "openai project": ("openai-key", "sk-proj-" + chars(ALNUM + "-_", 74) + "T3Blbk" + "FJ" + chars(ALNUM, 74)),
    "anthropic": ("anthropic-key", "sk-ant-api03-" + chars(ALNUM + "-_", 93) + "AA"),
    "anthropic oauth": ("anthropic-key", "sk-ant-oat01-" + chars(ALNUM, 95)),
    "openrouter": ("openrouter-key", "sk-or-v1-" + chars(HEX, 64)),
    "google": ("google-key", "AIza" + chars(ALNUM, 35)),
    "google oauth": ("google-secret", "GOCSPX-" + chars(ALNUM, 28)),
    "hugging face": ("huggingface-token", "hf_" + chars(LETTERS, 34)),
    "groq": ("groq-key", "gsk_" + chars(ALNUM, 52)),
    "npm": ("npm-token", "npm_" + chars(ALNUM, 36)),
    "pypi": ("pypi-token", "pypi-AgEIcHlwaS5vcmc" + chars(ALNUM, 90)),
    "discord": ("discord-token", f"M{chars(ALNUM, 23)}.{chars(ALNUM, 6)}.{chars(ALNUM, 27)}"),
    "telegram": ("telegram-token", chars("123456789", 9) + ":" + chars(ALNUM, 35)),
    "twilio": ("twilio-key", "SK" + chars(HEX, 32)),
    "sendgrid": ("sendgrid-key", f"SG.{chars(ALNUM, 22)}.{chars(ALNUM, 43)}"),
    "square": ("square-secret", "sq0csp-" + chars(ALNUM, 43)),
    "mailchimp": ("mailchimp-key", chars(HEX, 32) + "-us12"),
    "digitalocean": ("digitalocean-token", "dop_v1_" + chars(HEX, 64)),
    "shopify": ("shopify-token", "shpat_" + chars(HEX, 32)),
    "databricks": ("databricks-token", "dapi" + chars(HEX, 32)),
    "grafana": ("grafana-token", f"glsa_{chars(ALNUM, 32)}_{chars(HEX, 8)}"),
    "vault": ("vault-token", "hvs." + chars(ALNUM, 90)),
    "linear": ("linear-key", "lin_api_" + chars(ALNUM, 40)),
    "notion": ("notion-token", "ntn_" + chars(ALNUM, 46)),
    "docker": ("docker-token", "dckr_pat_" + chars(ALNUM, 27)),
    "jwt": ("jwt", f"eyJ{chars(ALNUM, 30)}.eyJ{chars(ALNUM, 60)}.{chars(ALNUM + '-_', 43)}"),
    "age": ("age-key", "AGE-SECRET-KEY-1" + chars("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "rsa": ("private-key", pem("RSA PRIVATE KEY")),
    "openssh": ("private-key", pem("OPENSSH PRIVATE KEY", 5)),
    "pkcs8": ("private-key", pem("PRIVATE KEY", 20)),
    "pgp": ("private-key", pem("PGP PRIVATE KEY BLOCK").replace("-----\n", "-----\nVersion: GnuPG v2\n\n", 1)),
    "key in json": ("private-key", pem("PRIVATE KEY").replace("\n", "\\n")),
    "indented key": ("private-key", pem("EC PRIVATE KEY", 3).replace("\n", "\n    ")),
}  # fmt: skip

IN_CONTEXT = {
    "aws secret": ("aws-key", "aws_secret_access_key = {}", chars(ALNUM + "/+", 40)),
    "azure": ("azure-key", "AccountName=x;AccountKey={};EndpointSuffix=core.net", chars(ALNUM + "+/", 86) + "=="),
    "npmrc": ("npm-token", "//registry.npmjs.org/:_authToken={}", "-".join(chars(HEX, n) for n in (8, 4, 4, 4, 12))),
    "bearer": ("bearer-token", 'curl -H "Authorization: Bearer {}" https://a.example', chars(ALNUM + "-_", 40)),
    "basic header": ("basic-auth", "Authorization: Basic {}", chars(ALNUM, 26) + "=="),
    "curl": ("basic-auth", "curl -s -u admin:{} https://a.example", "tr0ub4dor&3"),
    "redis url": ("url-password", "redis://:{}@cache:6379/0", "s3cr3tpw"),
    "postgres url": ("url-password", "postgresql://app:{}@db.internal:5432/app", "Xk29fj39dk"),
    "key cut off": ("private-key", "here: {}", pem("RSA PRIVATE KEY").rpartition("\n")[0]),
    "putty": ("private-key", "Private-Lines: 2\n{}", chars(ALNUM, 64) + "\n" + chars(ALNUM, 64)),
    "password": ("password", "password = {}", "hunter2"),
    "passwd": ("password", "the passwd: {} for staging", "Tr0ub4dor"),
    "quoted": ("password", 'db_password="{}"', "correcthorse"),
    "json": ("password", '{{"user": "bob", "password": "{}", "port": 6381}}', "swordfish"),
    "env": ("password", "export PGPASSWORD={}", "swordfish"),
    "flag": ("password", "mysql --password {} -h db", "s3cr3t!"),
    "said": ("password", "My password is {}.", "Blue42Horse"),
    "symbols": ("password", "Password: {}", "p@ss-w0rd!"),
    "api key": ("secret", "API_KEY={}", chars(ALNUM, 32)),
    "client secret": ("secret", "clientSecret: '{}'", chars(ALNUM + "~_", 40)),
    "uuid as a key": ("secret", "api-key: {}", "-".join(chars(HEX, n) for n in (8, 4, 4, 4, 12))),
}  # fmt: skip

INNOCENT = [
    "forward primer ACCAGGTCGACAAGACTGAG, reverse AKGATTACAGATTACAGATT",
    "",
    "commit 4f2d272" + chars(HEX, 33),
    "sha256:" + chars(HEX, 64) + " is the image's digest",
    "docker pull redis@sha256:" + chars(HEX, 64),
    "request id 550e8400-e29b-41d4-a716-446655440000",
    "Move redis to port 6381; 6379 stays for staging.",
    "see /home/anna/projects/secrets/README.md and ~/.ssh/id_ed25519.pub",
    "data:image/png;base64," + chars(ALNUM + "+/", 4000) + "==",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + chars(ALNUM, 43) + " anna@laptop",
    "password: the one Bob told you",
    "The password is case-sensitive and stored as base64.",
    "Passwords: at least 12 characters. The password is sha256-hashed.",
    "def login(user: str, password: str, token: Optional[str] = None) -> bool:",
    "password = get_password2(user)\npassword = os.environ['DB_PASSWORD']\ntoken = tokenizer.encode(text)",
    "token = color4.parse_one_component_value(input)",
    "client = Client(password=password, api_key=settings.api_key, token=cfg2.token)",
    'password: "${DB_PASSWORD}"\npassword: $DB_PASSWORD\napi_key: "<your-api-key>"\npassword="{{ vault_password }}"',
    '{"password": {"type": "string"}, "token": "string", "secret": "required"}',
    "max_tokens = 4096, pad_token = '[PAD]', token: 1700000000",
    "interface Login { password: string; secretKey: string | null }",
    "redis://localhost:6379/0, http://user@host/x:y, postgres://user:password@localhost/db, see https://a.b/c@d:e",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx and hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "A PEM file starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
    "-----BEGIN CERTIFICATE-----\n" + chars(ALNUM, 64) + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n" + chars(ALNUM, 64) + "\n-----END PUBLIC KEY-----",
    "secret: projects/123456789/secrets/prod-db/versions/3",
    "The secret of good coffee is: grind it fresh. Token of love: a rose.",
    "for token in tokens: key = token.lower(); cache_key = f'{token}:{i}'",
    "The bearer of this letter; bearer authentication; Bearer <token>",
    "primary key: user_id, sort key: created_at_2024_01_01",
    "npm i sk-learn-wrapper-for-typescript-and-friends-v2",
    "Sixty-four hex: " + chars(HEX, 64) + "; md5 " + chars(HEX, 32),
    'msgid "password"\nmsgstr "Passwort"\n{"password": "Passwort"}',
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS.values(), ids=SECRETS)
def test_secrets_of_known_services_are_replaced(kind, secret):
    """A secret in a known format is replaced wherever it stands, and nothing around it is touched."""
    for before, after in (("use ", " please"), ('x("', '")'), ("", "\n"), ("KEY=", ""), ("Key (", "), ok.")):
        assert redact_text(before + secret + after) == (f"{before}[redacted:{kind}]{after}", (kind,))


@pytest.mark.parametrize(("kind", "template", "secret"), IN_CONTEXT.values(), ids=IN_CONTEXT)
def test_values_are_secret_by_what_they_are_assigned_to(kind, template, secret):
    """A value is replaced because of the name, header or address it stands in; its surroundings stay."""
    redacted = redact_text(template.format(secret))
    expected = template.format(f"[redacted:{kind}]")
    assert redacted.text.rstrip(".") == expected.rstrip(".")
    assert redacted.kinds == (kind,)


@pytest.mark.parametrize("text", INNOCENT)
def test_innocent_text_is_not_touched(text):
    """Hashes, ids, paths, code, placeholders, images and prose about passwords stay as they are."""
    assert redact_text(text) == (text, ())


def test_a_text_with_many_secrets_loses_all_of_them():
    """Every secret of a long text goes, each kind is named once, and the rest of the text stays."""
    secrets = [secret for _, secret in SECRETS.values()]
    redacted = redact_text("\n\nthen\n\n".join(secrets * 2))
    assert not any(secret in redacted.text for secret in secrets)
    assert redacted.text.count("[redacted:") == 2 * len(secrets)
    assert len(redacted.kinds) == len(set(redacted.kinds)) == len({kind for kind, _ in SECRETS.values()})


def test_a_turn_is_redacted_part_by_part():
    """User, tool and assistant parts are redacted alike; a turn without secrets is returned as it is."""
    secret = SECRETS["github"][1]
    turn = Turn.exchange(f"use {secret}", f"Used {secret}.", session_id="s", tools=[f"login({secret})"])
    redacted = redact_turn(turn)
    assert secret not in redacted.turn.transcript
    assert redacted.kinds == ("github-token",)
    assert (redacted.turn.turn_id, redacted.turn.speakers) == (turn.turn_id, turn.speakers)
    clean = Turn.exchange("hello", "hi", session_id="s")
    assert redact_turn(clean).turn is clean


PIECES = st.sampled_from(
    [secret for _, secret in SECRETS.values()]
    + [template.format(secret) for _, template, secret in IN_CONTEXT.values()]
    + [
        "password",
        "=",
        ": ",
        '"',
        "token=",
        "[redacted:password]",
        "[redacted:",
        "]",
        " ",
        "\n",
        "is ",
        "://a:",
        "@",
        "a1",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_redacting_again_changes_nothing(text):
    """A redacted text holds nothing more to redact."""
    once = redact_text(text).text
    assert redact_text(once) == (once, ())


@pytest.mark.parametrize(
    "text",
    [
        " ".join(INNOCENT) * 3,
        chars(ALNUM + "-_.", 20_000),
        chars(ALNUM + "+/", 20_000),
        "password" * 2500,
        "-----BEGIN PRIVATE KEY-----\n" * 700,
        "-----BEGIN PRIVATE KEY-----\n" + (chars(ALNUM, 15) + "\n") * 1200,
        "curl -u " * 2500,
        "secret_key is " * 1500,
        "eyJ" * 6600,
        "a://a:" * 3300,
    ],
    ids=["prose", "words", "base64", "names", "headers", "short-lines", "curl", "assign", "jwt", "urls"],
)
def test_long_texts_take_time_in_proportion(text):
    """20 KB take a few milliseconds; the bound is wide because machines under test are busy."""
    text = text[:20_000]
    redact_text(text)
    start = time.process_time()
    redact_text(text)
    assert time.process_time() - start < 0.5
