"""What the name of a field or variable says about its value: nothing, or how surely it is a secret.

A name is cut into words (`dbPassword2` → db, password). Its head, the last words, decides: `access_token` is a secret,
`token_count`, `max_tokens` and `tokenizer_id` are not.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Strength(IntEnum):
    """How much the value itself must still show."""

    NONE = 0
    WEAK = 1
    """`key`: the value must look drawn by a machine, and not be a plain hash."""
    TOKEN = 2
    """`token`, `signature`: the value must look drawn by a machine."""
    SECRET = 3
    """`api_key`, `secret`: the value must not be a plain word."""
    PASSWORD = 4
    """`password`: people choose words; anything but a placeholder counts."""
    CODE = 5
    """`pin`, `cvv`, `otp`: a few digits count."""


_SPLIT: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z\d]+|\d+|[A-Z]")

_PASSWORD: Final = frozenset(
    """password passwd passphrase passcode passwort kennwort pwd pw psw pword passwrd passw mdp motdepasse contrasena
    contraseña clave senha heslo hasło haslo wachtwoord lösenord losenord salasana parola sifre şifre пароль
    비밀번호 비번
    패스워드 암호 パスワード 密码 密碼 口令 sandi mnemonic""".split()
)
_SECRET: Final = frozenset(
    "secret secrets credential credentials apikey authorization bearer 인증키 비밀키 시크릿 秘密鍵".split()
)
_TOKEN: Final = frozenset(
    "token jwt signature sig auth authtoken pat sas hmac 토큰 トークン 令牌 cookie xsrf csrf".split()
)
_CODES: Final = frozenset("pin cvv cvc cvv2 cvc2 otp totp passcode 인증번호".split())
_KEY_KINDS: Final = frozenset(
    """api access secret private auth authentication encryption encrypt signing sign master account storage shared
    subscription service app application client server session admin deploy deployment license licence root ssh gpg pgp
    rsa aes hmac jwt webhook integration developer dev partner merchant wallet host function functions connection
    primary secondary""".split()
)
_NOT_KEYS: Final = frozenset(
    """public primary foreign cache partition sort row idempotency dedup dedupe object s3 file group hash index map
    unique composite translation i18n message routing sort order config metadata json dict field column lookup registry
    queue topic kafka record dataset bucket feature shard range press event hot arrow site publishable""".split()
)
_TAILS: Final = frozenset(
    """count counts type types id ids name names url urls uri uris endpoint endpoints path paths file files filename
    dir directory length len size limit limits max min budget usage used cost costs price prices expiry expires
    expiration expired ttl in at date time timeout age policy policies manager provider service services store storage
    field fields column columns label title hint placeholder required enabled disabled valid invalid status state
    strength regex pattern rule rules format prefix suffix version algorithm alg method methods mode scope scopes
    header headers ref reference refs var variable env arn rotation error errors message msg help description desc
    reset change changed text tokenizer class cls index idx position pos offset ratio rate per weight weights prob
    probs logprob logprobs embedding embeddings vocab list array map dict set stream source sources kind handler helper
    util utils generator factory validator response request server host port user username email owner issuer audience
    lifetime duration interval window strategy exchange introspection revocation last first flag flags option options
    setting settings bucket info details group groups role roles page number num location lookup exists check checker
    verified verification prompt input field1 policy_id note notes hash_algorithm attempts attempt try retries history
    manager_id schema spec""".split()
)
_BENIGN_BEFORE_TOKEN: Final = frozenset(
    """max min num n total prompt completion input output cached pad eos bos unk sep cls mask special next page
    continuation pagination first last prev previous stop sync cursor image audio reasoning per by each every non sub
    bpe word text added extra authenticity antiforgery unknown start end begin of new line newline think""".split()
)
_PLACEHOLDER_WORDS_BEFORE: Final = frozenset("mock dummy fake example sample placeholder non".split())


@lru_cache(maxsize=65536)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, lower case, camel case and digits cut apart; digits at the end are dropped."""
    words = [part.lower() for run in _SPLIT.findall(name) for part in _CAMEL.findall(run)]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return tuple(words)


_STAND_IN: Final = re.compile(r"\[(?:redacted:[a-z0-9][a-z0-9-]{1,40}|[a-z0-9][a-z0-9-]{1,40}:[a-p]{16})\]")


