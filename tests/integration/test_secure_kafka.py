"""TLS and SASL on a real Kafka: agents publish, `land` and `roll` work, and nobody gets in without the password."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conftest import Eventually
from tests.landkit.running import Running
from tests.roll.harness import RollProcess, roll_plan
from trajlake import Recorder
from trajlake.reading.lag import measure_lag
from trajlake.streams.broker import EmbeddedBroker, free_port
from trajlake.streams.settings import load_settings
from trajlake.streams.topics import TopicError, ensure_topics

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@dataclass(frozen=True)
class Secure:
    """A broker with a plain listener for the tests' own set-up, and one with TLS and SASL for the clients under
    test."""

    plain: str
    secure: str
    ca: Path
    password: str

    def options(self, password: str | None = None) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "lake",
            "sasl.password": password or self.password, "ssl.ca.location": str(self.ca),
        }  # fmt: skip


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself: the file for clients, and the file for the broker with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trajlake tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    ca, keystore = folder / "ca.pem", folder / "broker.pem"
    ca.write_bytes(public)
    keystore.write_bytes(private + public)
    return ca, keystore


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    ca, keystore = certificate(folder)
    password = uuid.uuid4().hex
    plain, secure, controller = free_port(), free_port(), free_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{login} required user_lake="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
    }
    with EmbeddedBroker(port=plain, properties=properties):
        yield Secure(f"127.0.0.1:{plain}", f"127.0.0.1:{secure}", ca, password)


def test_publish_land_and_roll_over_tls_and_sasl_with_the_password_in_a_file(
    kafka: Secure, tmp_path: Path, eventually: Eventually
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in kafka.options().items()))
    plan = roll_plan(kafka.plain, tmp_path / "lake", partitions=1)
    plan |= {"bootstrap_servers": kafka.secure, "kafka_options_file": str(file)}
    settings = load_settings(**plan)
    recorder = Recorder(
        tenant="acme", source="urn:test", bootstrap_servers=kafka.secure, topic=settings.events_topic,
        kafka_options=kafka.options(), spool=str(tmp_path / "spool"),
    )  # fmt: skip
    with recorder:
        for number in range(3):
            with recorder.run(run_id=f"run-{number}", skill="mail") as run:
                run.end(success=True)
    with Running(settings) as land, RollProcess(plan) as roll:
        eventually(lambda: land.landed() >= 5, 60, "landed")
        eventually(lambda: roll.metric("trajlake_roll_runs_total") == 3, 90, "counted")
        lag = measure_lag(settings.kafka(), {(settings.events_topic, 0): land.landed()}, set(), 10)
        assert lag is not None
        assert lag[settings.events_topic, 0].records == 0
        told = settings.lake()
        eventually(lambda: told.exists("runs"), 30, "rows are there")
        assert kafka.password not in roll.tail()
    assert kafka.password not in str(settings.shown())


def test_a_wrong_password_gets_nobody_in(kafka: Secure) -> None:
    with pytest.raises(TopicError) as refused:
        ensure_topics(kafka.secure, {"any": 1}, options=kafka.options("wrong" * 2), timeout_s=5)
    assert "wrongwrong" not in str(refused.value)
