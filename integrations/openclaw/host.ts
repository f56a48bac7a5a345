/** What of OpenClaw's plugin interface is used. Fields that older versions lack are optional. */

export interface AgentContext {
  runId?: string;
  jobId?: string;
  sessionKey?: string;
  sessionId?: string;
  /** What began the run: user, heartbeat, cron, memory … */
  trigger?: string;
  modelProviderId?: string;
  modelId?: string;
  contextTokenBudget?: number;
}

export interface TokenCounts {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
}

export interface LlmOutput {
  sessionId: string;
  provider: string;
  model: string;
  contextTokenBudget?: number;
  usage?: TokenCounts;
}

export interface PromptAdditions {
  prependContext?: string;
  appendContext?: string;
  systemPrompt?: string;
  prependSystemContext?: string;
  appendSystemContext?: string;
}

export interface PluginApi {
  config?: unknown;
  pluginConfig?: unknown;
  logger: { info(message: string): void; warn(message: string): void };
  // A property, not a method: only so does the compiler hold each hook's types against a host's.
  on: {
    (
      hook: "before_prompt_build",
      handler: Handler<{ prompt: string; messages: unknown[] }, PromptAdditions | undefined>,
      options?: { timeoutMs?: number },
    ): void;
    (hook: "llm_output", handler: Handler<LlmOutput>): void;
    (hook: "agent_end", handler: Handler<{ messages: unknown[]; success: boolean }>): void;
    (hook: "before_compaction", handler: Handler<object>): void;
    (hook: "before_reset", handler: Handler<{ reason?: string }>): void;
    (hook: "session_end", handler: Handler<{ sessionId: string; reason?: string }>): void;
    (hook: "gateway_stop", handler: Handler<object>): void;
  };
}

type Handler<Event, Result = void> = (event: Event, ctx: AgentContext) => Promise<Result> | Result;
