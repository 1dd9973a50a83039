"""Are the intervals of an off-policy evaluation right? Simulated logs whose truth is known.

.venv/bin/python lab/scripts/offline.py [--logs 300] [--workers 2] [--only DESIGN ...]

A log has tasks with Gaussian coefficients around a population that is drawn anew for every log, contexts with an
intercept, and a logging policy with known propensities. The target is a softmax policy of each task's own noisy
coefficients, as a fleet that learned from earlier data would be. The truth is the target's value for *tasks like
these*: the expected reward per decision when tasks come from the same population with the same law of sizes. That is
what intervals over tasks speak about; the value of the very tasks of a log differs from it, and intervals for that are
narrower. It is computed by enumerating the arms at 100,000 fresh tasks and contexts, one context each.

Coverage is the share of logs whose 95 % interval holds the truth; 300 logs leave a standard error of 1.3 %. RMSE is the
error against that truth; "own rows" is the error against the target's expected reward in the very rows of the log,
which leaves out that the log's tasks and contexts are a sample: it is what an estimator adds to that.
"""

import argparse
from dataclasses import dataclass
from functools import partial

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from posse.core.propensity import score_columns, win_probabilities
from posse.model import Prior
from posse.offline import Function, Learned, Limits, LoggedBandit, Uniform, evaluate
from posse.offline.diagnostics import diagnose, refusals
from posse.offline.estimators import direct_method, doubly_robust, importance_weights, ips, snips, switch_threshold
from posse.offline.intervals import IntervalRule, effective_rewards
from posse.offline.model import deal_folds, predicted_rewards
from posse.policies import HierTS

N_ARMS, N_FEATURES = 4, 3
SPREAD, NOISE = 0.6, 1.0
FRESH = 100_000
ESTIMATORS = ("ips", "snips", "dm", "dr", "switch-dr")


@dataclass(frozen=True)
class Design:
    """A law of logs.

    Parameters
    ----------
    sizes : {"equal", "unequal", "by value"}
        Rows of a task: all the same; log-normal with factor e; more where the best arm is better.
    logging : {"softmax", "thompson", "uniform"}
        A softmax of the population's noisy coefficients, Thompson sampling that learns while it logs, or neither; the
        first two mixed with ``floor`` of uniform choice.
    sharpness : float
        Of the target: higher is nearer to deterministic.
    """

    n_tasks: int
    rows: int
    sizes: str = "equal"
    logging: str = "softmax"
    sharpness: float = 1.5
    logging_sharpness: float = 1.0
    floor: float = 0.1


DESIGNS = {
    "10 x 50": Design(10, 50),
    "20 x 20": Design(20, 20),
    "20 x 50": Design(20, 50),
    "20 x 500": Design(20, 500),
    "50 x 20": Design(50, 20),
    "50 x 100": Design(50, 100),
    "200 x 5": Design(200, 5),
    "200 x 20": Design(200, 20),
    "20 x 50 unequal": Design(20, 50, sizes="unequal"),
    "50 x 50 unequal": Design(50, 50, sizes="unequal"),
    "200 x 20 unequal": Design(200, 20, sizes="unequal"),
    "50 x 50 by value": Design(50, 50, sizes="by value"),
    "50 x 50 uniform log": Design(50, 50, logging="uniform"),
    "20 x 50 far target": Design(20, 50, sharpness=3.0, logging_sharpness=1.5, floor=0.05),
    "200 x 20 far target": Design(200, 20, sharpness=3.0, logging_sharpness=1.5, floor=0.05),
    "20 x 50 adaptive": Design(20, 50, logging="thompson"),
    "50 x 50 adaptive": Design(50, 50, logging="thompson"),
}


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


