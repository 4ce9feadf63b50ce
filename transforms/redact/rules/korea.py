"""Korean numbers of people and businesses. Sources: Resident Registration Act, Immigration Act, Value-Added Tax Act,
Road Traffic Act, Passport Act, and the numbering plan of the Ministry of Science and ICT (area, mobile and 050x
numbers).
"""

from __future__ import annotations

from typing import Final

from trajlake.transforms.redact.model import Action, Form, Kind, Need, Rule, Severity
from trajlake.transforms.redact.rules.shapes import LEFT, NOT_A_PERSON, NUMBER, RIGHT, near, number, shaped, whole

_DATE: Final = r"\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_EDGE: Final = r"(?<![A-Za-z0-9_])(?<![0-9][.\-])"
_ODD_GAP: Final = r"(?:\s{0,3}[^\sA-Za-z0-9+*=]{1,2}\s{0,3}|\s{1,3})"
"""What people put between the halves of a number besides a hyphen: a slash, a colon, a middle dot, a new line."""

_GAP: Final = r"(?:[ \t]?[-.\u00b7/~][ \t]?|[ \t]{1,2})?"

RRN_WORDS: Final = (
    "주민",
    "rrn",
    "resident registration",
    "resident number",
    "jumin",
    "ssn",
    "resident_registration",
    "identity number",
)
FRN_WORDS: Final = ("외국인", "frn", "foreigner", "alien registration", "arc", "foreign registration", "등록번호")
BRN_WORDS: Final = (
    "사업자",
    "brn",
    "business number",
    "business registration",
    "businessnumber",
    "business_number",
    "biz no",
    "bizno",
    "biz_no",
    "business reg",
    "corp number",
)

