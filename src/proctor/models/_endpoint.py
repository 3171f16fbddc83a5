"""What every model behind an HTTP endpoint does alike: the deadline of a call, and what its failure means.

The clients of the providers are made by one generator, and so have exceptions of the same names; this module goes by
those, and imports none of them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelQuotaExceededError, UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.settings import ModelSettings

from proctor.errors import describe
from proctor.model.bounds import TOKENS_AT_MOST
from proctor.model.spec import ModelSpec
from proctor.models._bounded_http import AnswerTooLarge
from proctor.models._conversation import history, parameters
from proctor.models._http_errors import REFUSED_STATUSES, ModelFault, code_of_refusal, redacted
from proctor.plugins.api import ChatMessage, Completion, Tool

NO_TAGS = ("<\ue000reasoning>", "</\ue000reasoning>")
"""Tags that no model writes: what an endpoint sends as content is the answer, `<think>` included."""


class ErrorInAnswer(Exception):
    """A body that came with status 200 and holds an error instead of an answer."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(_text_of_body(body) or "no message")
        code = body.get("code")
        self.status = code if isinstance(code, int) and 400 <= code < 600 else 500


class EndpointModel(ABC):
    """A model behind an endpoint; may be called concurrently, from one event loop."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        model: LibraryModel[Any],
        client: Any,
        settings: dict[str, Any],
        timeout_seconds: float,
        secrets: Sequence[str],
    ) -> None:
        """Make it of the library's model and its client; settings that are None are not sent."""
        self.spec = spec
        self._model = model
        self._client = client
        self._settings = cast("ModelSettings", {name: value for name, value in settings.items() if value is not None})
        self._timeout_seconds = timeout_seconds
        self._secrets = secrets
        parts = urlsplit(str(client.base_url))
        self._endpoint = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    @abstractmethod
    def _completion(self, response: ModelResponse, turn: int) -> Completion:
        """Return the library's answer to the `turn`th message of a conversation as ours."""

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call; raises `ModelFault` with the code of what went wrong."""
        asked = history(messages)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await model_request(
                    self._model,
                    asked,
                    model_settings=self._settings,
                    model_request_parameters=parameters(tools),
                    instrument=False,
                )
            return self._completion(response, len(messages) + 1)
        except TimeoutError:
            fault = self._fault("model.timeout", f"no answer within {self._timeout_seconds:g} s", refused=False)
        except UserError:
            raise
        except UnicodeEncodeError as error:
            fault = self._fault("model.invalid_request", f"a message cannot be sent as UTF-8: {error}")
        except Exception as error:
            fault = self._fault_of(error)
        # Raised outside of the handler, and so without the library's exception: its texts may hold the key.
        raise fault

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _fault(self, code: str, text: str, **facts: Any) -> ModelFault:
        said = redacted(text, self._secrets)
        return ModelFault(code, f"model `{self.spec.id}` at {self._endpoint}: {said}", **facts)

    def _fault_of(self, error: Exception) -> ModelFault:
        chain = list(_causes(error))
        for each in chain:  # ours first: some clients take everything for a connection that broke
            if isinstance(each, AnswerTooLarge):
                return self._fault("model.malformed", str(each))
            if isinstance(each, ErrorInAnswer):
                return self._fault(code_of_refusal(each.status, None), f"an error with status 200: {each}")
        for each in chain:
            kinds = {kind.__name__ for kind in type(each).__mro__}
            if "APIStatusError" in kinds:
                return self._fault_of_status(each, spent=any(isinstance(one, ModelQuotaExceededError) for one in chain))
            if "APITimeoutError" in kinds:
                return self._fault("model.timeout", f"the connection timed out: {describe(chain[-1])}")
            if "APIConnectionError" in kinds:
                refused = any(type(cause).__name__ == "ConnectError" for cause in chain)
                what = "no connection" if refused else "the connection broke"
                return self._fault("model.connection", f"{what}: {describe(chain[-1])}", refused=refused)
        return self._fault("model.server", f"the answer cannot be understood: {describe(chain[-1])}")

    def _fault_of_status(self, error: Any, *, spent: bool) -> ModelFault:
        status: int = error.status_code
        refused = status in REFUSED_STATUSES and not spent  # no waiting makes an account full again
        return self._fault(
            "model.payment" if spent else code_of_refusal(status, getattr(error, "code", None)),
            f"status {status}: {_text_of_body(error.body) or error.response.text or 'no message'}",
            status=status,
            retry_after=error.response.headers.get("retry-after"),
            refused=refused,
        )


def is_count(value: object) -> bool:
    """Say whether a value that an endpoint reports can be a number of tokens."""
    return type(value) is int and 0 <= value <= TOKENS_AT_MOST


def text_or_none(value: object) -> str | None:
    """Return a value that is a text."""
    return value if isinstance(value, str) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Return an exception, what it was raised from, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def _text_of_body(body: object) -> str | None:
    """Return the provider's own words from the body of an error."""
    if isinstance(body, dict):
        found = cast("dict[str, Any]", body)
        inner: Any = found.get("error")
        if isinstance(inner, str):
            return inner
        return _text_of_body(cast("object", inner)) if inner else text_or_none(found.get("message"))
    return text_or_none(body)