class World:
    """A population; everything that is random about it comes from one generator."""

    def __init__(self, design, rng):
        self.design, self.rng = design, rng
        self.centre = 0.7 * rng.standard_normal((N_ARMS, N_FEATURES))
        self.believed = self.centre + 0.5 * rng.standard_normal((N_ARMS, N_FEATURES))

    def draw_tasks(self, n_tasks):
        coefficients = self.centre + SPREAD * self.rng.standard_normal((n_tasks, N_ARMS, N_FEATURES))
        known = coefficients + 0.5 * self.rng.standard_normal(coefficients.shape)
        return coefficients, known, self.draw_sizes(coefficients)

    def draw_sizes(self, coefficients):
        n_tasks, rows = coefficients.shape[0], self.design.rows
        if self.design.sizes == "equal":
            return np.full(n_tasks, rows)
        if self.design.sizes == "unequal":
            return np.maximum(1, self.rng.poisson(rows * np.exp(self.rng.standard_normal(n_tasks) - 0.5)))
        best = coefficients[:, :, 0].max(axis=1)
        return np.maximum(1, self.rng.poisson(rows / 2 * np.exp(np.clip(0.7 * best, -3, 3))))

    def draw_contexts(self, n):
        contexts = self.rng.standard_normal((n, N_FEATURES))
        contexts[:, 0] = 1.0
        return contexts

    def target(self, contexts, known):
        return softmax(self.design.sharpness * np.einsum("nd,nkd->nk", contexts, known))

    def truth(self):
        """Value of the target, and how much more that is than choosing uniformly."""
        coefficients, known, sizes = self.draw_tasks(FRESH)
        contexts = self.draw_contexts(FRESH)
        expected = np.einsum("nd,nkd->nk", contexts, coefficients)
        value = (self.target(contexts, known) * expected).sum(axis=1)
        return sizes @ value / sizes.sum(), sizes @ (value - expected.mean(axis=1)) / sizes.sum()

    def log(self):
        """A log, the target's probabilities in its rows, and the expected reward of every arm."""
        coefficients, known, sizes = self.draw_tasks(self.design.n_tasks)
        tasks = np.repeat(np.arange(self.design.n_tasks), sizes)
        self.rng.shuffle(tasks)
        contexts = self.draw_contexts(tasks.size)
        expected = np.einsum("nd,nkd->nk", contexts, coefficients[tasks])
        noisy = expected + NOISE * self.rng.standard_normal(tasks.size)[:, None]
        if self.design.logging == "thompson":
            arms, logged = self.learn_and_log(tasks, contexts, noisy)
        else:
            logged = np.full(expected.shape, 1 / N_ARMS)
            if self.design.logging == "softmax":
                logged = (1 - self.design.floor) * softmax(self.design.logging_sharpness * contexts @ self.believed.T)
                logged += self.design.floor / N_ARMS
            arms = draw(logged, self.rng.random(tasks.size))
        rows = np.arange(tasks.size)
        data = LoggedBandit(
            tasks=tasks,
            arms=arms,
            contexts=contexts,
            rewards=noisy[rows, arms],
            propensities=logged[rows, arms],
            probabilities=logged,
            task_labels=range(self.design.n_tasks),
        )
        return data, self.target(contexts, known[tasks]), expected

    def learn_and_log(self, tasks, contexts, rewards):
        prior = Prior.isotropic(n_arms=N_ARMS, n_features=N_FEATURES, variance=SPREAD**2, shared_precision=1.0)
        policy = HierTS(n_tasks=self.design.n_tasks, n_arms=N_ARMS, n_features=N_FEATURES, prior=prior)
        arms, logged = np.empty(tasks.size, dtype=np.int64), np.empty((tasks.size, N_ARMS))
        scratch = np.empty((4, score_columns(N_ARMS)))
        for row, task in enumerate(tasks):
            belief = policy.predict(int(task), contexts[row])
            win_probabilities(belief.mean, belief.sd, scratch, logged[row])
            logged[row] = (1 - self.design.floor) * logged[row] + self.design.floor / N_ARMS
            arms[row] = draw(logged[row : row + 1], self.rng.random(1))[0]
            policy.update(int(task), int(arms[row]), contexts[row], float(rewards[row, arms[row]]))
        return arms, logged


