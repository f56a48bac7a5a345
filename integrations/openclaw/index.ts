/**
 * OpenClaw with a memory: each exchange goes to `neuralstream serve`, and what is remembered is added to each prompt.
 *
 * Configured by `plugins.entries.neuralstream`, see README.md.
 */

import { createHash } from "node:crypto";
import { PLUGIN_ID, configuredWindow, isWindow, permissions, readOptions } from "./config.ts";
import type { PluginOptions } from "./config.ts";
import { contentText, exchanges, isFields } from "./exchanges.ts";
import type { Entry, Exchange } from "./exchanges.ts";
import type { AgentContext, LlmOutput, PluginApi, PromptAdditions, TokenCounts } from "./host.ts";
import { userWords } from "./hosttext.ts";
import { Memory } from "./memory.ts";
import type { EndReason, Usage } from "./memory.ts";

export default {
  id: PLUGIN_ID,
  name: "NeuralStream",
  description: "Keeps every conversation, and puts what matters back into the next prompt",
  register,
};

/** Runs that are no conversation. */
const BACKGROUND = new Set(["heartbeat", "cron", "memory"]);

const END_REASONS: Record<string, EndReason> = {
  new: "reset",
  reset: "reset",
  compaction: "compaction",
  shutdown: "shutdown",
  restart: "shutdown",
};

/** Sessions whose state is kept; the one that was idle longest goes first. */
const MOST_SESSIONS = 1000;

/** OpenClaw stops waiting a little after we do. */
const GRACE_MS = 500;

function register(api: PluginApi): void {
  const read = readOptions(api.pluginConfig);
  if ("problem" in read) {
    api.logger.warn(`neuralstream: ${read.problem}; memory is off`);
    return;
  }
  const live = new LiveSessions(read.options, api);
  const { mayCapture, mayInject } = permissions(api.config);
  if (mayInject) {
    const timeoutMs = read.options.recallTimeoutMs + GRACE_MS;
    api.on("before_prompt_build", (event, ctx) => live.guard(() => live.beforePrompt(event, ctx)), { timeoutMs });
  } else {
    api.logger.warn("neuralstream: allowPromptInjection is false, so nothing is put into prompts");
  }
  if (!mayCapture) {
    const setting = `plugins.entries.${PLUGIN_ID}.hooks.allowConversationAccess`;
    api.logger.warn(`neuralstream: nothing may be captured yet; set ${setting} to true`);
  }
  api.on("llm_output", (event, ctx) => live.guard(() => live.llmOutput(event, ctx)));
  api.on("agent_end", (event, ctx) => live.guard(() => live.agentEnd(event.messages, ctx)));
  api.on("before_compaction", (_event, ctx) => live.guard(() => live.end(ctx, "compaction")));
  api.on("before_reset", (_event, ctx) => live.guard(() => live.end(ctx, "reset")));
  api.on("session_end", (event, ctx) =>
    live.guard(() => live.sessionEnd({ ...ctx, sessionId: ctx.sessionId ?? event.sessionId }, event.reason)),
  );
  api.on("gateway_stop", () => live.guard(() => live.flush()));
}

interface Session {
  /** Messages before the run that is going on. */
  runStart?: number;
  /** Usage that no exchange was reported with yet. */
  usage?: Usage;
  /** The exchange that waits for its usage. */
  waiting?: Exchange;
}

class LiveSessions {
  readonly #memory: Memory;
  readonly #options: PluginOptions;
  readonly #api: PluginApi;
  readonly #sessions = new Map<string, Session>();

  constructor(options: PluginOptions, api: PluginApi) {
    this.#options = options;
    this.#api = api;
    this.#memory = new Memory(options, (message) => api.logger.warn(`neuralstream: ${message}`));
  }

  /** Whatever goes wrong is logged, and the agent goes on. */
  async guard<Result>(handle: () => Result): Promise<Awaited<Result> | undefined> {
    try {
      return await handle();
    } catch (error) {
      this.#api.logger.warn(`neuralstream: ${error instanceof Error ? error.message : String(error)}`);
      return undefined;
    }
  }

  async beforePrompt(
    event: { prompt: string; messages?: unknown[] },
    ctx: AgentContext,
  ): Promise<PromptAdditions | undefined> {
    const id = sessionId(ctx);
    if (id === undefined || isBackground(ctx)) return undefined;
    this.#session(id).runStart = event.messages?.length;
    const block = await this.#memory.recall(userWords(event.prompt), id);
    // The system prompt never reaches the transcript, as prependContext does in some builds; and at its end the block
    // leaves what stands before it in the provider's cache.
    return block ? { appendSystemContext: block } : undefined;
  }

