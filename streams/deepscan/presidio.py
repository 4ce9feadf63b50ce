"""Presidio as the detector of the deep scan. The only module that imports it, and only when a detector is made.

What Presidio does by itself, and is not let do here:

- **fetch**: its recogniser of mail addresses asks the public suffix list of the network; here the list that comes with
  `tldextract` is read. A spaCy model that is not installed is an error, not a download.
- **skip**: a pattern that runs out of time is logged and left out; here that ends the scan of the run (`Unsure`).
- **tell**: some of its log lines and errors quote the text. Its loggers lead nowhere, and errors are named by type.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from trajlake.expectations.deep_scan import NAMED, Entity, Sign, chosen
from trajlake.streams.settings import SettingError

ENGINE: Final = 1
"""Raised when the same settings and libraries find other things; part of the revision."""
INSTALL: Final = "pip install 'trajlake[presidio]'"
PATTERN_S: Final = 5
"""Time of one pattern on one window, s. A window takes a pattern milliseconds."""
_LANGUAGE: Final = "en"
"""All recognizers are asked about every text: which language a run speaks is not known, and patterns have none."""
_WORD: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d(?:\W{0,2}\d){3}")
_NUMBER: Final = re.compile(r"[+(]?\d[\d\s().\-/]{5,28}\d")
_DATE: Final = re.compile(r"(?:19|20)\d\d-[01]\d-[0-3]\d")
_PHONE_REGIONS: Final = ("US", "GB", "DE", "FR", "IN", "BR", "KR", "JP")
_LABELS: Final = {
    **dict.fromkeys(("PERSON", "PER", "PS"), "PERSON"),
    **dict.fromkeys(("LOCATION", "LOC", "GPE", "LC"), "LOCATION"),
    **dict.fromkeys(("ORGANIZATION", "ORG", "OG"), "ORGANIZATION"),
    **dict.fromkeys(("NRP", "NORP"), "NRP"),
}
"""Labels of spaCy's models, and Presidio's names for them."""


class Unsure(Exception):
    """A recognizer could not finish: what it would have found is not known."""


class Found(NamedTuple):
    """Something that was found in a text, as places of its characters."""

    entity_type: str
    start: int
    end: int
    score: float


class Detector(NamedTuple):
    """`find`: what is in a text, above the threshold; raises whatever goes wrong. `revision`: content hash of all that
    decides."""

    find: Callable[[str], list[Found]]
    revision: str


def presidio_is_here() -> bool:
    """Whether the extra is installed; imports nothing of it."""
    return importlib.util.find_spec("presidio_analyzer") is not None


def make_detector(threshold: float, names: Sequence[str] = (), model: str = "") -> Detector:
    """Load Presidio with the recognizers of some entity types, those of the table's defaults where none is named.

    `model`: name or folder of an installed spaCy model that finds names and places; none where empty. Takes a few
    seconds and about 100 MB, with a model what the model takes. Raises `SettingError` where the model is not here.
    """
    _quiet()
    entities = chosen(list(names), with_model=bool(model))
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry, predefined_recognizers

    _bound_patterns()
    own = _own_recognizers()
    recognizers = []
    for entity in entities:
        for name in entity.recognizers:
            made = (own.get(name) or getattr(predefined_recognizers, name))(supported_language=_LANGUAGE)
            made.context = [*made.context, *entity.words]
            recognizers.append(made)
    parts = [_revised(recognizer) for recognizer in recognizers]
    named = [entity.name for entity in entities if entity in NAMED]
    names_of, meta = _names_by(model) if named else (None, [])
    if named:
        recognizers.append(
            predefined_recognizers.SpacyRecognizer(supported_language=_LANGUAGE, supported_entities=named)
        )
    registry = RecognizerRegistry(recognizers=recognizers, supported_languages=[_LANGUAGE])
    analyzer = AnalyzerEngine(
        registry=registry, nlp_engine=_word_engine(names_of), supported_languages=[_LANGUAGE],
        context_aware_enhancer=_whole_words(),
    )  # fmt: skip
    versions = [version(name) for name in ("presidio-analyzer", "phonenumbers", "tldextract")]
    decisive = [ENGINE, versions, threshold, [entity._asdict() for entity in entities], parts, meta]
    revision = hashlib.sha256(orjson.dumps(decisive)).hexdigest()[:16]
    return Detector(_finder(analyzer, entities, threshold), revision)


def _finder(analyzer: Any, entities: Sequence[Entity], threshold: float) -> Callable[[str], list[Found]]:
    alone = {entity.name for entity in entities if entity.alone}
    always = {sign: [entity.name for entity in entities if entity.alone and entity.sign is sign] for sign in Sign}
    words = _words_of(analyzer.registry.recognizers, alone)
    parts = {word: names for word, names in words.items() if not word.isascii()}

    def wanted(text: str) -> list[str]:
        """Entity types that there may be in a text, by signs that none of them does without."""
        names = list(always[Sign.ANY])
        if "@" in text:
            names += always[Sign.AT]
        if _DIGITS.search(text):
            names += always[Sign.DIGITS]
            near = {word.lower() for word in _WORD.findall(text)} & words.keys()
            near.update(word for word in parts if word in text)
            names += sorted({name for word in near for name in words[word]})
        return names

    def find(text: str) -> list[Found]:
        names = wanted(text)
        if not names:
            return []
        results = analyzer.analyze(
            text, _LANGUAGE, entities=names, score_threshold=threshold, return_decision_process=True
        )
        return [
            Found(result.entity_type, result.start, result.end, result.score)
            for result in results
            if result.entity_type in alone or result.analysis_explanation.supportive_context_word
        ]

    return find


def _words_of(recognizers: Sequence[Any], alone: set[str]) -> dict[str, list[str]]:
    """Context words of those entity types that do not count alone: word, in small letters -> entity types."""
    found: dict[str, list[str]] = {}
    for recognizer in recognizers:
        for name in recognizer.supported_entities:
            for word in recognizer.context if name not in alone else ():
                found.setdefault(word.lower(), []).append(name)
    return found


# What the recognizers rest on


def _word_engine(names: _Names | None) -> Any:
    """Words by their characters, in any script: what context words are looked up in. No model is needed for them, and
    no memory grows with the words seen, as spaCy's vocabulary does."""
    from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine

    class WordEngine(NlpEngine):  # type: ignore[misc]
        def load(self) -> None:
            """There is nothing to load."""

        def is_loaded(self) -> bool:
            return True

        def process_text(self, text: str, language: str) -> Any:
            words = [(match.group(), match.start()) for match in _WORD.finditer(text)]
            lowered = [word.lower() for word, _ in words]
            named = names(text) if names is not None else []
            return NlpArtifacts(named, [word for word, _ in words], [at for _, at in words], lowered, self, language)

        def process_batch(self, texts: Any, language: str, *_: Any, **__: Any) -> Iterator[Any]:
            return ((text, self.process_text(text, language)) for text in texts)

        def is_stopword(self, word: str, language: str) -> bool:
            return False

        def is_punct(self, word: str, language: str) -> bool:
            return False

        def get_supported_entities(self) -> list[str]:
            return [entity.name for entity in NAMED] if names is not None else []

        def get_supported_languages(self) -> list[str]:
            return [_LANGUAGE]

    return WordEngine()