def draw(probabilities, uniform):
    chosen = (np.cumsum(probabilities, axis=1) < uniform[:, None]).sum(axis=1)
    return np.minimum(chosen, probabilities.shape[1] - 1)


def one_log(design, seed):
    """Return errors, and whether intervals hold the truth, by estimator; None where the evaluation is refused."""
    with threadpool_limits(1):
        world = World(design, np.random.default_rng(seed))
        data, probabilities, expected = world.log()
        truth, gain = world.truth()
        own = (probabilities * expected).sum(axis=1).mean()  # of the very rows of this log
        data = data.in_order_of_appearance()
        weights = importance_weights(probabilities, data.arms, data.propensities)
        found = diagnose(data, probabilities, weights, floor=0.01)
        reasons = [refusal.code for refusal in refusals(found, data, probabilities, Limits())]
        rows = contributions(data, probabilities)
        uniform = contributions(data, Uniform().probabilities(data), rows["model"])
        names = [*ESTIMATORS]
        asked = [(rows[name], None) for name in names] + [(rows[name], uniform[name]) for name in ("snips", "dr")]
        truths = [truth] * len(names) + [gain] * 2
        names += ["snips gain", "dr gain"]
        result = {"effective": found.effective_rows / found.rows, "refused": reasons}
        rule = IntervalRule(confidence=0.95, family="number", over_tasks=True)
        n_rewards = effective_rewards(weights, data.rewards, data.usual_reward)
        for name, true, pair in zip(names, truths, asked, strict=True):
            one = rule.estimate(data.tasks, *pair, n_rewards=n_rewards)
            result[name, "held"], result[name, "width"] = one.low <= true <= one.high, one.high - one.low
            result[name, "error"] = one.value - true
            result[name, "own error"] = one.value - (own if not name.endswith("gain") else own - expected.mean())
        if seed == 0:
            same = evaluate(data, Function(lambda _: probabilities, "target"), against=Uniform())
            assert reasons or np.isclose(same.estimate().value, truth + result["dr", "error"], rtol=0, atol=1e-12)
        return result


def contributions(data, probabilities, model=None):
    if model is None:
        model = predicted_rewards(data, deal_folds(data.tasks))
    weights = importance_weights(probabilities, data.arms, data.propensities)
    seen = (probabilities, model, weights, data.arms, data.rewards)
    return {
        "model": model,
        "ips": ips(weights, data.rewards),
        "snips": snips(weights, data.rewards),
        "dm": direct_method(probabilities, model),
        "dr": doubly_robust(*seen),
        "switch-dr": doubly_robust(*seen, threshold=switch_threshold(*seen, data.tasks, data.probabilities)),
    }


def run_design(name, logs, workers):
    jobs = (delayed(one_log)(DESIGNS[name], seed) for seed in range(logs))
    return list(Parallel(n_jobs=workers)(jobs))


def summary(results):
    """Return numbers by name: coverage, RMSE, bias and width, of every estimator."""
    names = [key[0] for key in results[0] if key[1] == "error"]
    numbers = {"effective": np.mean([one["effective"] for one in results])}
    numbers["refused"] = np.mean([bool(one["refused"]) for one in results])
    for name in names:
        errors = np.array([one[name, "error"] for one in results])
        numbers[name, "rmse"] = np.sqrt(np.mean(errors**2))
        numbers[name, "own rmse"] = np.sqrt(np.mean([one[name, "own error"] ** 2 for one in results]))
        numbers[name, "own bias"] = np.mean([one[name, "own error"] for one in results])
        for part in ("held", "width"):
            numbers[name, part] = np.mean([one[name, part] for one in results])
    return numbers


