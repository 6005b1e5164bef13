"""A test kit: certificates for a Kafka broker and its clients, made by `openssl` and good for two days.

Files are PEM, as the broker, Spark and the Python clients all read them.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from service.kafka.ports import HOST
from tidings.errors import CannotRun

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = "2"


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; whoever trusts ``certificate`` trusts those."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """A new authority with its files in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        _openssl(
            "req", "-x509", *_CURVE, "-keyout", made._key, "-out", made.certificate, "-days", _DAYS, "-subj", "/CN=authority"
        )
        return made

    @property
    def certificate(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def _key(self) -> Path:
        return self.folder / "authority.key"

    def issue(self, name: str) -> Path:
        """A file with the private key and the certificate of ``name``, who may be a client and may listen on this machine."""
        key, request, signed, whole = (self.folder / f"{name}.{suffix}" for suffix in ("key", "csr", "crt", "pem"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n")
        _openssl("req", "-new", *_CURVE, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions, "-days", _DAYS)
        _openssl("x509", "-req", "-in", request, *signing, "-out", signed)
        # Readable to nobody else from its first byte on.
        whole.touch(mode=0o600)
        whole.write_text(key.read_text() + signed.read_text())
        return whole


def _openssl(*arguments: str | Path) -> None:
    try:
        subprocess.run(["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    except FileNotFoundError as error:
        raise CannotRun("openssl is not on the path; it is needed to make certificates for tests") from error
    except subprocess.CalledProcessError as error:
        raise CannotRun(f"openssl {arguments[0]} failed: {error.stderr.decode(errors='replace').strip()[-300:]}") from error