def _whole_words() -> Any:
    """Context words count as words. As parts of words, Presidio's default, `cc` is near in every `success`; only in
    scripts that write endings on to words do they count as parts."""
    from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer

    class WholeWords(LemmaContextAwareEnhancer):  # type: ignore[misc]
        @staticmethod
        def _find_supportive_word_in_context(
            context_list: list[str], recognizer_context_list: list[str], matching_mode: str = ""
        ) -> str:
            near = set(context_list)
            for word in recognizer_context_list:
                lowered = word.lower()
                if lowered in near or (not word.isascii() and any(lowered in other for other in near)):
                    return word
            return ""

    return WholeWords(context_prefix_count=6, context_suffix_count=2)


class _Named(NamedTuple):
    """A name in a text, as Presidio's own recogniser of a model's findings reads it."""

    label_: str
    start_char: int
    end_char: int


_Names: TypeAlias = Callable[[str], list[_Named]]


def _names_by(model: str) -> tuple[_Names, list[Any]]:
    """What an installed model of spaCy finds, and what it says of itself for the revision."""
    import spacy

    if not (spacy.util.is_package(model) or Path(model).is_dir()):
        raise SettingError("deep_scan_model", f"no spaCy model {model!r} is installed here, and none is fetched")
    try:
        nlp = spacy.load(model)
    except Exception as error:
        raise SettingError("deep_scan_model", f"spaCy cannot load {model!r}: {type(error).__name__}") from None

    def names(text: str) -> list[_Named]:
        with nlp.memory_zone():
            found = [(_LABELS.get(span.label_), span.start_char, span.end_char) for span in nlp(text).ents]
        return [_Named(label, start, end) for label, start, end in found if label is not None]

    meta = [nlp.meta.get(name) for name in ("lang", "name", "version", "spacy_version")]
    return names, [*meta, nlp.pipe_names, version("spacy")]