def own_task_coverage(seed, design=DESIGNS["20 x 500"]):
    """Whether the interval of each task holds the value of this very task."""
    with threadpool_limits(1):
        world = World(design, np.random.default_rng(seed))
        coefficients, known, _ = world.draw_tasks(design.n_tasks)
        world.draw_tasks = lambda _n: (coefficients, known, np.full(design.n_tasks, design.rows))
        data, probabilities, _ = world.log()
        result = evaluate(data, Function(lambda _: probabilities, "target"))
        contexts = world.draw_contexts(5000)
        held = {}
        for task in range(design.n_tasks):
            chances = world.target(contexts, np.broadcast_to(known[task], (5000, N_ARMS, N_FEATURES)))
            value = (chances * (contexts @ coefficients[task].T)).sum(axis=1).mean()
            for row in result.by_task.iter_rows(named=True):
                if row["task"] == task and row["value"] is not None:
                    held.setdefault(row["estimator"], []).append(row["low"] <= value <= row["high"])
        return held


def optimism(seed, design=DESIGNS["20 x 50"]):
    """Error of DR for a policy that learned from the log: cross-fitted, and judged by the rows it learned from."""
    with threadpool_limits(1):
        data, _, expected = World(design, np.random.default_rng(seed)).log()
        data = data.in_order_of_appearance()
        honest = Learned("ebm-ucb", exploration=0.0)
        errors = []
        for probabilities in (honest.probabilities(data), greedy_in_sample(data)):
            true = (probabilities * expected).sum(axis=1).mean()
            found = contributions(data, probabilities)
            errors.append([found[name].value - true for name in ("snips", "dr")])
        return errors


def greedy_in_sample(data):
    from posse.model import Statistics
    from posse.offline.model import learn_by_evidence, means

    stats = Statistics.from_data(
        task=data.tasks, arm=data.arms, context=data.contexts, reward=data.rewards, n_tasks=data.n_tasks, n_arms=N_ARMS
    )
    scores = means(learn_by_evidence(stats), data, np.arange(data.n_rows))
    return np.eye(N_ARMS)[scores.argmax(axis=1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[*DESIGNS, "tasks", "learned"])
    options = parser.parse_args()
    heads = ["tasks x rows", "effective", "refused"]
    heads += [f"RMSE {name}" for name in ("IPS", "SNIPS", "DM", "DR", "SWITCH-DR")]
    heads += [f"own rows {name}" for name in ("IPS", "SNIPS", "DM", "DR", "SWITCH-DR")]
    heads += ["own rows bias IPS", "own rows bias DR"]
    heads += [f"cover {name}" for name in ("IPS", "SNIPS", "DR", "SWITCH-DR", "DM", "DR gain")]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    for name in options.only:
        if name not in DESIGNS:
            continue
        found = summary(run_design(name, options.logs, options.workers))
        cells = [name, f"{found['effective']:.0%}", f"{found['refused']:.1%}"]
        cells += [f"{found[one, part]:.4f}" for part in ("rmse", "own rmse") for one in ESTIMATORS]
        cells += [f"{found[one, 'own bias']:+.4f}" for one in ("ips", "dr")]
        cells += [f"{found[one, 'held']:.1%}" for one in ("ips", "snips", "dr", "switch-dr", "dm", "dr gain")]
        print("| " + " | ".join(cells) + " |", flush=True)
    run = partial(Parallel(n_jobs=options.workers))
    if "tasks" in options.only:
        held = run(delayed(own_task_coverage)(seed) for seed in range(max(1, options.logs // 10)))
        parts = {name: np.concatenate([one[name] for one in held]) for name in ESTIMATORS}
        print("\nown tasks: " + ", ".join(f"{name} {each.mean():.1%} of {each.size}" for name, each in parts.items()))
    if "learned" in options.only:
        errors = np.array(run(delayed(optimism)(seed) for seed in range(options.logs)))
        for place, what in enumerate(("cross-fitted", "in sample")):
            mean, se = errors[:, place].mean(axis=0), errors[:, place].std(axis=0, ddof=1) / np.sqrt(options.logs)
            print(f"learned, {what}: SNIPS {mean[0]:+.4f} (s.e. {se[0]:.4f}), DR {mean[1]:+.4f} (s.e. {se[1]:.4f})")


if __name__ == "__main__":
    main()