@lru_cache(maxsize=65536)
def strength_of(name: str) -> Strength:
    """How surely a field of this name holds a secret. Names longer than 120 characters say nothing, nor does what
    stands for something that was removed from a name."""
    if "[" in name:
        name = _STAND_IN.sub("", name)
    if len(name) > 120:
        return Strength.NONE
    words = words_of(name)
    if not words:
        return Strength.NONE
    if any(word in _PLACEHOLDER_WORDS_BEFORE for word in words[:-1]):
        return Strength.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "id":
        return Strength.SECRET if before == "secret" or words[-3:] == ("access", "key", "id") else Strength.NONE
    if (
        last
        in (
            "hash",
            "value",
            "val",
            "confirmation",
            "confirm",
            "plain",
            "plaintext",
            "raw",
            "string",
            "data",
            "current",
            "old",
            "encrypted",
        )
        and before
    ):
        inner = _head(before, words[-3] if len(words) > 2 else "", words[:-1])
        return inner if inner >= Strength.SECRET or last not in ("hash", "data", "string") else Strength.NONE
    if last in _TAILS:
        return Strength.NONE
    return _head(last, before, words)


def _head(last: str, before: str, words: tuple[str, ...]) -> Strength:
    if (
        last in _PASSWORD
        or (len(last) > 6 and last.endswith(("password", "passwd", "passphrase")))
        or last in ("dbpw", "dbpwd", "userpwd", "pgpass")
    ):
        return Strength.PASSWORD
    if last in _CODES and (
        before in ("", "code", "user", "card", "security", "account", "atm", "sim") or last != "pin"
    ):
        return Strength.CODE
    if last == "code" and before in (
        "pin",
        "cvv",
        "cvc",
        "otp",
        "mfa",
        "2fa",
        "totp",
        "verification",
        "security",
        "auth",
        "authorization",
        "sms",
    ):
        return Strength.CODE if before not in ("auth", "authorization") else Strength.TOKEN
    if last == "pass":
        return Strength.PASSWORD if before else Strength.SECRET
    if last in ("phrase",) and before in ("seed", "recovery", "pass", "mnemonic"):
        return Strength.PASSWORD
    if last == "word" and before == "pass":
        return Strength.PASSWORD
    if last in _SECRET or (
        len(last) > 6 and last.endswith(("secret", "apikey", "secretkey", "accesskey", "privatekey", "authkey"))
    ):
        return Strength.SECRET
    if (last == "base" and before == "key") or (last == "passe" and words[-3:] == ("mot", "de", "passe")):
        return Strength.SECRET
    if last == "key":
        if before in _NOT_KEYS:
            return Strength.NONE
        if before == "aes" or (before in _KEY_KINDS and not (before in ("primary", "secondary") and len(words) == 2)):
            return Strength.SECRET
        return Strength.WEAK
    if (last in _TOKEN and any(word in ("secret", "password") for word in words[:-1])) or words[-2:] == (
        "key",
        "material",
    ):
        return Strength.SECRET
    if last in _TOKEN or (len(last) > 7 and last.endswith("token")):
        if before in _BENIGN_BEFORE_TOKEN and last == "token":
            return Strength.NONE
        return Strength.TOKEN
    if (
        len(last) > 5
        and last.endswith("key")
        and last not in ("monkey", "turkey", "hockey", "whiskey", "jockey", "donkey", "hotkey", "pubkey", "publickey")
    ):
        return Strength.WEAK
    return Strength.NONE


_VALUE_NAMES: Final = frozenset(
    """value val values data content text plaintext plain raw current previous new old string secret default 0
    1""".split()
)


def passes_on(name: str) -> bool:
    """Whether a field inside a secret's object holds the secret itself: `{"password": {"value": …}}`."""
    return name.lower() in _VALUE_NAMES


NAME_FIELDS: Final = frozenset(
    "name key field label header variable var param parameter property id setting env".split()
)
"""Fields whose string names what the sibling in `VALUE_FIELDS` holds: `{"name": "DB_PASSWORD", "value": …}`."""
VALUE_FIELDS: Final = frozenset("value val values content secret data text defaultvalue default".split())
STREAM_FIELDS: Final = frozenset(
    "delta deltas chunk chunks partial partials partial_json fragment fragments piece pieces".split()
)
"""Fields that hold pieces of one text, in lists of objects."""