def _own_recognizers() -> dict[str, Any]:
    """Recognizers of Presidio that are asked in another way, by the name of the class that they stand in for."""
    from presidio_analyzer.predefined_recognizers import EmailRecognizer, PhoneRecognizer
    from tldextract import TLDExtract

    suffixes = TLDExtract(suffix_list_urls=(), cache_dir=None)

    class Emails(EmailRecognizer):  # type: ignore[misc]
        def validate_result(self, pattern_text: str) -> bool:
            return bool(suffixes(pattern_text).fqdn)

    class Phones(PhoneRecognizer):  # type: ignore[misc]
        """Only stretches of digits are shown to the matcher, which takes milliseconds a kB for every region."""

        # Not "number", "call" or "cell": those are near every id of an agent's calls.
        CONTEXT = "phone telephone tel mobile cellphone fax sms whatsapp".split()

        def __init__(self, supported_language: str) -> None:
            super().__init__(supported_language=supported_language, supported_regions=_PHONE_REGIONS)

        def analyze(self, text: str, entities: list[str], nlp_artifacts: Any = None) -> list[Any]:
            found = []
            for stretch in _NUMBER.finditer(text):
                if _DATE.match(stretch.group()):
                    continue
                first = max(0, stretch.start() - 1)
                for result in super().analyze(text[first : stretch.end() + 1], entities, nlp_artifacts):
                    result.start += first
                    result.end += first
                    found.append(result)
            return found

    return {"EmailRecognizer": Emails, "PhoneRecognizer": Phones}


def _revised(recognizer: Any) -> list[Any]:
    patterns = [[pattern.name, pattern.regex, pattern.score] for pattern in getattr(recognizer, "patterns", ())]
    return [recognizer.name, recognizer.supported_entities, patterns, recognizer.context]


# What is not let do


class _Refusing(logging.Handler):
    """Takes what Presidio would tell, and tells nothing; what it would pass over ends the scan."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            raise Unsure


def _quiet() -> None:
    for name in ("presidio-analyzer", "decision_process", "tldextract"):
        logger = logging.getLogger(name)
        logger.handlers = [_Refusing(logging.WARNING)]
        logger.setLevel(logging.WARNING)
        logger.propagate = False


def _bound_patterns() -> None:
    """The time of one pattern: a constant of the modules that match. A minute is their default."""
    from presidio_analyzer import pattern_recognizer
    from presidio_analyzer.predefined_recognizers.generic import iban_recognizer

    for module in (pattern_recognizer, iban_recognizer):
        module.REGEX_TIMEOUT_SECONDS = PATTERN_S
