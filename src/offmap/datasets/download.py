"""A file from its public address: few tries, bounded in time and size, whole or not at all."""

import http.client
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from importlib.metadata import version

from offmap.datasets.registry import DatasetError
from offmap.progress import report

CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Patience:
    """How often, how long and for how much to wait. Pauses double from one try to the next."""

    tries: int = 3
    first_pause_seconds: float = 1.0
    timeout_seconds: float = 30.0  # without a single byte
    most_bytes: int = 20_000_000


class _PassingError(Exception):
    """What may be over at the next try."""


def download(address: str, what: str, patience: Patience = Patience()) -> bytes:
    """The file at `address`, reporting its bytes as the progress of `what`."""
    for attempt in range(patience.tries):
        if attempt:
            time.sleep(patience.first_pause_seconds * 2 ** (attempt - 1))
        try:
            return _fetched(address, what, patience)
        except _PassingError as problem:
            trouble = problem
    raise DatasetError(f"{trouble}, in {patience.tries} tries")


def _fetched(address: str, what: str, patience: Patience) -> bytes:
    request = urllib.request.Request(address, headers={"User-Agent": f"offmap/{version('offmap')}"})
    try:
        with urllib.request.urlopen(request, timeout=patience.timeout_seconds) as response:
            return _body(response, what, patience.most_bytes)
    except urllib.error.HTTPError as answer:
        answer.close()
        said = f"the server answered {answer.code} {answer.reason}"
        if answer.code >= 500 or answer.code in (408, 429):
            raise _PassingError(said) from None
        raise DatasetError(said) from None
    except urllib.error.URLError as problem:
        raise _PassingError(f"no connection ({problem.reason})") from None
    except (OSError, http.client.HTTPException) as problem:
        raise _PassingError(f"the connection broke ({problem or type(problem).__name__})") from None


def _body(response: http.client.HTTPResponse, what: str, most_bytes: int) -> bytes:
    """All bytes of a response. Some servers do not say how many there will be."""
    said = response.headers.get("Content-Length", "")
    promised = int(said) if said.isdecimal() else None
    body = bytearray()
    while len(body) <= most_bytes and (chunk := response.read(CHUNK_BYTES)):
        body += chunk
        report(what, len(body), promised or len(body))
    if max(len(body), promised or 0) > most_bytes:
        raise DatasetError(f"the file is larger than {most_bytes} bytes, so it is not the table")
    if promised is not None and len(body) < promised:
        raise _PassingError(f"the file was cut short ({len(body)} of {promised} bytes)")
    return bytes(body)
