"""What can go wrong in the domain, by what the caller can do about it."""

from store.errors import StoreError as StoreError  # the store's own, for the rooms above


class AppError(Exception):
    """Base. `code` is stable and part of the protocol; `text` is a sentence for the person."""

    code = "INTERNAL"

    def __init__(self, text: str = "", *, code: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        if code is not None:
            self.code = code


class NotFoundError(AppError):
    """The thing named does not exist (or is not the caller's)."""


class InvalidError(AppError):
    """The request itself is wrong; the same request will fail again."""


class ConflictError(AppError):
    """The request does not fit the present state."""


class UnavailableError(AppError):
    """Not now: shutting down, too many streams, the store does not work. `retry_after`: seconds."""

    def __init__(self, text: str, *, code: str, retry_after: float = 1.0) -> None:
        super().__init__(text, code=code)
        self.retry_after = retry_after
