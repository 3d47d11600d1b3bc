"""Failures of a model request, by whose fault they are and whether asking again makes sense."""

from app.errors import AppError


class ModelError(AppError):
    """A model request failed.

    Args:
        text: a sentence for the person; contains the provider's own message where there is one.
        code: one of the MODEL_*, CONTEXT_TOO_LONG, CONTENT_FILTERED codes of web/PROTOCOL.md.
        retryable: the same request may succeed if it is made again (S3).
        retry_after: seconds the provider asked to wait; None where it said nothing.
        status: the HTTP status it is made of; None where it was something else.
    """

    def __init__(
        self,
        text: str,
        *,
        code: str,
        retryable: bool,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(text, code=code)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class NotConfiguredError(ModelError):
    """Nothing was sent: the configuration lacks something, a key most of the time."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code="MODEL_UNAUTHORIZED", retryable=False)
