"""Before any worker starts: can this root ever be written? What only a person can put right must not be tried for ever.

A store that is away, a full disk or a slow network are none of it: those are waited for by the workers.
"""

from __future__ import annotations

import errno
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from trajlake.expectations.errors import TrajlakeError
from trajlake.streams.settings import SettingError, Settings

_NEVER: Final = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL,
}  # fmt: skip
_FOLDERS: Final = ("", "restricted", "quarantine", "_state")


def check_root(settings: Settings) -> None:
    """Raises SettingError naming the setting and the place when the lake's root can never be written."""
    lake = settings.lake()
    if not lake.is_local:
        try:
            # Makes the client, which reads its options; asks nothing of the store.
            _ = lake.store
        except TrajlakeError:
            raise
        except BaseException as error:
            # The store's library panics at some options, and a panic is no Exception.
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise SettingError("storage_options", f"no client for {lake.uri}: {type(error).__name__}") from None
            raise
        return
    folder = Path(lake.uri)
    try:
        for name in _FOLDERS:
            folder = Path(lake.uri, name)
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder, prefix=".probe-"):
                pass
    except OSError as error:
        if error.errno in _NEVER:
            raise SettingError("root", f"{folder} is no folder that can be written: {error.strerror}") from None
