"""Formats of secrets: those of detect-secrets, and those it does not know (yet).

detect-secrets is used for what it maintains, its formats; its scanner reads files line by line and would miss a private
key's body. Of its plugins, those are left out that take ordinary words or numbers for secrets (public IP addresses,
Artifactory, IBM). Our own rules carry where the format is documented; "gitleaks" stands for the rule of that name in
https://github.com/gitleaks/gitleaks/tree/master/cmd/generate/config/rules.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import NamedTuple

__all__ = ["SecretRule", "secret_rules"]


class SecretRule(NamedTuple):
    """A format.

    Attributes:
        kind: what `[redacted:kind]` says.
        pattern: finds it.
        group: the group of the pattern that is the secret; 0 is all of it.
        hints: lower-case strings of which a text that holds such a secret contains at least one.
    """

    kind: str
    pattern: re.Pattern[str]
    group: int
    hints: tuple[str, ...]


class _Plugin(NamedTuple):
    kind: str
    module: str
    name: str
    group: int
    hints: tuple[str, ...]


_PLUGINS = (
    _Plugin("aws-key", "aws", "AWSKeyDetector", -1, ("a3t", "abia", "acca", "akia", "asia", "aws")),
    _Plugin("github-token", "github_token", "GitHubTokenDetector", 0, ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _Plugin("gitlab-token", "gitlab_token", "GitLabTokenDetector", 0, ("gl", "gr1348941")),
    _Plugin("slack-token", "slack", "SlackDetector", 0, ("xox", "hooks.slack.com")),
    _Plugin("stripe-key", "stripe", "StripeDetector", 0, ("k_live_",)),
    _Plugin("openai-key", "openai", "OpenAIDetector", 0, ("sk-",)),
    _Plugin("pypi-token", "pypi_token", "PypiTokenDetector", 0, ("pypi-",)),
    _Plugin("discord-token", "discord", "DiscordBotTokenDetector", 0, (".",)),
    _Plugin("telegram-token", "telegram_token", "TelegramBotTokenDetector", 0, (":",)),
    _Plugin("twilio-key", "twilio", "TwilioKeyDetector", 0, ("ac", "sk")),
    _Plugin("sendgrid-key", "sendgrid", "SendGridDetector", 0, ("sg.",)),
    _Plugin("square-secret", "square_oauth", "SquareOAuthDetector", 0, ("sq0csp-",)),
    _Plugin("mailchimp-key", "mailchimp", "MailchimpDetector", 0, ("-us",)),
)

_BREAK = r"(?:\s|\\+[nr]|[\"',>|])*"
"""Between lines of a key: also escaped line breaks, and the quotes and marks of text that quotes it."""

_PRIVATE_KEY = (
    rf"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----{_BREAK}"
    rf"(?:[A-Za-z][\w-]*: [^\n\\]*{_BREAK})*"
    rf"(?:[A-Za-z0-9+/=]{{16,}}{_BREAK})+(?:(?:[A-Za-z0-9+/=]{{1,76}}{_BREAK}){{1,3}}(?=-----END))?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?"
)
"""Header, attributes, base64 lines (a key is often quoted cut off), and the footer where it is there."""

_OWN = (
    # https://docs.anthropic.com/en/api; gitleaks anthropic-*
    ("anthropic-key", r"sk-ant-[a-z]{2,8}\d\d-[\w-]{32,}", 0, ("sk-ant-",)),
    # gitleaks openai-api-key; without its "T3BlbkFJ", which newer keys of the same prefixes lack
    ("openai-key", r"sk-(?:proj|svcacct|admin|None)-[\w-]{32,}", 0, ("sk-",)),
    # https://openrouter.ai/docs/api-reference/authentication
    ("openrouter-key", r"sk-or-v1-[0-9a-f]{64}", 0, ("sk-or-",)),
    # gitleaks gcp-api-key; https://cloud.google.com/docs/authentication/api-keys
    ("google-key", r"AIza[\w-]{35}", 0, ("aiza",)),
    # https://developers.google.com/identity/protocols/oauth2
    ("google-secret", r"GOCSPX-[\w-]{28}", 0, ("gocspx-",)),
    # https://huggingface.co/docs/hub/security-tokens; gitleaks huggingface-access-token
    ("huggingface-token", r"(?:hf_|api_org_)[A-Za-z0-9]{34}", 0, ("hf_", "api_org_")),
    # gitleaks groq-api-key
    ("groq-key", r"gsk_[A-Za-z0-9]{52}", 0, ("gsk_",)),
    # https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/; gitleaks github-fine-grained-pat
    ("github-token", r"github_pat_\w{82}", 0, ("github_pat_",)),
    # https://docs.stripe.com/keys: restricted and test keys, webhook secrets
    (
        "stripe-key",
        r"(?:[sr]k_(?:live|test|prod)|whsec)_[A-Za-z0-9]{24,}",
        0,
        ("k_live_", "k_test_", "k_prod_", "whsec_"),
    ),
    # https://api.slack.com/concepts/token-types: app-level and configuration tokens
    ("slack-token", r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+|xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{40,}", 0, ("xapp-", "xoxe")),
    # https://docs.npmjs.com/about-access-tokens; gitleaks npm-access-token
    ("npm-token", r"npm_[A-Za-z0-9]{36}", 0, ("npm_",)),
    ("npm-token", r":_authToken=([A-Fa-f0-9-]{36})", 1, (":_authtoken=",)),
    # https://docs.digitalocean.com/reference/api/create-personal-access-token/
    ("digitalocean-token", r"do[opr]_v1_[a-f0-9]{64}", 0, ("_v1_",)),
    # gitleaks shopify-*
    ("shopify-token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", 0, ("shp",)),
    # gitleaks databricks-api-token
    ("databricks-token", r"dapi[a-f0-9]{32}(?:-\d)?", 0, ("dapi",)),
    # gitleaks grafana-service-account-token, grafana-cloud-api-token
    ("grafana-token", r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,3}", 0, ("glsa_", "glc_")),
    # https://developer.hashicorp.com/vault/docs/concepts/tokens
    ("vault-token", r"hv[sbr]\.[\w-]{24,}", 0, ("hvs.", "hvb.", "hvr.")),
    # gitleaks linear-api-key; https://developers.notion.com/changelog
    ("linear-key", r"lin_api_[A-Za-z0-9]{40}", 0, ("lin_api_",)),
    ("notion-token", r"ntn_[A-Za-z0-9]{40,}", 0, ("ntn_",)),
    # https://docs.docker.com/security/for-developers/access-tokens/
    ("docker-token", r"dckr_(?:pat|oat)_[\w-]{27,}", 0, ("dckr_",)),
    # https://learn.microsoft.com/azure/storage/common/storage-account-keys-manage: 64 bytes in base64
    ("azure-key", r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,86}={0,2})", 1, ("accountkey=", "accesskey=")),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html: 40 characters after their name
    ("aws-key", r"(?i:secret_?access_?key|aws_?secret)\W{1,6}([A-Za-z0-9/+]{40})", 1, ("secret",)),
    # RFC 7519: three base64url parts, the first two JSON objects
    ("jwt", r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}", 0, ("eyj",)),
    # https://github.com/C2SP/C2SP/blob/main/age.md
    ("age-key", r"AGE-(?:SECRET-KEY|PLUGIN-[A-Z0-9]+)-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58,}", 0, ("age-",)),
    # RFC 7468, OpenSSH PROTOCOL.key, RFC 4880
    ("private-key", _PRIVATE_KEY, 0, ("private key",)),
    # https://tartarus.org/~simon/putty-snapshots/htmldoc/AppendixC.html
    ("private-key", r"Private-Lines: \d+\s+((?:[A-Za-z0-9+/=]{16,}\s*)+)", 1, ("private-lines:",)),
    # RFC 6750 and RFC 7617
    ("bearer-token", r"(?i:bearer)[ \t]+(?=[^\s\"']*\d)([\w.~+/-]{16,}=*)", 1, ("bearer",)),
    ("basic-auth", r"(?i:authorization)[\"']?\s*[:=]\s*[\"']?(?i:basic)[ \t]+([A-Za-z0-9+/]{8,}={0,2})", 1, ("basic",)),
    # https://curl.se/docs/manpage.html#-u
    ("basic-auth", r"curl\s[^\n|;]{0,200}?(?:-u|--user)[ =]?[\"']?[^\s:\"'$]+:([^\s\"'$]{4,})", 1, ("curl",)),
)


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Every rule, those of a named service first."""
    rules = [
        SecretRule(plugin.kind, pattern, pattern.groups if plugin.group < 0 else plugin.group, plugin.hints)
        for plugin in _PLUGINS
        for pattern in getattr(import_module(f"detect_secrets.plugins.{plugin.module}"), plugin.name).denylist
    ]
    rules += [SecretRule(kind, re.compile(pattern), group, hints) for kind, pattern, group, hints in _OWN]
    return tuple(rules)
