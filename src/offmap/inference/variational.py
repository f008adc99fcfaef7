"""mfvi, funn-mfvi, nn-hyvi, funn-hyvi: one objective, two families of q, and two spaces to be diverse in."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from offmap.arrays import Array, Batch, Data, Float, Key
from offmap.artifact import storable
from offmap.families import Hypernet, MeanField
from offmap.inference.method import SMALL_TABLE, Density, Fit
from offmap.model import Model
from offmap.network import Network
from offmap.objectives import (
    Comparison,
    Space,
    expected_log_likelihood,
    parameter_divergence,
    predictor_divergence,
)
from offmap.optimize import Training, minimize
from offmap.prior import GaussianPrior


@storable
@dataclass(frozen=True)
class HypernetStart:
    """A generator l -> 4l -> 8l -> p to train, or one with other hidden widths."""

    latent: int = 5
    hidden: tuple[int, ...] | None = None

    def initial(self, key: Key, network: Network) -> Hypernet:
        """Its random start."""
        return Hypernet.initial(key, network, self.latent, self.hidden)


@storable
@dataclass(frozen=True)
class MeanFieldStart:
    """Independent Gaussians to train, from means drawn from N(0, mean_std^2) and a common small std."""

    mean_std: float = 1.0
    std: float = 0.001

    def initial(self, key: Key, network: Network) -> MeanField:
        """Its random start."""
        return MeanField.initial(key, network, self.mean_std, self.std)


@storable
@dataclass(frozen=True)
class Variational:
    """Maximise the evidence lower bound over a family of distributions q of theta (eq. 7 and 8).

        elbo(batch) = sum_{batch} E_q ln p(y | x, theta) - |batch| / n * (KL(q, prior) - w ln p(E_q theta))
        w = prior_weight + prior_weight_by_noise * noise_std^2 * min(1, SMALL_TABLE / n)

    `space` says where the divergence is measured: between parameters (eq. 3; the closed form for mean field), or
    between predictors at rows of nu (eq. 5), as `comparison` says. The two terms use separate draws of q.

    `w` is 0 in the paper. The divergence of predictors looks at nu alone, so it cannot see a mean predictor that bends
    to every training row; the prior's density of the mean theta can, and leaves the spread around it free. The noisier
    the target, in units of its std, the more there is to bend to, and the more rows, the less. A prior on predictors
    has no such density, so then it plays no part.
    """

    family: HypernetStart | MeanFieldStart
    space: Space
    training: Training
    n_likelihood_draws: int = 100
    n_divergence_draws: int = 500
    comparison: Comparison = Comparison()
    prior_weight: float = 0.0
    prior_weight_by_noise: float = 0.0

    density: ClassVar[Density] = "mixture"
    may_be_smooth: ClassVar[bool] = False

    @property
    def networks_at_once(self) -> int:
        """The draws for the likelihood and the divergence, the prior's, and what the family is made of, with gradients.

        A generator's last layer has 8 l + 1 weights for every entry of theta, and Adam keeps two averages of each.
        """
        widest = 8 * self.family.latent if isinstance(self.family, HypernetStart) else 1
        in_closed_form = self.space == "parameter" and isinstance(self.family, MeanFieldStart)
        draws = self.n_likelihood_draws + (0 if in_closed_form else 2 * self.n_divergence_draws)
        return 3 * draws + 5 * (widest + 1)

    def elbo(
        self, key: Key, q: Hypernet | MeanField, model: Model, batch: Batch, n_rows: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The batch's share of the evidence lower bound, in nats."""
        likelihood_key, divergence_key = jax.random.split(key)
        thetas = q.sample(likelihood_key, self.n_likelihood_draws)
        if self.space == "parameter":
            divergence = parameter_divergence(divergence_key, model, q, self.n_divergence_draws, self.comparison.k)
        else:
            divergence = predictor_divergence(divergence_key, model, q, self.n_divergence_draws, self.comparison)
        if (self.prior_weight or self.prior_weight_by_noise) and isinstance(model.prior, GaussianPrior):
            by_noise = self.prior_weight_by_noise * jnp.minimum(1.0, SMALL_TABLE / n_rows)
            weight = self.prior_weight + by_noise * model.noise_std**2
            divergence -= weight * model.parameter_prior.log_density(jnp.mean(thetas, axis=0))
        return expected_log_likelihood(model, thetas, batch) - jnp.sum(batch.weight) / n_rows * divergence

    def loss(
        self, key: Key, parameters: Hypernet | MeanField, model: Model, batch: Batch, n_rows: Float[Array, ""]
    ) -> Float[Array, ""]:
        """The negative elbo."""
        return -self.elbo(key, parameters, model, batch, n_rows)

    def fit(self, key: Key, model: Model, data: Data) -> Fit:
        """The member of the family with the largest elbo that the training finds."""
        start_key, training_key = jax.random.split(key)
        minimum = minimize(training_key, self, self.family.initial(start_key, model.network), model, data)
        return Fit(posterior=minimum.parameters, trace=minimum.trace)
