/** Client of the posse decision service. */

export type Value = number | string | boolean | null;
export type Context = Record<string, Value> | Value[];
export type Fallback =
  | string
  | ((fleet: string, task: string, context: Context, eligible: string[] | null) => string);

export interface Settings {
  /** API key. In a browser everybody can read it: give it the scopes decide and reward of one fleet at most. */
  key?: string | null;
  /** Milliseconds of one try. */
  timeout?: number;
  /** Tries after the first. */
  retries?: number;
  /** Milliseconds: the wait before try n + 1 is drawn between 0 and backoff * 2**n, at most backoffLimit. */
  backoff?: number;
  backoffLimit?: number;
  /** Milliseconds of all tries together; null is no limit. */
  deadline?: number | null;
  /** The arm for when the service cannot be asked, or what chooses it. */
  fallback?: Fallback | null;
  /** Milliseconds after a failure in which nothing is asked; 0 always asks. */
  pause?: number;
  /** In place of the global fetch. */
  fetch?: typeof fetch;
}

export interface Question {
  task: string;
  context: Context;
  eligible?: string[] | null;
  explore?: boolean;
  key?: string | null;
}

export interface Decision {
  /** null of a fallback, which takes no reward. */
  id: string | null;
  fleet: string;
  task: string;
  arm: string;
  propensity: number | null;
  probabilities: Record<string, number>;
  mean: Record<string, number>;
  sd: Record<string, number>;
  fallback?: true;
  reason?: string;
}

export interface LogRow {
  id: string;
  number: number;
  time: string;
  task: string;
  arm: string;
  propensity: number;
  probabilities: Record<string, number>;
  mean: Record<string, number>;
  sd: Record<string, number>;
  context: Record<string, Value>;
  state: "pending" | "rewarded" | "expired";
  reward: number | null;
  reward_time: string | null;
}

export interface RewardCounts {
  new: number;
  same: number;
}

export class ServiceError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | null;
  readonly requestId: string | null;
  get unavailable(): boolean;
}

export const ROUTES: Readonly<Record<string, [string, string]>>;

export class Client {
  constructor(baseUrl: string, settings?: Settings);
  readonly baseUrl: string;
  createFleet(fleet: string, definition: Record<string, unknown>): Promise<Record<string, unknown>>;
  fleet(fleet: string): Promise<Record<string, unknown>>;
  fleets(): Promise<Record<string, unknown>[]>;
  addArm(fleet: string, arm: string, features?: Record<string, Value>): Promise<Record<string, unknown>>;
  retireArm(fleet: string, arm: string): Promise<Record<string, unknown>>;
  decide(
    fleet: string,
    task: string,
    context: Context,
    options?: { eligible?: string[] | null; explore?: boolean; key?: string },
  ): Promise<Decision>;
  rank(
    fleet: string,
    task: string,
    context: Context,
    k: number,
    options?: { eligible?: string[] | null; explore?: boolean; key?: string },
  ): Promise<Decision[]>;
  choose(
    fleet: string,
    task: string,
    context: Context,
    eligible: Record<string, Record<string, Value>>,
    options?: { k?: number; explore?: boolean; key?: string },
  ): Promise<Decision[]>;
  setTaskFeatures(fleet: string, tasks: Record<string, Record<string, Value>>): Promise<number>;
  decideMany(fleet: string, questions: Question[], options?: { key?: string }): Promise<Decision[]>;
  reward(decision: Decision | string, value: number, options?: { event?: string }): Promise<boolean>;
  correct(decision: Decision | string, value: number, options?: { insteadOf?: number }): Promise<boolean>;
  rewardMany(pairs: [decision: Decision | string, value: number, event?: string][]): Promise<RewardCounts>;
  decision(id: string): Promise<LogRow>;
  task(fleet: string, task: string): Promise<Record<string, unknown>>;
  eraseTask(fleet: string, task: string): Promise<null>;
  health(): Promise<boolean>;
}
