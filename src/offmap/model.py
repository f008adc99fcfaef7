"""What is assumed: a network, a prior over its predictors, Gaussian noise, and the inputs nu that matter."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Batch, Data, Float, Key
from offmap.inputs import InputDistribution
from offmap.likelihood import gaussian_log_density
from offmap.network import Network
from offmap.prior import GaussianPrior, Prior


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Model:
    """Everything a method needs besides the data, in standardised units.

    Its numbers are traced by JAX, so another noise level, prior width or box does not recompile.
    """

    network: Network = field(metadata={"static": True})
    prior: Prior
    noise_std: float | Float[Array, ""]
    inputs: InputDistribution

    @property
    def parameter_prior(self) -> GaussianPrior:
        """The prior as a density over theta; an error for a prior that has none."""
        if not isinstance(self.prior, GaussianPrior):
            raise ValueError(
                f"{type(self.prior).__name__} is a prior on predictors, and this method needs one on parameters. "
                "Use method 'funn-hyvi' or 'funn-mfvi' with it, or a GaussianPrior."
            )
        return self.prior

    def predict(self, theta: Float[Array, " p"], X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """f_theta at every row of X."""
        return self.network.apply(theta, X)[:, 0]

    def predict_draws(self, thetas: Float[Array, "s p"], X: Float[Array, "n d"]) -> Float[Array, "s n"]:
        """f_theta at every row of X, for every theta."""
        return self.network.draws(thetas, X)

    def sample_prior_predictors(self, key: Key, n: int, X: Float[Array, "t d"]) -> Float[Array, "n t"]:
        """`n` predictors of the prior at every row of X."""
        return self.prior.sample_predictors(key, n, self.network, X)

    def log_likelihood(self, theta: Float[Array, " p"], data: Data | Batch) -> Float[Array, ""]:
        """ln p(y | X, theta), in nats, of all rows together."""
        values = self.predict_draws(theta[None, :], data.X)[0]
        log_density = gaussian_log_density(data.y, values, self.noise_std)
        return jnp.sum(data.weight * log_density if isinstance(data, Batch) else log_density)

    def log_joint(self, theta: Float[Array, " p"], data: Data) -> Float[Array, ""]:
        """ln p(y | X, theta) + ln p(theta), in nats: the posterior's log density up to a constant."""
        return self.log_likelihood(theta, data) + self.parameter_prior.log_density(theta)