  llmOutput(event: LlmOutput, ctx: AgentContext): void {
    const id = sessionId(ctx) ?? event.sessionId;
    if (isBackground(ctx)) return;
    const window = event.contextTokenBudget ?? ctx.contextTokenBudget;
    const session = this.#session(id);
    session.usage = this.#usage(event.usage, window, event.provider, event.model);
    if (session.waiting) this.#turnEnd(id, session, session.waiting);
  }

  agentEnd(messages: readonly unknown[], ctx: AgentContext): void {
    const id = sessionId(ctx);
    if (id === undefined || isBackground(ctx)) return;
    const session = this.#session(id);
    const said = exchanges(runEntries(messages, session.runStart, ctx.runId));
    session.runStart = undefined;
    // A run that failed without a word is tried again by the host, with the same message of the user.
    const kept = said.filter((exchange) => exchange.parts.some((part) => part.role === "assistant"));
    this.#memory.keep(id, kept);
    const last = kept.at(-1);
    if (last === undefined) return;
    const reply = messages.findLast((message) => isFields(message) && message.role === "assistant");
    if (isFields(reply) && isFields(reply.usage)) {
      session.usage = this.#usage(reply.usage, ctx.contextTokenBudget, reply.provider, reply.model) ?? session.usage;
    }
    if (session.usage) this.#turnEnd(id, session, last);
    else session.waiting = last;
  }

  end(ctx: AgentContext, reason: EndReason): void {
    const id = sessionId(ctx);
    if (id !== undefined) this.#memory.end(id, reason);
  }

  sessionEnd(ctx: AgentContext, reason: string | undefined): void {
    this.end(ctx, END_REASONS[reason ?? ""] ?? "end");
    this.#sessions.delete(sessionId(ctx) ?? "");
  }

  flush(): Promise<void> {
    return this.#memory.flush();
  }

  #turnEnd(id: string, session: Session, after: Exchange): void {
    if (session.usage) this.#memory.turnEnd(id, session.usage, after);
    session.usage = undefined;
    session.waiting = undefined;
  }

  /** How full the context is: what the last call read and wrote, of what the model holds. */
  #usage(counts: TokenCounts | undefined, budget: unknown, provider: unknown, model: unknown): Usage | undefined {
    const tokens = [counts?.input, counts?.cacheRead, counts?.cacheWrite, counts?.output]
      .filter((count) => typeof count === "number")
      .reduce((sum, count) => sum + count, 0);
    if (tokens <= 0) return undefined;
    const windows = [budget, configuredWindow(this.#api.config, provider, model), this.#options.contextWindow];
    const window = windows.find(isWindow) ?? null;
    return { tokens, context_window: window, percent: window && (100 * tokens) / window };
  }

  #session(id: string): Session {
    const session = this.#sessions.get(id) ?? {};
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MOST_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    return session;
  }
}

function sessionId(ctx: AgentContext): string | undefined {
  return ctx.sessionId || ctx.sessionKey || undefined;
}

function isBackground(ctx: AgentContext): boolean {
  return ctx.jobId !== undefined || BACKGROUND.has(ctx.trigger ?? "");
}

/**
 * What a run added to the whole conversation that `agent_end` shows.
 *
 * Where that is not known, or does not begin with the user (the conversation was compacted meanwhile): everything from
 * the user's last message on.
 */
function runEntries(messages: readonly unknown[], runStart: number | undefined, runId: string | undefined): Entry[] {
  const isUser = (message: unknown) => isFields(message) && message.role === "user";
  const known = runStart !== undefined && isUser(messages[runStart]);
  const start = known ? runStart : Math.max(0, messages.findLastIndex(isUser));
  return messages.slice(start).map((message, place) => ({ id: entryId(message, start + place, runId), message }));
}

/** OpenClaw shows no ids of messages: one made of when and what, the same whenever the message is shown. */
function entryId(message: unknown, place: number, runId: string | undefined): string {
  const { timestamp, content } = isFields(message) ? message : {};
  const when = timestamp ?? `${runId ?? ""}#${place}`;
  return createHash("sha256").update(`${String(when)}\n${contentText(content)}`).digest("hex").slice(0, 16);
}
