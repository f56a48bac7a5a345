/** What of pi's extension interface is used. `npm run check:host` holds it against pi's own types. */

export interface ContextUsage {
  tokens: number | null;
  contextWindow: number;
  percent: number | null;
}

export interface SessionEntry {
  type: string;
  id: string;
}

export interface ExtensionContext {
  hasUI: boolean;
  ui: { notify(message: string, type?: "info" | "warning" | "error"): void };
  sessionManager: { getSessionId(): string; getBranch(): SessionEntry[] };
  getContextUsage(): ContextUsage | undefined;
}

export interface ExtensionAPI {
  // A property, not a method: only so are the events' types held against pi's.
  on: {
    (event: "session_start", handler: Handler<{ reason?: string }>): unknown;
    (event: "context", handler: Handler<{ messages: any[] }>): unknown;
    (event: "turn_end", handler: Handler<{ toolResults: unknown[] }>): unknown;
    (event: "agent_end", handler: Handler<{ messages: unknown[] }>): unknown;
    (event: "session_before_compact", handler: Handler<object>): unknown;
    (event: "session_shutdown", handler: Handler<{ reason?: string }>): unknown;
  };
}

/** Older versions kept an extension while they changed sessions. */
export interface OlderExtensionAPI {
  on(event: "session_switch", handler: Handler<{ reason?: string }>): unknown;
}

type Handler<Event> = (event: Event, ctx: ExtensionContext) => any;
