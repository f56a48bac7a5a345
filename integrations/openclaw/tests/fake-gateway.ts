/** An OpenClaw gateway that runs nothing but the plugin: its hooks, in the order OpenClaw calls them. */

import plugin from "../index.ts";
import type { AgentContext, PluginApi } from "../host.ts";

type Message = Record<string, unknown>;
type Hook = (event: any, ctx: any) => any;

let clock = Date.parse("2026-03-02T09:00:00Z");
let runs = 0;

export const ALLOWED = { plugins: { entries: { neuralstream: { hooks: { allowConversationAccess: true } } } } };

export class FakeGateway {
  readonly logged: string[] = [];
  /** What was added to each prompt. */
  readonly added: Record<string, string>[] = [];
  /** Of each session. */
  readonly transcripts = new Map<string, Message[]>();
  readonly #hooks = new Map<string, Hook>();

  constructor(pluginConfig: unknown, config: unknown = ALLOWED) {
    const log = (message: string) => void this.logged.push(message);
    const on = (hook: string, handler: Hook) => void this.#hooks.set(hook, handler);
    plugin.register({ config, pluginConfig, logger: { info: log, warn: log }, on } as PluginApi);
  }

  /** What the plugin registered. */
  get hooks(): string[] {
    return [...this.#hooks.keys()];
  }

  async emit(hook: string, event: object, ctx: AgentContext): Promise<any> {
    return this.#hooks.get(hook)?.(event, ctx);
  }

  /** One run: the prompt, messages of the model and its tools, and what the model counted. */
  async run(
    sessionId: string,
    prompt: string,
    replies: (string | Message)[],
    { usage = {}, ctx = {}, success = true }: { usage?: Message; ctx?: AgentContext; success?: boolean } = {},
  ): Promise<void> {
    const transcript = this.transcripts.get(sessionId) ?? [];
    this.transcripts.set(sessionId, transcript);
    const context = { runId: `run${(runs += 1)}`, sessionId, trigger: "user", ...ctx };
    this.added.push((await this.emit("before_prompt_build", { prompt, messages: [...transcript] }, context)) ?? {});
    transcript.push(timed({ role: "user", content: prompt }));
    transcript.push(...replies.map((reply) => timed(typeof reply === "string" ? assistant(reply) : reply)));
    const model = { sessionId, provider: "ollama", model: "qwen3", usage };
    await this.emit("agent_end", { messages: [...transcript], success }, context);
    await this.emit("llm_output", { runId: context.runId, assistantTexts: [], ...model }, context);
  }
}

export function assistant(words: string): Message {
  return { role: "assistant", content: [{ type: "text", text: words }], stopReason: "stop" };
}

function timed(message: Message): Message {
  clock += 1000;
  return { ...message, timestamp: clock };
}
