"""Strictness for every test: no silent change of dtype, no silent broadcast of ranks."""

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
