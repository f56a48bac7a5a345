/** The extension's options, from environment variables. */

import { DEFAULTS } from "./memory.ts";
import type { Options } from "./memory.ts";

// Not NEURALSTREAM_…: those are the service's own settings, and it refuses names that it does not know.
const PREFIX = "PI_NEURALSTREAM_";

const NUMBERS = [
  ["BUDGET", "budgetTokens"],
  ["RECALL_MS", "recallTimeoutMs"],
  ["SEND_MS", "sendTimeoutMs"],
  ["WAITING", "maxWaiting"],
] as const;

/** The options, or what is wrong with them. */
export function readOptions(env: NodeJS.ProcessEnv): { options: Options } | { problem: string } {
  const url = env[`${PREFIX}URL`] || DEFAULTS.url;
  if (!/^https?:\/\/[^\s/]/.test(url)) {
    return { problem: `${PREFIX}URL = ${url} is not an http:// or https:// address` };
  }
  const options: Options = { ...DEFAULTS, url };
  if (env[`${PREFIX}TOKEN`]) options.token = env[`${PREFIX}TOKEN`];
  if (env[`${PREFIX}USER`]) options.userId = env[`${PREFIX}USER`];
  for (const [name, key] of NUMBERS) {
    const value = env[PREFIX + name];
    if (!value) continue;
    if (!/^[1-9]\d{0,8}$/.test(value)) return { problem: `${PREFIX}${name} = ${value} is not a whole number above 0` };
    options[key] = Number(value);
  }
  return { options };
}
