/**
 * pi with a memory: each exchange is sent to `neuralstream serve`, and what is remembered is put before each prompt.
 *
 * Configured by environment variables, see README.md.
 */

import { readOptions } from "./config.ts";
import { contentText, exchanges } from "./exchanges.ts";
import type { Entry, Exchange } from "./exchanges.ts";
import type { ExtensionAPI, ExtensionContext, OlderExtensionAPI, SessionEntry } from "./host.ts";
import { Memory } from "./memory.ts";
import type { Usage } from "./memory.ts";

export default function neuralstream(pi: ExtensionAPI): void {
  const read = readOptions(process.env);
  if ("problem" in read) {
    console.error(`neuralstream: ${read.problem}; memory is off`);
    return;
  }
  const live = new LiveSession(read.options);
  pi.on("session_start", (event, ctx) => live.guard(ctx, () => live.start(event.reason)));
  pi.on("context", (event, ctx) => live.guard(ctx, () => live.inject(event.messages)));
  pi.on("turn_end", (event, ctx) => live.guard(ctx, () => live.turnEnd(event.toolResults)));
  pi.on("agent_end", (_event, ctx) => live.guard(ctx, () => live.agentEnd()));
  pi.on("session_before_compact", (_event, ctx) => live.guard(ctx, () => live.beforeCompaction()));
  pi.on("session_shutdown", (event, ctx) => live.guard(ctx, () => live.shutDown(event.reason)));
  (pi as unknown as OlderExtensionAPI).on("session_switch", (_event, ctx) => live.guard(ctx, () => undefined));
}

type MessageEntry = SessionEntry & Entry;

class LiveSession {
  readonly #memory: Memory;
  #ctx: ExtensionContext | undefined;
  #id = "";
  /** Entries that opened exchanges which were sent, or are another session's. */
  #sent = new Set<string>();
  #asked = { key: "", block: Promise.resolve("") };

  constructor(options: ConstructorParameters<typeof Memory>[0]) {
    this.#memory = new Memory(options, (message) => this.#say(message));
  }

  /** Handle an event in whatever session it belongs to. Whatever goes wrong is said, and the agent goes on. */
  async guard<Result>(ctx: ExtensionContext, handle: () => Result): Promise<Awaited<Result> | undefined> {
    try {
      this.#ctx = ctx;
      this.#enter(ctx.sessionManager.getSessionId());
      return await handle();
    } catch (error) {
      this.#say(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  start(reason: string | undefined): void {
    // A fork begins as a copy of exchanges that were captured under the session they were said in.
    if (reason === "fork") for (const exchange of this.#exchanges()) this.#sent.add(exchange.id);
  }

  /** The messages with the block before the user's words. pi does not keep them. */
  async inject(messages: any[]): Promise<{ messages: any[] } | undefined> {
    const place = messages.findLastIndex((message) => message?.role === "user");
    const prompt = messages[place];
    if (prompt === undefined) return undefined;
    const words = contentText(prompt.content);
    // One block for all calls of a prompt: asked once, and the provider's cache holds.
    const key = `${prompt.timestamp} ${words}`;
    if (this.#asked.key !== key) this.#asked = { key, block: this.#memory.recall(words, this.#id) };
    const block = await this.#asked.block;
    if (!block) return undefined;
    const said = typeof prompt.content === "string" ? [{ type: "text", text: prompt.content }] : prompt.content;
    return { messages: messages.with(place, { ...prompt, content: [{ type: "text", text: block }, ...said] }) };
  }

  /** A model's response. Where the prompt goes on, its usage is reported now; else with the exchange. */
  turnEnd(toolResults: unknown[]): void {
    const usage = this.#usage();
    if (toolResults.length > 0 && usage) this.#memory.turnEnd(this.#id, usage);
  }

  agentEnd(): void {
    const last = this.#send((exchange) => exchange.done).at(-1);
    const usage = this.#usage();
    if (last && usage) this.#memory.turnEnd(this.#id, usage, last);
  }

  beforeCompaction(): void {
    this.#send((exchange) => exchange.done);
    this.#memory.end(this.#id, "compaction");
  }

  /** pi waits for this one, at most `sendTimeoutMs`. */
  async shutDown(reason: string | undefined): Promise<void> {
    try {
      this.#send(() => true);
      if (reason !== "reload") this.#memory.end(this.#id, reason === "new" ? "reset" : "shutdown");
    } finally {
      await this.#memory.flush();
    }
  }

  #enter(id: string): void {
    if (id === this.#id) return;
    if (this.#id) this.#memory.end(this.#id, "end");
    this.#id = id;
    this.#sent = new Set();
    this.#asked = { key: "", block: Promise.resolve("") };
  }

  /** Send exchanges that were not sent yet; those of an earlier run too, which may have ended before they were. */
  #send(isReady: (exchange: Exchange) => boolean): Exchange[] {
    const unsent = this.#exchanges().filter((exchange) => isReady(exchange) && !this.#sent.has(exchange.id));
    this.#memory.keep(this.#id, unsent);
    for (const exchange of unsent) this.#sent.add(exchange.id);
    return unsent;
  }

  #exchanges(): Exchange[] {
    const branch = this.#ctx?.sessionManager.getBranch() ?? [];
    return exchanges(branch.filter((entry): entry is MessageEntry => entry.type === "message" && "message" in entry));
  }

  #usage(): Usage | undefined {
    const usage = this.#ctx?.getContextUsage?.();
    return usage && { percent: usage.percent, tokens: usage.tokens, context_window: usage.contextWindow };
  }

  #say(message: string): void {
    const text = `neuralstream: ${message}`;
    try {
      // A terminal interface would be written over.
      if (this.#ctx?.hasUI) this.#ctx.ui.notify(text, "warning");
      else console.error(text);
    } catch {
      // The session that this was about is gone, and pi takes nothing for it any more.
    }
  }
}
