// Plain words for what the API calls by its short names.

const POLICIES = {
  "ebm-rand-ucb": "tasks learn from each other, and explore where that pays",
  "ebm-ts": "tasks learn from each other, and explore by Thompson sampling",
  "ebm-ucb": "tasks learn from each other, and prefer what may still be good",
  "lin-ucb": "every task learns alone, and prefers what may still be good",
  random: "arms are taken at random",
};

const PRIORS = {
  evidence: "from all rewards, by maximum likelihood",
  paper: "as in the paper",
  moments: "from means and variances of the tasks",
};

const KINDS = { numeric: "a number", one_hot: "one of", hashed: "any text" };

export function policyWords(policy) {
  return POLICIES[policy] ?? policy;
}

export function priorWords(prior) {
  return PRIORS[prior] ?? prior;
}

// What a coefficient belongs to: a feature, one of its categories, or the level in every situation.
export function columnWords(name) {
  return name === "intercept" ? "level" : name;
}

export function featureName(feature) {
  return typeof feature === "string" ? feature : feature.name;
}

export function featureWords(feature) {
  if (typeof feature === "string") return `${feature} (a number)`;
  const categories = feature.categories ? ` ${feature.categories.join(", ")}` : "";
  return `${feature.name} (${KINDS[feature.kind] ?? feature.kind}${categories})`;
}
