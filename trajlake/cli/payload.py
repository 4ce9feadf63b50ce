"""`trajlake payload`: the content that a reference in a row stands for."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from trajlake.cli.options import RootOption
from trajlake.cli.output import fail, note
from trajlake.cli.progress import working


def register(app: typer.Typer) -> None:
    """Add `payload`."""
    app.command("payload")(payload)


def payload(
    reference: Annotated[
        str, typer.Argument(metavar="REF", help="payload:sha256:<hex>:<bytes>, as it stands in a row.")
    ],
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant that the row belongs to.")],
    root: RootOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to this file instead of stdout.")
    ] = None,
) -> None:
    """Print or save content that is stored by reference, after checking its size and hash.

    Example: trajlake payload payload:sha256:9f2c...:1048576 --tenant acme -o picture.png
    """
    from trajlake.reading.tables import open_lake
    from trajlake.streams.settings import load_settings
    from trajlake.verification.payloads import PayloadError, parse_reference, read_payload

    settings = load_settings(root=root)
    try:
        wanted = parse_reference(reference)
    except PayloadError as error:
        fail(str(error), 2)
    try:
        with working(f"fetching {wanted.size:,} bytes"):
            lake = open_lake(settings.root, storage_options=settings.storage_options).lake
            content = read_payload(lake, tenant, wanted)
    except PayloadError as error:
        fail(str(error))
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        _save(output, content)
        note(f"{len(content):,} bytes to {output}")


def _save(path: Path, content: bytes) -> None:
    """Whole or not at all: a full disk leaves no half file under the name."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
