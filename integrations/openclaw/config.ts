/** What of OpenClaw's configuration matters: `plugins.entries.neuralstream`, and the models' context windows. */

import { isFields } from "./exchanges.ts";
import { DEFAULTS } from "./memory.ts";
import type { Options } from "./memory.ts";

export const PLUGIN_ID = "neuralstream";

export interface PluginOptions extends Options {
  /** Tokens the model holds, where OpenClaw does not know. */
  contextWindow?: number;
}

const TEXTS = new Set(["url", "token", "userId"]);
const NUMBERS = new Set(["budgetTokens", "recallTimeoutMs", "sendTimeoutMs", "maxWaiting", "contextWindow"]);

/**
 * The options, or what is wrong with them.
 *
 * OpenClaw's own check does not look at them (the manifest allows anything), because it refuses to start a gateway over
 * one wrong value.
 */
export function readOptions(config: unknown): { options: PluginOptions } | { problem: string } {
  if (config !== undefined && config !== null && !isFields(config)) return { problem: "config is not an object" };
  const given = Object.entries(config ?? {}).filter(([, value]) => value !== undefined && value !== null);
  for (const [key, value] of given) {
    const shown = key === "token" ? "(hidden)" : JSON.stringify(value);
    if (TEXTS.has(key)) {
      if (typeof value !== "string" || value === "") return { problem: `config.${key} = ${shown} is not a text` };
    } else if (NUMBERS.has(key)) {
      const isCount = typeof value === "number" && Number.isInteger(value) && value > 0 && value < 1e9;
      if (!isCount) return { problem: `config.${key} = ${shown} is not a whole number above 0` };
    } else {
      return { problem: `config.${key} is unknown; there are ${[...TEXTS, ...NUMBERS].join(", ")}` };
    }
  }
  const options: PluginOptions = { ...DEFAULTS, ...Object.fromEntries(given) };
  if (!/^https?:\/\/[^\s/]/.test(options.url)) {
    return { problem: `config.url = ${options.url} is not an http:// or https:// address` };
  }
  return { options };
}

/** Whether OpenClaw lets this plugin see conversations, and add to prompts. */
export function permissions(config: unknown): { mayCapture: boolean; mayInject: boolean } {
  const hooks = at(config, "plugins", "entries", PLUGIN_ID, "hooks");
  return {
    mayCapture: at(hooks, "allowConversationAccess") === true,
    mayInject: at(hooks, "allowPromptInjection") !== false,
  };
}

/** Tokens that a model holds, by OpenClaw's configuration; undefined where it does not say. */
export function configuredWindow(config: unknown, provider: unknown, model: unknown): number | undefined {
  const models = typeof provider === "string" ? at(config, "models", "providers", provider, "models") : undefined;
  const found = Array.isArray(models) ? models.find((one) => isFields(one) && one.id === model) : undefined;
  return [at(found, "contextWindow"), at(config, "agents", "defaults", "contextTokens")].find(isWindow);
}

export function isWindow(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0;
}

function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((inner, key) => (isFields(inner) ? inner[key] : undefined), value);
}
