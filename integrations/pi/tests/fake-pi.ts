/** A pi that runs nothing but an extension: its session, its events in the order pi sends them, and its model calls. */

import neuralstream from "../index.ts";
import type { ContextUsage, ExtensionContext } from "../host.ts";

type Message = Record<string, unknown>;
type Handler = (event: any, ctx: ExtensionContext) => unknown;

let clock = Date.parse("2026-03-02T09:00:00Z");

export class FakePi {
  /** Warnings shown to the user. */
  readonly shown: string[] = [];
  /** What each model call was sent. */
  readonly calls: Message[][] = [];
  entries: { type: string; id: string; message: Message }[] = [];
  usage: ContextUsage | undefined;
  /** What the extension registered. */
  get events(): string[] {
    return [...this.#handlers.keys()];
  }

  readonly #handlers = new Map<string, Handler>();
  readonly #ctx: ExtensionContext;
  sessionId: string;

  constructor(sessionId: string) {
    this.sessionId = sessionId;
    this.#ctx = {
      hasUI: true,
      ui: { notify: (message) => this.shown.push(message) },
      sessionManager: { getSessionId: () => this.sessionId, getBranch: () => this.entries },
      getContextUsage: () => this.usage,
    };
    neuralstream({ on: (event: string, handler: Handler) => this.#handlers.set(event, handler) });
  }

  async emit(event: string, fields: object = {}): Promise<any> {
    return this.#handlers.get(event)?.({ type: event, ...fields }, this.#ctx);
  }

  /** One prompt: a model call with a tool for each result, then the reply. */
  async prompt(words: string, reply: string, { tools = [] as string[], stopReason = "stop" } = {}): Promise<void> {
    this.say({ role: "user", content: words });
    for (const [place, result] of tools.entries()) {
      const id = `${this.entries.length}-${place}`;
      await this.#call();
      this.say({ role: "assistant", content: [toolCall(id)], stopReason: "toolUse" });
      const answer = { role: "toolResult", toolCallId: id, toolName: "bash", content: text(result), isError: false };
      this.say(answer);
      await this.emit("turn_end", { toolResults: [answer] });
    }
    await this.#call();
    this.say({ role: "assistant", content: text(reply), stopReason });
    await this.emit("turn_end", { toolResults: [] });
    await this.emit("agent_end", { messages: [] });
  }

  say(message: Message): void {
    clock += 1000;
    const id = `e${this.entries.length}`;
    this.entries = [...this.entries, { type: "message", id, message: { ...message, timestamp: clock } }];
  }

  async #call(): Promise<void> {
    const messages = this.entries.map((entry) => structuredClone(entry.message));
    const changed = await this.emit("context", { messages });
    this.calls.push(changed?.messages ?? messages);
  }
}

/** The texts of the last user message of a model call. */
export function lastUserTexts(messages: Message[]): string[] {
  const content = messages.findLast((message) => message.role === "user")?.content;
  return typeof content === "string" ? [content] : (content as { text: string }[]).map((block) => block.text);
}

function text(words: string): object[] {
  return [{ type: "text", text: words }];
}

function toolCall(id: string): object {
  return { type: "toolCall", id, name: "bash", arguments: { command: "redis-cli ping" } };
}
