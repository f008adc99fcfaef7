"""NN-HyVI and FuNN-HyVI in plain PyTorch, the usual way: batched products, `cdist`, `topk`, eager. A yardstick only."""

import math
import time

import numpy as np
import torch
from torch import nn

HIDDEN, LATENT, N_LIKELIHOOD, N_DIVERGENCE, N_INPUTS, BATCH = 50, 5, 100, 500, 200, 50


def predict(thetas: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """Values of one-hidden-layer networks, (draws, rows)."""
    n_inputs = X.shape[1]
    weight, bias, out, last = thetas.split([n_inputs * HIDDEN, HIDDEN, HIDDEN, 1], dim=1)
    hidden = torch.relu(torch.matmul(X, weight.view(-1, n_inputs, HIDDEN)) + bias[:, None, :])
    return torch.bmm(hidden, out[:, :, None])[:, :, 0] + last


def kl_nearest(q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """The nearest-neighbour estimate of KL(q, p)."""
    s = torch.cdist(q, p).topk(1, largest=False).values[:, 0]
    r = torch.cdist(q, q).topk(2, largest=False).values[:, 1]
    return q.shape[1] * torch.log(s / r).mean() + math.log(len(p) / (len(q) - 1))


class HypernetTraining:
    """One gradient step after another, of either method."""

    def __init__(self, X: np.ndarray, y: np.ndarray, noise_std: float, in_predictor_space: bool) -> None:
        self.X, self.y = torch.tensor(X), torch.tensor(y)
        self.noise_std, self.in_predictor_space = noise_std, in_predictor_space
        self.n_parameters = (X.shape[1] + 2) * HIDDEN + 1
        self.generator = nn.Sequential(
            *(nn.Linear(LATENT, 4 * LATENT), nn.ReLU(), nn.Linear(4 * LATENT, 8 * LATENT), nn.ReLU()),
            nn.Linear(8 * LATENT, self.n_parameters),
        )
        self.optimizer = torch.optim.Adam(self.generator.parameters(), lr=0.005)
        self.low, self.high = self.X.min(dim=0).values, self.X.max(dim=0).values

    def step(self) -> None:
        """One mini-batch."""
        rows = torch.randint(len(self.X), (BATCH,))
        values = predict(self.generator(torch.randn(N_LIKELIHOOD, LATENT)), self.X[rows])
        residual = (self.y[rows] - values) / self.noise_std
        log_likelihood = (-0.5 * residual**2 - math.log(self.noise_std)).mean(dim=0).sum()
        thetas = self.generator(torch.randn(N_DIVERGENCE, LATENT))
        prior = math.sqrt(0.5) * torch.randn(N_DIVERGENCE, self.n_parameters)
        if self.in_predictor_space:
            inputs = self.low + (self.high - self.low) * torch.rand(N_INPUTS, self.X.shape[1])
            thetas, prior = predict(thetas, inputs), predict(prior, inputs)
        loss = BATCH / len(self.X) * kl_nearest(thetas, prior) - log_likelihood
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def member_seconds_per_epoch(X: np.ndarray, y: np.ndarray, epochs: int) -> float:
    """Training one member of an ensemble: SGD with momentum on the squared error, batches of 50."""
    network = nn.Sequential(nn.Linear(X.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    rows, targets = torch.tensor(X), torch.tensor(y)
    started = time.perf_counter()
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.mse_loss(network(rows[batch])[:, 0], targets[batch]).backward()
            optimizer.step()
    return (time.perf_counter() - started) / epochs
