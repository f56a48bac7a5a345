/**
 * A client of `neuralstream serve` that an agent never notices failing.
 *
 * What a host reports is sent in order and in the background. While the service does not answer, it waits in memory and
 * is sent again; every turn has an id, so that sending it twice keeps it once. A recall that takes too long is empty.
 */

import type { Exchange } from "./exchanges.ts";

export interface Options {
  url: string;
  /** Bearer token, where the service asks for one. */
  token?: string;
  /** Whose memory; unset: the token's user, else the service's default. */
  userId?: string;
  /** Most tokens of an injected block; unset: the service's setting. */
  budgetTokens?: number;
  /** Longest wait of a prompt for its block. */
  recallTimeoutMs: number;
  /** Longest wait for one report, and for all that is left when the host ends. */
  sendTimeoutMs: number;
  /** Reports kept while the service does not answer; the oldest go first. */
  maxWaiting: number;
}

export const DEFAULTS: Options = {
  url: "http://127.0.0.1:7711",
  recallTimeoutMs: 1500,
  sendTimeoutMs: 5000,
  maxWaiting: 1000,
};

/** How full the model's context is: percent from 0 to 100, tokens; what is unknown is null. */
export interface Usage {
  percent: number | null;
  tokens: number | null;
  context_window: number | null;
}

export type EndReason = "end" | "reset" | "compaction" | "shutdown";

interface Report {
  path: string;
  body: object;
}

/** Of one report; the service takes 1000 turns and 8 MB. */
const MOST_TURNS = 500;
const MOST_CHARS = 1_000_000;

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** The request itself is at fault, and would be refused again. */
const HOPELESS = new Set([400, 413, 422]);

class Refused extends Error {
  readonly status: number;

  constructor(status: number, answer: string) {
    super(`${status} ${answer.slice(0, 200)}`);
    this.status = status;
  }
}

export class Memory {
  readonly #options: Options;
  readonly #log: (message: string) => void;
  #waiting: Report[] = [];
  #sending: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;
  #down = false;
  #dropped = 0;

  /** @param log is told once when the service stops answering, once when it answers again, and what was dropped. */
  constructor(options: Options, log: (message: string) => void) {
    this.#options = options;
    this.#log = log;
  }

  /** Keep exchanges of a session, in order. */
  keep(sessionId: string, exchanges: readonly Exchange[]): void {
    let turns: object[] = [];
    let chars = 0;
    for (const exchange of exchanges.filter(({ parts }) => parts.length > 0)) {
      const { at, parts } = exchange;
      const size = parts.reduce((sum, part) => sum + part.text.length, 0);
      if (turns.length === MOST_TURNS || (turns.length > 0 && chars + size > MOST_CHARS)) {
        this.#report("/v1/turns", { turns });
        turns = [];
        chars = 0;
      }
      const turn_id = turnId(sessionId, exchange);
      turns.push({ session_id: sessionId, turn_id, created_at: at, parts, ...this.#owner() });
      chars += size;
    }
    if (turns.length > 0) this.#report("/v1/turns", { turns });
  }

  /** Report how full the context is, after an exchange or within one. */
  turnEnd(sessionId: string, usage: Usage, after?: Exchange): void {
    const turn_id = after && turnId(sessionId, after);
    this.#report("/v1/turn_end", { session_id: sessionId, usage, turn_id, ...this.#owner() });
  }

  /** Have everything of a session distilled that is not yet. */
  end(sessionId: string, reason: EndReason): void {
    this.#report(`/v1/sessions/${encodeURIComponent(sessionId)}/end`, { reason, ...this.#owner() });
  }

  /** The block to put before a prompt: fenced, or empty where nothing fits or the service does not answer in time. */
  async recall(query: string, sessionId: string): Promise<string> {
    if (!query.trim()) return "";
    const { budgetTokens, recallTimeoutMs } = this.#options;
    const body = { query, session_id: sessionId, budget_tokens: budgetTokens, ...this.#owner() };
    try {
      const answer = await this.#post("/v1/context", body, recallTimeoutMs);
      const text = (JSON.parse(answer) as { text?: unknown }).text;
      return typeof text === "string" ? text : "";
    } catch (error) {
      this.#wentDown(error);
      return "";
    }
  }

  /** Send what waits now; resolves when all is sent, or cannot be within `sendTimeoutMs`. */
  async flush(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#options.sendTimeoutMs);
    });
    await Promise.race([this.#send(), late]);
    clearTimeout(timer);
  }

  #owner(): { user_id?: string } {
    return this.#options.userId === undefined ? {} : { user_id: this.#options.userId };
  }

  #report(path: string, body: object): void {
    this.#waiting.push({ path, body });
    if (this.#waiting.length > this.#options.maxWaiting) {
      this.#waiting.shift();
      this.#dropped += 1;
    }
    void this.#send();
  }

  #send(): Promise<void> {
    clearTimeout(this.#retry);
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      try {
        await this.#post(first.path, first.body, this.#options.sendTimeoutMs);
        this.#cameBack();
      } catch (error) {
        if (!(error instanceof Refused && HOPELESS.has(error.status))) {
          this.#wentDown(error);
          this.#sendLater();
          return;
        }
        this.#log(`${first.path} was refused and is dropped: ${error.message}`);
      }
      // The oldest may have been dropped for want of room meanwhile.
      if (this.#waiting[0] === first) this.#waiting.shift();
    }
  }

  #sendLater(): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.#send(), this.#pause);
    this.#retry.unref(); // an agent that has nothing else to do may end
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
  }

  async #post(path: string, body: object, timeoutMs: number): Promise<string> {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.#options.token !== undefined) headers.authorization = `Bearer ${this.#options.token}`;
    const response = await fetch(this.#options.url.replace(/\/+$/, "") + path, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      redirect: "error", // a token goes nowhere else
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = await response.text();
    if (!response.ok) throw new Refused(response.status, answer);
    return answer;
  }

  #wentDown(error: unknown): void {
    if (this.#down) return;
    this.#down = true;
    this.#log(`${this.#options.url} does not answer, turns wait in memory until it does: ${reason(error)}`);
  }

  #cameBack(): void {
    this.#pause = FIRST_PAUSE_MS;
    if (this.#down) this.#log(`${this.#options.url} answers again`);
    const { maxWaiting } = this.#options;
    if (this.#dropped > 0) this.#log(`${this.#dropped} reports were dropped, for more than ${maxWaiting} waited`);
    this.#down = false;
    this.#dropped = 0;
  }
}

/** The id under which log readers know the same turn, where the exchange has its entry's id. */
function turnId(sessionId: string, exchange: Exchange): string {
  return `${sessionId}:${exchange.id}`;
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
