"""Compiled code for the innermost loops: built on first use where there is a C++ compiler, and never needed."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Float, Int, Key
from offmap.cache import cache_folder
from offmap.cores import first_processor

SWITCH = "OFFMAP_KERNELS"  # "off" for plain JAX
FOLDER = Path(__file__).parent
SOURCES = ("predictors.cpp", "neighbours.cpp", "normals.cpp")
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-shared", "-w")
FLOATS_PER_VECTOR = 16
ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu}
TARGETS = ("offmap_forward", "offmap_backward", "offmap_nearest", "offmap_normals")


@functools.cache
def are_here() -> bool:
    """Whether the compiled kernels can be called. Builds and registers them the first time it is asked."""
    if os.environ.get(SWITCH, "").lower() == "off" or jax.default_backend() != "cpu":
        return False
    code = _loaded(_library())
    if code is None:
        return False
    for target in TARGETS:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(code, target)), platform="cpu")
    return True


def _loaded(library: Path | None) -> ctypes.CDLL | None:
    """The code of the library. One that a full disk or a crash left damaged is built again."""
    if library is None:
        return None
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        library.unlink(missing_ok=True)
        rebuilt = _library()
        return None if rebuilt is None else ctypes.CDLL(str(rebuilt))


def _library() -> Path | None:
    """The shared library, from the cache or from the compiler; None where there is neither."""
    folder = cache_folder()
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if folder is None or compiler is None:
        return None
    library = folder / "kernels" / f"{_fingerprint(compiler)}.so"
    if not library.exists():
        try:
            library.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=library.parent) as workspace:
                fresh = Path(workspace) / library.name
                sources = [str(FOLDER / name) for name in SOURCES]
                command = [compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", *sources, "-o", str(fresh)]
                subprocess.run(command, check=True, capture_output=True)
                fresh.replace(library)
        except (OSError, subprocess.CalledProcessError) as problem:
            said = getattr(problem, "stderr", b"").decode(errors="replace").strip().splitlines()
            warnings.warn(
                f"The compiled kernels could not be built, so plain JAX does the work, several times slower: "
                f"{said[0] if said else problem}. Set {SWITCH}=off to do without them.",
                stacklevel=2,
            )
            return None
    return library


def _fingerprint(compiler: str) -> str:
    """What the machine code depends on: the source, the compiler and its flags, the processor, and XLA's headers."""
    described = first_processor()
    processor = [described.get("model name", platform.processor()), described.get("flags", "")]
    sources = [(FOLDER / name).read_text() for name in (*SOURCES, "parallel.h")]
    parts = [*sources, compiler, *FLAGS, platform.machine(), *processor, version("jaxlib")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def one_layer_draws(thetas: Float[Array, "s p"], X: Float[Array, "n d"], activation: str) -> Float[Array, "s n"]:
    """Values of one-hidden-layer networks at the rows of X, one network a row of `thetas`."""
    return _values(activation, len(X))(thetas, _by_column(X))


def _by_column(X: Float[Array, "n d"]) -> Float[Array, "d m"]:
    """A row for every column of X, padded to whole vectors. Done by XLA, once for a loop in which X stays the same."""
    return jnp.pad(X.T, ((0, 0), (0, -len(X) % FLOATS_PER_VECTOR)))


def _forward(thetas: Float[Array, "s p"], X: Float[Array, "n d"], activation: str) -> tuple[Array, tuple[Array, Array]]:
    return one_layer_draws(thetas, X, activation), (thetas, X)


def _backward(activation: str, inputs: tuple[Array, Array], gradient: Float[Array, "s n"]) -> tuple[Array, Array]:
    thetas, X = inputs
    of_thetas = _gradients(activation)(thetas, gradient, _by_column(X))
    return of_thetas, _gradient_of_inputs(thetas, X, activation, gradient)


def _values(activation: str, n_rows: int) -> Callable[..., Array]:
    """The compiled forward pass, of (thetas, columns)."""

    def values(thetas: Float[Array, "s p"], columns: Float[Array, "d m"]) -> Float[Array, "s n"]:
        shape = jax.ShapeDtypeStruct((len(thetas), n_rows), jnp.float32)
        call = jax.ffi.ffi_call("offmap_forward", shape, vmap_method="sequential")
        return call(thetas, columns, smooth=activation == "gelu")

    return _at_once(values)


def _gradients(activation: str) -> Callable[..., Array]:
    """The compiled backward pass, of (thetas, gradient of the values, columns)."""

    def gradients(thetas: Float[Array, "s p"], gradient: Float[Array, "s n"], columns: Array) -> Float[Array, "s p"]:
        shape = jax.ShapeDtypeStruct(thetas.shape, jnp.float32)
        call = jax.ffi.ffi_call("offmap_backward", shape, vmap_method="sequential")
        return call(thetas, columns, gradient, smooth=activation == "gelu")

    return _at_once(gradients)


def _at_once(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """`kernel` of networks and of inputs, such that a vmap over networks alone is one call with all of them."""
    batched = jax.custom_batching.custom_vmap(kernel)

    @batched.def_vmap
    def of_many(size: int, are_batched: list[bool], *arrays: Array) -> tuple[Array, bool]:
        *of_networks, columns = arrays
        if are_batched[-1]:
            axes = [0 if is_batched else None for is_batched in are_batched]
            return jax.vmap(kernel, axes)(*arrays), True
        spread = [
            array if is_batched else jnp.broadcast_to(array[None], (size, *array.shape))
            for array, is_batched in zip(of_networks, are_batched, strict=False)
        ]
        flat = batched(*(array.reshape(-1, array.shape[-1]) for array in spread), columns)
        return flat.reshape(size, -1, flat.shape[-1]), True

    return batched


def _gradient_of_inputs(thetas: Array, X: Array, activation: str, gradient: Float[Array, "s n"]) -> Float[Array, "n d"]:
    """In plain JAX: training never asks for it, and XLA leaves out what is not asked for."""
    d = X.shape[1]
    hidden = (thetas.shape[1] - 1) // (d + 2)

    def one(theta: Float[Array, " p"], gradient: Float[Array, " n"]) -> Float[Array, "n d"]:
        weight, bias, out = jnp.split(theta[:-1], [d * hidden, (d + 1) * hidden])
        weight = weight.reshape(d, hidden)
        before = X @ weight + bias[None, :]
        _, slope = jax.jvp(ACTIVATIONS[activation], (before,), (jnp.ones_like(before),))
        return (slope * out[None, :] * gradient[:, None]) @ weight.T

    return jnp.sum(jax.lax.map(lambda pair: one(*pair), (thetas, gradient), batch_size=32), axis=0)


one_layer_draws.defvjp(_forward, _backward)


def nearest(queries: Float[Array, "n d"], points: Float[Array, "m d"], skip_self: bool) -> Int[Array, " n"]:
    """The index of each query's nearest point; with `skip_self` query i is point i, and not its own neighbour."""
    shape = jax.ShapeDtypeStruct((len(queries),), jnp.int32)
    return jax.ffi.ffi_call("offmap_nearest", shape, vmap_method="sequential")(queries, points, skip_self=skip_self)


def standard_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """`jax.random.normal(key, shape)`: its stream up to rounding, in a third of the time where kernels are here."""
    same_stream = str(jax.random.key_impl(key)) == "threefry2x32" and jax.config.values["jax_threefry_partitionable"]
    if not (same_stream and are_here()):
        return jax.random.normal(key, shape)
    values = jax.ShapeDtypeStruct(shape, jnp.float32)
    return jax.ffi.ffi_call("offmap_normals", values, vmap_method="sequential")(jax.random.key_data(key))
