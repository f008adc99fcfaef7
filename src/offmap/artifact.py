"""Save and load: a directory of model.json and arrays.safetensors. No pickle, and nothing half-written."""

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from offmap.cache import keep_compiled_programs

FORMAT = 1
FILES = ("model.json", "arrays.safetensors")
# The only classes that a model directory can bring to life: values made of numbers, strings and arrays, and estimators.
STORABLE: dict[str, type[Any]] = {}
ALTERED = "is truncated or was altered. Copy it again, or fit the model again."
LIBRARIES = ("offmap", "jax", "numpy", "scikit-learn", "optax", "blackjax")


Class = TypeVar("Class", bound=type[Any])


def storable(cls: Class) -> Class:
    """Mark a dataclass, a NamedTuple or an estimator as one that a model directory may hold."""
    if cls.__name__ in STORABLE:
        raise TypeError(f"Two storable classes are called {cls.__name__}, and a model directory knows them by name.")
    STORABLE[cls.__name__] = cls
    return cls


class ModelFileError(ValueError):
    """A model directory that cannot be read, with what is wrong and what to do."""


def save(estimator: Any, path: str | Path, overwrite: bool = False) -> None:
    """Write `path`/model.json and `path`/arrays.safetensors. The directory appears complete, or not at all."""
    target = Path(path)
    refuse_to_overwrite(target, overwrite)
    arrays: dict[str, np.ndarray] = {}
    body = _encode(estimator, "model", arrays)
    blob = save_arrays(arrays)
    document = {
        "format": FORMAT,
        "versions": {name: version(name) for name in LIBRARIES},
        "arrays_sha256": hashlib.sha256(blob).hexdigest(),
        "model_sha256": _digest(body),
        "model": body,
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as workspace:
        fresh, old = Path(workspace) / "fresh", Path(workspace) / "old"
        fresh.mkdir()
        (fresh / "arrays.safetensors").write_bytes(blob)
        (fresh / "model.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        try:
            if target.exists():
                target.rename(old)
            fresh.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            raise


def refuse_to_overwrite(target: Path, overwrite: bool, how: str = "overwrite=True") -> None:
    """An error if a model directory cannot be written there: for something else stands there, or nothing may be."""
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already. Choose another path, or pass {how}.")
    if target.exists() and not (target.is_dir() and {file.name for file in target.iterdir()} <= set(FILES)):
        raise FileExistsError(f"{target} is not a model directory, so it is not overwritten. Choose another path.")
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise PermissionError(f"{target} cannot be written: {above} is no folder that may be changed. Choose another.")


def load(path: str | Path) -> Any:
    """The estimator that `save` wrote, giving the same numbers (across versions of JAX: nearly the same)."""
    keep_compiled_programs()
    source = Path(path)
    try:
        text, blob = ((source / name).read_bytes() for name in FILES)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(
            f"{source} is not a model directory: it must hold model.json and arrays.safetensors."
        ) from None
    try:
        document = json.loads(text)
        found = document["format"]
        if not isinstance(found, int) or found < 1:
            raise ModelFileError(f"{source / 'model.json'} {ALTERED}")
        if found > FORMAT:
            raise ModelFileError(
                f"{source} has format {found}, and this version of offmap reads formats up to {FORMAT}. Upgrade offmap."
            )
        if hashlib.sha256(blob).hexdigest() != document["arrays_sha256"]:
            raise ModelFileError(f"{source / 'arrays.safetensors'} {ALTERED}")
        if _digest(document["model"]) != document["model_sha256"]:
            raise ModelFileError(f"{source / 'model.json'} {ALTERED}")
        return _decode(document["model"], load_arrays(blob))
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as problem:
        if isinstance(problem, ModelFileError):
            raise
        raise ModelFileError(f"{source / 'model.json'} {ALTERED}") from None


def versions_of(path: str | Path) -> dict[str, str]:
    """Which versions of offmap and its libraries wrote a model directory."""
    try:
        versions = json.loads((Path(path) / "model.json").read_bytes())["versions"]
        return {str(name): str(number) for name, number in versions.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelFileError(f"{Path(path) / 'model.json'} {ALTERED}") from None


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON; its arrays go to `arrays`, under the name of the path that leads to them."""

    def encode(item: Any, step: Any) -> Any:
        return _encode(item, f"{name}.{step}", arrays)

    if type(value) in STORABLE.values() and hasattr(value, "get_params"):
        settings = value.get_params(deep=False)
        # The state of a random generator decides nothing once the model is fitted.
        settings["random_state"] = settings["random_state"] if isinstance(settings["random_state"], int) else None
        fitted = {key: item for key, item in vars(value).items() if key not in settings}
        return {
            "estimator": type(value).__name__,
            "settings": {key: encode(item, key) for key, item in settings.items()},
            "fitted": {key: encode(item, key) for key, item in fitted.items()},
        }
    if type(value) in STORABLE.values():
        fields = {key: encode(getattr(value, key), key) for key in _fields(value)}
        return {"value": type(value).__name__, "fields": fields}
    if isinstance(value, jax.Array | np.ndarray) and np.asarray(value).dtype.kind not in "OU":
        arrays[name] = np.asarray(value, order="C")  # unlike ascontiguousarray, keeps an array without axes
        return {"array": name, "jax": isinstance(value, jax.Array)}
    if hasattr(value, "to_numpy"):  # a frame that was given as a setting
        return encode(value.to_numpy(), "values")
    if isinstance(value, np.ndarray):
        return {"strings": [str(item) for item in value]}
    if isinstance(value, np.generic):
        return encode(value.item(), "item")
    if isinstance(value, dict):
        return {"dict": {key: encode(item, key) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [encode(item, index) for index, item in enumerate(value)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which a model directory cannot hold.")


def _decode(code: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `_encode`."""
    if not isinstance(code, dict):
        return code

    def decode(item: Any) -> Any:
        return _decode(item, arrays)

    def decode_all(items: dict[str, Any]) -> dict[str, Any]:
        return {key: decode(item) for key, item in items.items()}

    match code:
        case {"estimator": name, "settings": settings, "fitted": fitted}:
            estimator = STORABLE[name](**decode_all(settings))
            estimator.__dict__.update(decode_all(fitted))
            return estimator
        case {"value": name, "fields": fields}:
            return STORABLE[name](**decode_all(fields))
        case {"array": name, "jax": on_device}:
            return jnp.asarray(arrays[name]) if on_device else arrays[name]
        case {"strings": items}:
            return np.array(items, dtype=object)
        case {"dict": items}:
            return decode_all(items)
        case {"list": items}:
            return [decode(item) for item in items]
        case {"tuple": items}:
            return tuple(decode(item) for item in items)
        case {"float": text}:
            return float(text)
    raise KeyError("unknown entry")


def _fields(value: Any) -> tuple[str, ...]:
    """The names that rebuild a NamedTuple or a dataclass."""
    if hasattr(value, "_fields"):
        return tuple(value._fields)
    return tuple(field.name for field in dataclasses.fields(value))