KOREA: Final[tuple[Rule, ...]] = (
    number(
        "kr-rrn",
        "Korean resident registration number, with a hyphen, space or dot, or as 13 digits",
        Form(rf"{_EDGE}{_DATE}[ \t]?[-.~_][ \t]?[1-4]\d{{6}}(?![0-9A-Za-z_])(?!-\d)", ("rrn_dated",), triggers=NUMBER),
        Form(rf"{_EDGE}{_DATE}[ \t][1-4]\d{{6}}(?![0-9A-Za-z_])(?!-\d)", ("rrn_dated",), triggers=NUMBER),
        shaped(rf"{_DATE}[- \t]?[1-4]\d{{6}}", "rrn_checked", "not_epoch"),
        shaped(rf"{_DATE}{_ODD_GAP}[1-4]\d{{6}}", "rrn_checked"),
        whole(rf"{_DATE}[1-4]\d{{6}}", "rrn_dated", "not_epoch"),
        near(rf"{_DATE}[- \t]?[1-4]\d{{6}}"),
        near(rf"{_DATE}{_ODD_GAP}[1-4]\d{{6}}", "rrn_dated"),
        near(rf"\d\d[./]\d\d[./]\d\d{_ODD_GAP}[1-4]\d{{6}}", "rrn_dated"),
        near(rf"\d(?: \d){{5}}{_ODD_GAP}[1-4](?: ?\d){{6}}", "rrn_dated"),
        near(rf"{_DATE}{_ODD_GAP}[1-4](?: \d){{6}}", "rrn_dated"),
        context=RRN_WORDS,
        severity=Severity.CRITICAL,
        examples=("주민번호 900101-1234567", "900101 1234567", "주민등록번호: 9001011234567"),
        counterexamples=("901301-1234567", "2024-01 1234567", "build 1712012345678"),
    ),
    number(
        "kr-frn",
        "Korean foreigner registration number",
        Form(rf"{_EDGE}{_DATE}[ \t]?[-.~_][ \t]?[5-8]\d{{6}}(?![0-9A-Za-z_])(?!-\d)", ("rrn_dated",), triggers=NUMBER),
        Form(rf"{_EDGE}{_DATE}[ \t][5-8]\d{{6}}(?![0-9A-Za-z_])(?!-\d)", ("rrn_dated",), triggers=NUMBER),
        shaped(rf"{_DATE}[5-8]\d{{6}}", "rrn_checked", "not_epoch"),
        near(rf"{_DATE}{_ODD_GAP}[5-8]\d{{6}}", "rrn_dated"),
        whole(rf"{_DATE}[5-8]\d{{6}}", "rrn_dated", "not_epoch"),
        context=FRN_WORDS,
        severity=Severity.CRITICAL,
        examples=("외국인등록번호 911124-5678901", "911124-5678906"),
        counterexamples=("911324-5678901", "911124-9678901"),
    ),
    number(
        "kr-brn",
        "Korean business registration number: with hyphens when its check digit holds, else with a word for it",
        shaped(r"\d{3}-\d{2}-\d{5}", "brn"),
        near(r"\d{3}[- ]?\d{2}[- ]?\d{5}"),
        context=BRN_WORDS,
        severity=Severity.MEDIUM,
        examples=("123-45-67891", "사업자등록번호 220-81-62517", "사업자번호 1234567890"),
        counterexamples=("123-45-67890", "order 1234567891"),
    ),
    number(
        "kr-corporation",
        "Korean corporate registration number",
        near(r"\d{6}[- \t]?\d{7}"),
        context=("법인등록", "법인번호", "corporate registration", "corporation number"),
        severity=Severity.MEDIUM,
        examples=("법인등록번호 110111-0234567",),
        counterexamples=("제품번호 110191-9234567",),
    ),
    number(
        "kr-driver-licence",
        "Korean driver's licence number, by region code or by the region's name",
        shaped(r"(?:1[1-9]|2[0-8])-\d{2}-\d{6}-\d{2}"),
        Form(
            rf"(?:서울|부산|경기|강원|충북|충남|전북|전남|경북|경남|제주|대구|인천|광주|대전|울산)"
            rf"[ \t]?\d{{2}}[- \t]\d{{6}}[- \t]\d{{2}}{RIGHT}",
            triggers=NUMBER,
        ),
        near(r"(?:1[1-9]|2[0-8])[- \t]?\d{2}[- \t]?\d{6}[- \t]?\d{2}"),
        context=("면허", "driver", "licence", "license"),
        examples=("면허번호 11-23-456789-01", "서울 12-345678-90", "운전면허 112345678901"),
        counterexamples=("10-23-456789-01", "11-23-45678-01"),
    ),
    number(
        "kr-passport",
        "Korean passport number: new form by itself, old form with a word for it or as the whole string",
        shaped(r"[MSRODGmsrodg]\d{3}[A-Za-z]\d{4}"),
        whole(r"[MSRODGmsrodg]\d{8}"),
        near(r"[A-Z]{1,2}\d{7,8}"),
        context=("passport", "여권"),
        examples=("여권번호는 M789C1234입니다", "passport M12345678"),
        counterexamples=("M1234A567", "MM123A4567", "M123456789"),
    ),
    number(
        "kr-vehicle",
        "Korean vehicle plate",
        near(r"(?:[가-힣]{2})?\d{2,3} ?[가-힣] ?\d{4}"),
        context=("차량", "번호판", "차번호", "자동차", "vehicle", "plate"),
        severity=Severity.LOW,
        examples=("차량번호 12가 3456", "번호판 123하4567"),
        counterexamples=("자산 12조 5000",),
    ),
    number(
        "kr-bank-account",
        "Korean bank account, where the text says that it is one",
        near(r"\d{2,6}(?:-\d{1,6}){2,3}"),
        near(r"\d{10,14}"),
        context=("계좌", "입금", "은행", "예금주"),
        examples=("국민은행 계좌 123456-01-123456", "계좌번호: 110123456789"),
        counterexamples=("릴리스 2024-01-02",),
    ),
    Rule(
        id="kr-phone",
        finds="Korean telephone number: mobile, area, 050x and 070 numbers, at home and with +82",
        kind=Kind.PEOPLE,
        severity=Severity.HIGH,
        forms=(
            Form(rf"{LEFT}01[016789]{_GAP}\d{{3,4}}{_GAP}\d{{4}}{RIGHT}", triggers=NUMBER),
            Form(rf"{LEFT}01[016789]_\d{{3,4}}_\d{{4}}{RIGHT}", need=Need.CONTEXT, triggers=NUMBER),
            Form(
                rf"(?<![0-9A-Za-z_])(?:(?:\+|00)82[-. ]{{0,2}}|82[-. ]{{1,2}})"
                rf"\(?0?\)?(?:1[016789]|2|[3-6][1-5]|70|50\d)"
                rf"[-. \t)]{{0,2}}\d{{3,4}}[-. \t]?\d{{4}}{RIGHT}",
                triggers=NUMBER,
            ),
            Form(rf"(?<![0-9A-Za-z_])821[016789][-. ]\d{{3,4}}[-. ]\d{{4}}{RIGHT}", triggers=NUMBER),
            Form(
                rf"{LEFT}\(?0(?:2|3[1-3]|4[1-4]|5[1-5]|6[1-4]|70|50\d|1[016789])(?:\)[-. \t]?|\)?[-. \t] ?)"
                rf"\d{{3,4}}[-. \t]\d{{4}}{RIGHT}",
                triggers=NUMBER,
            ),
            Form(
                rf"{LEFT}0(?:2|3[1-3]|4[1-4]|5[1-5]|6[1-4]|70|50\d)\d{{7,8}}{RIGHT}", need=Need.CONTEXT, triggers=NUMBER
            ),
        ),
        context=(
            "전화",
            "연락처",
            "휴대폰",
            "핸드폰",
            "휴대전화",
            "팩스",
            "phone",
            "tel",
            "mobile",
            "call",
            "fax",
            "문자",
        ),
        never=NOT_A_PERSON,
        action=Action.PSEUDONYM,
        examples=("연락처 010-1234-5678", "+82 10-1234-5678", "01012345678", "02-312-3456", "8210-1234-5678"),
        counterexamples=("012-1234-5678", "1607635102123", "2024-010-1234"),
    ),
)
