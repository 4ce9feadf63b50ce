"""Numbers that European states give to people and firms. Check digits are evidence: see `arithmetic`."""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Form, Rule, Severity
from trajlake.transforms.redact.rules.shapes import NUMBER, near, number, shaped, whole

EUROPE: Final[tuple[Rule, ...]] = (
    number(
        "gb-nhs",
        "UK National Health Service number",
        Form(
            r"(?<![A-Za-z0-9_])(?<![A-Za-z0-9][.\-])\d{3}([- ])\d{3}\1\d{4}(?![A-Za-z0-9_])(?![.\-][0-9])",
            ("stdnum:gb.nhs",),
            triggers=NUMBER,
        ),
        whole(r"\d{10}", "stdnum:gb.nhs", "varied", "not_epoch"),
        context=("nhs", "national health"),
        examples=("NHS 401-023-2137", "221 395 1837"),
        counterexamples=("401-023-2138",),
    ),
    number(
        "gb-nino",
        "UK national insurance number",
        shaped(
            r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", nocase=False
        ),
        context=("national insurance", "nino", "ni number"),
        examples=("NINO AB 12 34 56 C",),
        counterexamples=("GB 12 34 56 C",),
    ),
    number(
        "de-health-insurance",
        "German health insurance number (KVNR)",
        shaped(r"[A-Za-z]\d{9}", "kvnr", "varied"),
        context=("krankenkasse", "kvnr", "versicherten", "egk"),
        examples=("Krankenkasse KVNR: A123456780",),
        counterexamples=("A123456787", "A1234567890"),
    ),
    number(
        "de-id-card",
        "German identity card",
        whole(
            r"[CFGHJKLMNPRTVWXYZcfghjklmnprtvwxyz][0-9CFGHJKLMNPRTVWXYZcfghjklmnprtvwxyz]{7}\d",
            "icao",
            "varied",
            "has_digit",
        ),
        whole(r"[Tt]\d{8}"),
        context=("personalausweis", "ausweis", "identity card", "id card"),
        examples=("L01X00T44", "Personalausweis T22000129"),
        counterexamples=("L01X00T47", "T220001290"),
    ),
    number(
        "de-physician",
        "German physician number (LANR)",
        whole(r"\d{9}", "lanr"),
        context=("arztnummer", "lanr", "betriebsstätte"),
        severity=Severity.LOW,
        examples=("Arztnummer 987654401 auf dem Rezept.",),
        counterexamples=("234567601",),
    ),
    number(
        "de-tax-id",
        "German tax identification number",
        whole(r"[1-9]\d{10}", "mod_11_10"),
        near(r"\d{2} \d{3} \d{3} \d{3}", "mod_11_10"),
        context=("steuer", "idnr", "tin", "tax id"),
        examples=("Meine Steuer-ID: 36574261809.",),
        counterexamples=("12345678901",),
    ),
    number(
        "eu-vat",
        "VAT identification number of a member of the EU, with its country letters",
        shaped(
            r"(?:AT ?U\d{8}|BE ?[01]\d{9}|DK ?\d{8}|FI ?\d{8}|FR ?[0-9A-Z]{2} ?\d{9}|IE ?\d[0-9A-Z]\d{5}[A-Z]{1,2}"
            r"|IT ?\d{11}|LU ?\d{8}|NL ?\d{9}B\d{2}|PL ?\d{10}|PT ?\d{9}|SE ?\d{10}01|ES ?[A-Z0-9]\d{7}[A-Z0-9])",
            "stdnum:eu.vat",
        ),
        Form(
            r"(?<![A-Za-z0-9_])[Dd][Ee][-. ]?[1-9]\d{2}[-. ]?\d{3}[-. ]?\d{3}(?![A-Za-z0-9_])(?![.\-][0-9])",
            ("stdnum:de.vat",),
            triggers=NUMBER,
        ),
        near(r"[Dd][Ee][-. ]?[1-9]\d{2}[-. ]?\d{3}[-. ]?\d{3}"),
        context=("vat", "ust-id", "ustid", "umsatzsteuer", "tva", "iva"),
        severity=Severity.LOW,
        examples=("Rechnung USt-IdNr. DE 136 695 976 von Beispiel GmbH",),
        counterexamples=("DE12345678", "DE000000000", "DE123456789"),
    ),
    number(
        "es-nif",
        "Spanish identity numbers of citizens and foreigners",
        shaped(r"[XYZxyz]-?\d{7}-?[A-Za-z]", "stdnum:es.nie"),
        shaped(r"\d{8}-?[A-HJ-NP-TV-Za-hj-np-tv-z]", "stdnum:es.nif"),
        context=("nie", "nif", "dni"),
        examples=("Y8063915-Z", "DNI 54362315K"),
        counterexamples=("Y8063915Q", "W8063915Q"),
    ),
    number(
        "fi-hetu",
        "Finnish personal identity code",
        Form(r"(?<!\d)\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y](?![A-Za-z0-9_])", ("fi_hetu",), triggers=NUMBER),
        context=("hetu", "henkilötunnus"),
        examples=("henkilötunnus 131052-308T.",),
        counterexamples=("131052:308T", "111111-111A"),
    ),
    number(
        "it-fiscal-code",
        "Italian fiscal code",
        shaped(
            r"[A-Za-z]{6}[0-9LMNPQRSTUVlmnpqrstuv]{2}[A-EHLMPRSTa-ehlmprst][0-9LMNPQRSTUVlmnpqrstuv]{2}[A-Za-z]"
            r"[0-9LMNPQRSTUVlmnpqrstuv]{3}[A-Za-z]",
            "has_digit",
        ),
        context=("codice fiscale", "fiscal code"),
        examples=("RSSMRA85T10A562S",),
        counterexamples=("RSSMRA85Z10A562S",),
    ),
    number(
        "it-documents",
        "Italian driver's licence and VAT number",
        whole(r"[A-Z]{2}\d{7}[A-Z]|U1[BCDFGHLJKMNPRSTUWYXZ0-9]{7}[A-Z]"),
        whole(r"\d{11}", "stdnum:it.iva"),
        near(r"\d{8}_?\d{3}"),
        near(r"[A-Z]{2}\d{5}[A-Z]{2}|[A-Z]{2}\d{7}|\d{7}[A-Z]{2}", nocase=True),
        context=("patente", "partita iva", "p.iva", "license", "licence", "carta d'identità", "carta identità"),
        severity=Severity.MEDIUM,
        examples=("patente AA0123456B", "partita iva 01333550323"),
        counterexamples=("01333550324",),
    ),
    number(
        "se-organisation",
        "Swedish organisation number",
        shaped(r"(?:16)?\d{2}[2-9]\d{3}-\d{4}", "luhn_10"),
        near(r"(?:16)?\d{2}[2-9]\d{7}", "luhn_10"),
        context=("orgnr", "organisationsnummer"),
        severity=Severity.LOW,
        examples=("556703-7485 är vårt orgnummer.",),
        counterexamples=("556703-7486",),
    ),
    number(
        "se-personnummer",
        "Swedish personal identity number",
        shaped(r"(?:1[89]|20)?\d{6}[-+]\d{4}", "se_personnummer"),
        whole(r"(?:1[89]|20)\d{10}|\d{10}", "se_personnummer", "not_epoch"),
        context=("personnummer", "pnr"),
        severity=Severity.CRITICAL,
        examples=("871220-2384", "Here's my personnummer 200109022392."),
        counterexamples=("19001309-2393", "871220-2385"),
    ),
    number(
        "fr-nir",
        "French social security number",
        shaped(r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}", "stdnum:fr.nir"),
        context=("sécurité sociale", "nir", "numéro de sécu"),
        severity=Severity.CRITICAL,
        examples=("NIR 2 95 10 99 126 111 93",),
        counterexamples=("2 95 10 99 126 111 94",),
    ),
    number(
        "pl-pesel",
        "Polish PESEL",
        whole(r"\d{11}", "stdnum:pl.pesel"),
        context=("pesel",),
        severity=Severity.CRITICAL,
        examples=("PESEL 44051401359",),
        counterexamples=("44051401358",),
    ),
    number(
        "nl-bsn",
        "Dutch citizen service number",
        near(r"\d{8,9}", "stdnum:nl.bsn"),
        context=("bsn", "burgerservicenummer", "sofi"),
        severity=Severity.CRITICAL,
        examples=("BSN 111222333",),
        counterexamples=("111222333",),
    ),
)
