"""The data folder, before anything is opened in it."""

import os
from pathlib import Path

from app.errors import InvalidError


def prepare(folder: Path) -> None:
    """Make it where there is none, for this user alone: what people say is in it.

    Raises InvalidError (CONFIG_INVALID) if it cannot be used, with the reason.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "this user may not write into it"
    except (FileExistsError, NotADirectoryError) as error:
        reason = f"{_file_of(Path(error.filename))} is a file, not a folder"
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    if reason:
        text = f"The data folder {folder} cannot be used: {reason}. --data names another"
        raise InvalidError(text, code="CONFIG_INVALID")


def _file_of(path: Path) -> Path:
    """What stands in the way of that path."""
    return next((one for one in path.parents[::-1] if one.exists() and not one.is_dir()), path)
