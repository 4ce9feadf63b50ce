"""Secrets by notation: names with values, headers, URLs, private keys, web tokens, password hashes."""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Form, Kind, Need, Rule, Severity
from trajlake.transforms.redact.rules.shapes import HEX, RANDOM, TOKEN_LEFT

CREDENTIALS: Final[tuple[Rule, ...]] = (
    Rule(
        id="private-key",
        finds="Private keys in PEM, PGP, SSH2 and PuTTY armour: whole, cut off, on one line, or one end of a split "
        "one; and base64 of their DER without any",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        finder="private_keys",
        forms=(
            Form(
                rf"{TOKEN_LEFT}(?:MII[A-Za-z0-9+/]{{3}}IBA(?:DA[A-Za-z]|DCC|AK[BC])|MI[GH][A-Za-z0-9+/]AgEA(?:MB|MIH)"
                r"|MHcCAQEEI|MI[GH][A-Za-z0-9+/]AgEBB[DE]|MC4CAQAwBQYDK2V[a-z]BCIEI)[A-Za-z0-9+/]{16,}"
                r"(?:[ \t]{0,8}\r?\n[ \t]{0,40}[A-Za-z0-9+/]{40,80}(?![A-Za-z0-9+/]))*"
                r"(?:[ \t]{0,8}\r?\n[ \t]{0,40}(?=[A-Za-z]{0,80}[0-9+/=])[A-Za-z0-9+/]{1,80}(?=={1,2}|\s|\Z))?={0,2}",
                triggers=(
                    r"MII[A-Za-z0-9+/]{3}IBA(?:DA|DC|AK)",
                    r"MI[GH][A-Za-z0-9+/]AgEA(?:MB|MI)",
                    r"MHcCAQEEI",
                    r"MI[GH][A-Za-z0-9+/]AgEBB[DE]",
                    r"MC4CAQAwBQYDK2V",
                ),
            ),
        ),
        triggers=(r"-{4,5} ?(?:BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY", r"Private-Lines:"),
        examples=(
            "-----BEGIN RSA " + "PRIVATE KEY-----\n" + RANDOM * 2 + "\n" + RANDOM + "\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN " + "PRIVATE KEY-----" + RANDOM * 2 + "-----END PRIVATE KEY-----",
        ),
        counterexamples=(
            "-----BEGIN PRIVATE KEY-----\nanything\n-----END PRIVATE KEY-----",
            "-----BEGIN CERTIFICATE-----\n" + RANDOM * 2 + "\n-----END CERTIFICATE-----",
        ),
    ),
    Rule(
        id="jwt",
        finds="JSON web tokens, signed, unsigned and encrypted",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                rf"{TOKEN_LEFT}ey[JI][A-Za-z0-9_-]{{10,4096}}\.(?:ey[JI][A-Za-z0-9_-]{{8,}}(?:\.[A-Za-z0-9_/+=-]*)?"
                rf"|[A-Za-z0-9_-]{{20,}}\.[A-Za-z0-9_/+=-]*)(?:\.[A-Za-z0-9_-]{{10,}}){{0,2}}"
            ),
            Form(
                rf"{TOKEN_LEFT}ey[A-Za-z0-9]{{17,4096}}\.ey[A-Za-z0-9/\\_-]{{17,16384}}\.[A-Za-z0-9/\\_-]{{10,}}={{0,2}}",
                triggers=(r"\.ey[A-Za-z0-9/\\_-]{8}",),
            ),
        ),
        examples=("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + RANDOM,),
        counterexamples=("eyJhbGciOiJIUzI1NiJ9", "eyeballs.eyelashes.eyebrows"),
    ),
    Rule(
        id="url-password",
        finds="Password in the user part of a URL, `@` in the password included",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        finder="url_passwords",
        triggers=("#url",),
        examples=("mysql://user:p@ss@w0rd@dbhost:3306/app", "https://cafeb4b3:d3adb33f@example.com/"),
        counterexamples=(
            "https://${username}:${password}@api.example.com/v1",
            "https://mailto:johnny@example.org",
            r"re.compile(r'^.*?://[^:]+:(.*?)@.*?$')",
            "git clone https://github.com/a/b",
            "http://localhost:8080/@scope/x",
        ),
    ),
    Rule(
        id="command-password",
        finds="Passwords among the arguments of commands and in SQL",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        finder="command_passwords",
        triggers=(
            r" -[uU] ?\\*[\"']?[^\s:\"'$\\]+:",
            r"\\[nt]-[uU] ?\\*[\"']?[^\s:\"'$\\]+:",
            r"[\n\t]-[uU] ?\\*[\"']?[^\s:\"'$\\]+:",
            r"--user[ =]",
            r"--proxy-user",
            r"--http-user",
            r"sshpass\s+-p",
            r"mysql[^\n|;&]*\s-p[^\s-]",
            r"login[^\n|;&]*\s-p[ =]",
            r"(?i:identified\s+(?:with|by|as)\s)",
            r"(?i:ConvertTo-SecureString)\s",
            r":(?:5432|5433|6432):[\w*-]{1,63}:",
        ),
        examples=(
            "curl -u admin:" + "s3cr3t-Pass https://x",
            "CREATE USER a IDENTIFIED BY 'hunter22'",
            "ConvertTo-SecureString '" + "hunter22' -AsPlainText -Force",
            "db.example.org:5432:app:bob:" + "hunter22",
        ),
        counterexamples=("docker run -u 1000:1000 x", "curl -u $USER:$PASS https://x", "ConvertTo-SecureString $plain"),
    ),
    Rule(
        id="bearer",
        finds="Credentials after Bearer or Basic",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        finder="bearers",
        triggers=("#bearer",),
        examples=("Bearer " + RANDOM,),
        counterexamples=("Bearer authentication-tokens", "Bearer ${MCP_KEY}", "Basic understanding of the code"),
    ),
    Rule(
        id="cookie",
        finds="Session cookies",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        finder="cookies",
        triggers=(
            r"(?i:cookie\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?[^\n\"\\]{0,400}=[^;,\s\"'\\]{8})",
            r"(?i:(?:SESSID|SESSIONID|_session|AWSALB|connect\.sid|li_at"
            r"|_session_id)(?:CORS)?=[A-Za-z0-9%+/._~:-]{12})",
            r"\bsid=[A-Za-z0-9%+/._~:-]{12}",
        ),
        examples=("Cookie: theme=dark; session=" + RANDOM, "JSESSIONID=" + HEX.upper()),
        counterexamples=("Cookie: theme=dark; lang=en-GB",),
    ),
    Rule(
        id="kubernetes-secret",
        finds="Values in manifests of kind Secret",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        finder="kubernetes_secrets",
        triggers=(r"(?i:kind\\*[\"']?:\s{0,3}\\*[\"']?secret\b)",),
        examples=("apiVersion: v1\nkind: Secret\ndata:\n  extra: YWRtaW46cGFzc3dvcmQ=\n",),
        counterexamples=(
            "kind: ExternalSecret\nspec:\n  data:\n    name: github_token\n",
            "kind: Secret\nmetadata:\n  name: x-sample-name\n",
        ),
    ),
    Rule(
        id="password-hash",
        finds="Password hashes in crypt and LDAP notation",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        forms=(
            Form(
                r"(?<![\w$])\$(?:1|2[abxy]?|3|5|6|7|y|gy|md5|sha1|apr1|argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d+)?"
                r"|bcrypt)(?:[,$][\w=,.-]{1,60}){0,3}\$[A-Za-z0-9./+=]{0,86}\$?\$?[A-Za-z0-9./+=]{13,128}(?![\w$])",
                ("real",),
                triggers=(
                    r"\$(?:1|2[abxy]|2|3|5|6|7|y|gy|md5|sha1|apr1|argon2id|argon2i|argon2d|scrypt|pbkdf2|bcrypt)"
                    r"(?:\$|,[A-Za-z]|-sha)",
                ),
            ),
            Form(r"(?<![\w*])\*[0-9A-F]{40}(?![\w*])", triggers=(r"\*[0-9A-F]{8}",)),
            Form(r"\{(?:SSHA|SHA|SMD5|MD5|CRYPT|SSHA256|SSHA512)\}[A-Za-z0-9+/=./$]{20,160}"),
        ),
        examples=(
            "$2b$12$" + RANDOM + RANDOM[:21],
            "$6$cjvUY6xnMEVNYUv6$" + RANDOM * 2 + RANDOM[:22],
            "{SSHA}" + RANDOM,
        ),
        counterexamples=("costs $5 and $6 more", "$1$2$3"),
    ),
    Rule(
        id="json-web-key",
        finds="Private members of JSON web keys",
        kind=Kind.CREDENTIAL,
        severity=Severity.CRITICAL,
        forms=(
            Form(
                r"[\"'](?:d|p|q|dp|dq|qi|k)[\"']\s{0,4}:\s{0,4}[\"']([A-Za-z0-9_-]{20,1400})={0,2}[\"']",
                ("entropy:3.0",),
                group=1,
                need=Need.CONTEXT,
                triggers=(r"\\*[\"']kty\\*[\"']",),
            ),
        ),
        context=("kty", "jwk", "oct", "rsa", "crv", "use", "alg", "kid", "dp", "dq", "qi"),
        examples=('{"kty": "oct", "k": "' + RANDOM * 2 + '"',),
        counterexamples=('{"k": "' + RANDOM + '"}', '{"kty": "RSA", "n": "' + RANDOM + '"'),
    ),
    Rule(
        id="windows-hash",
        finds="Windows password hashes as dumping tools print them",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        forms=(Form(r"(?<![0-9a-fA-F])[0-9a-fA-F]{32}:[0-9a-fA-F]{32}(?=:::)", triggers=(r":::",)),),
        examples=("Administrator:500:" + HEX + ":" + HEX + ":::",),
        counterexamples=("a:b:" + HEX,),
    ),
    Rule(
        id="echoed-secret",
        finds="A secret that an error message repeats",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        finder="echoed",
        triggers=(
            r"(?:Error|Exception|Failure|[Pp]anic)\b[^\n'\"`]{0,120}['\"`][^\s'\"`\\]{0,200}(?i:secret|passw(?:or)"
            r"?d|passphrase|token|api[_-]?key|credential)",
            r"(?:Error|Exception|Failure)\b[^\n'\"`]{0,80}(?i:secret|passw(?:or)?d|token|api[_ -]?key"
            r"|credential)[^\n'\"`]{0,60}['\"`][^\s'\"`\\]{20}",
        ),
        examples=("KeyError: 'super-secret-value-9981' while redacting",),
        counterexamples=("KeyError: 'token_count'", "ValueError: unknown field 'secret_name'"),
    ),
    Rule(
        id="assigned-secret",
        finds="A value whose name says that it is a secret, in code, configuration, markup, headers, tables and prose",
        kind=Kind.CREDENTIAL,
        severity=Severity.HIGH,
        finder="assigned",
        triggers=("#assigned",),
        examples=(
            'api_key = "' + HEX + '"',
            "DB_PASSWORD=" + "hunter2!",
            "<token>" + RANDOM + "</token>",
            '{"name": "db_password", "value": "' + RANDOM + '"}',
            "비밀번호: " + "hunter2!",
        ),
        counterexamples=(
            "MY_API_KEY=os.getenv('OPENAI_API_KEY')",
            "max_tokens=4096",
            "${{ secrets.DEPLOY_TOKEN }}",
            "Authorization: Bearer ${MCP_KEY}",
            "the password is incorrect",
            'password: "********"',
            "token_count: 12345678",
        ),
    ),
    Rule(
        id="cui-marking",
        finds="Marking of controlled unclassified information (US): the text around it must not be passed on",
        kind=Kind.CREDENTIAL,
        severity=Severity.LOW,
        forms=(Form(r"(?<![\w/])(?:CUI|CONTROLLED)//[A-Z][A-Z-]{1,30}(?:/{1,2}[A-Z][A-Z-]{1,30}){0,6}(?![\w/])"),),
        examples=("CUI//SP-CTI", "CONTROLLED//FEDCON"),
        counterexamples=("CUi//LkxXqXdG", "CUI is a word"),
    ),
)
