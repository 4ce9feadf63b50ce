"""What the deep scan looks for, and when a finding counts: the declared table of Presidio's entity types.

Landing has removed what its own rules find; this is a second look by somebody else's. It holds runs back, so it has to
be sure: a number whose only proof is one check digit (one in ten numbers has it) counts with a word of its kind near.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Sign(StrEnum):
    """What a text must have for a recognizer to be asked at all."""

    AT = "@"
    DIGITS = "digits"
    ANY = "any"


class Entity(NamedTuple):
    """An entity type: Presidio's name for it and the recognizers that find it.

    `alone`: a finding counts without a word of its kind near. `words`: such words beside the recognizer's own.
    `by_default`: looked for where setting `deep_scan_entities` names none.
    """

    name: str
    recognizers: tuple[str, ...]
    sign: Sign = Sign.DIGITS
    alone: bool = False
    words: tuple[str, ...] = ()
    by_default: bool = True


ENTITIES: Final = (
    Entity("EMAIL_ADDRESS", ("EmailRecognizer",), Sign.AT, alone=True),
    Entity("IBAN_CODE", ("IbanRecognizer",), alone=True),
    Entity("CRYPTO", ("CryptoRecognizer",), alone=True),
    Entity("PHONE_NUMBER", ("PhoneRecognizer",), words=("전화", "휴대폰", "핸드폰", "연락처")),
    Entity("CREDIT_CARD", ("CreditCardRecognizer",), words=("카드",)),
    Entity("IP_ADDRESS", ("IpRecognizer",)),
    Entity("US_SSN", ("UsSsnRecognizer",)),
    Entity("US_ITIN", ("UsItinRecognizer",)),
    Entity("US_PASSPORT", ("UsPassportRecognizer",)),
    Entity("US_BANK_NUMBER", ("UsBankRecognizer",)),
    Entity("US_DRIVER_LICENSE", ("UsLicenseRecognizer",), by_default=False),
    Entity("US_MBI", ("UsMbiRecognizer",)),
    Entity("MEDICAL_LICENSE", ("MedicalLicenseRecognizer",)),
    Entity("UK_NHS", ("NhsRecognizer",)),
    Entity("UK_NINO", ("UkNinoRecognizer",)),
    Entity("CA_SIN", ("CaSinRecognizer",)),
    Entity("ES_NIF", ("EsNifRecognizer",)),
    Entity("ES_NIE", ("EsNieRecognizer",)),
    Entity("IT_FISCAL_CODE", ("ItFiscalCodeRecognizer",), words=("codice", "fiscale")),
    Entity("PL_PESEL", ("PlPeselRecognizer",)),
    Entity("FI_PERSONAL_IDENTITY_CODE", ("FiPersonalIdentityCodeRecognizer",)),
    Entity("SE_PERSONNUMMER", ("SePersonnummerRecognizer",)),
    Entity("DE_TAX_ID", ("DeTaxIdRecognizer",)),
    Entity("DE_SOCIAL_SECURITY", ("DeSocialSecurityRecognizer",)),
    Entity("DE_ID_CARD", ("DeIdCardRecognizer",)),
    Entity("AU_TFN", ("AuTfnRecognizer",)),
    Entity("AU_MEDICARE", ("AuMedicareRecognizer",)),
    Entity("IN_AADHAAR", ("InAadhaarRecognizer",)),
    Entity("IN_PASSPORT", ("InPassportRecognizer",)),
    Entity("SG_NRIC_FIN", ("SgFinRecognizer",)),
    Entity("TH_TNIN", ("ThTninRecognizer",)),
    Entity("TR_NATIONAL_ID", ("TrNationalIdRecognizer",)),
    Entity("ZA_ID_NUMBER", ("ZaIdNumberRecognizer",)),
    Entity("KR_RRN", ("KrRrnRecognizer",), alone=True, words=("주민등록번호", "주민번호")),
    Entity("KR_FRN", ("KrFrnRecognizer",), alone=True),
    Entity("KR_BRN", ("KrBrnRecognizer",)),
    Entity("KR_PASSPORT", ("KrPassportRecognizer",)),
    Entity("KR_DRIVER_LICENSE", ("KrDriverLicenseRecognizer",)),
    Entity("URL", ("UrlRecognizer",), Sign.ANY, alone=True, by_default=False),
    Entity("MAC_ADDRESS", ("MacAddressRecognizer",), alone=True, by_default=False),
    Entity("DATE_TIME", ("DateRecognizer",), alone=True, by_default=False),
)
"""Those that patterns and checksums find."""

NAMED: Final = (
    Entity("PERSON", (), Sign.ANY, alone=True),
    Entity("LOCATION", (), Sign.ANY, alone=True),
    Entity("NRP", (), Sign.ANY, alone=True, by_default=False),
    Entity("ORGANIZATION", (), Sign.ANY, alone=True, by_default=False),
)
"""Those that only a model finds: setting `deep_scan_model`."""

BY_NAME: Final = {entity.name: entity for entity in (*ENTITIES, *NAMED)}


def chosen(names: list[str], *, with_model: bool) -> list[Entity]:
    """The entity types that are named, or those looked for by default; in the order of the table."""
    known = (*ENTITIES, *(NAMED if with_model else ()))
    return [entity for entity in known if (entity.name in names if names else entity.by_default)]
