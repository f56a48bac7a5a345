/** Messages of pi and OpenClaw as exchanges: what a user said, and everything up to the end of the reply. */

export interface Part {
  role: "user" | "assistant" | "tool";
  text: string;
}

export interface Exchange {
  /** Of the entry that opens it. */
  id: string;
  /** ISO 8601; undefined where the message has no time. */
  at: string | undefined;
  parts: Part[];
  /** The reply is complete. */
  done: boolean;
}

export interface Entry {
  id: string;
  message: unknown;
}

type Fields = Record<string, unknown>;

const ARGUMENT_CHARS = 120;
const RESULT_CHARS = 400;

/** Reasons to stop that end a reply; after an error the host tries again. */
const FINAL = new Set<unknown>(["stop", "length", "aborted"]);

/**
 * Group entries as the log readers do, so that a session captured live and read from its file gives the same turns.
 *
 * One thing differs: what a model says after the end of its reply is an exchange of its own, for the reply was sent by
 * then. Host text and injected blocks are left in: the service takes them out.
 */
export function exchanges(entries: Iterable<Entry>): Exchange[] {
  const found: Exchange[] = [];
  const calls = new Map<unknown, Part>();
  for (const { id, message } of entries) {
    if (!isFields(message)) continue;
    const last = found.at(-1);
    if (message.role === "user") {
      if (last) last.done = true;
      found.push(begin(id, message, [{ role: "user", text: contentText(message.content) }]));
    } else if (message.role === "assistant" && !isMirror(message, last)) {
      const open = last && !last.done ? last : begin(id, message, []);
      if (open !== last) found.push(open);
      addReply(open, message, calls);
    } else if (message.role === "toolResult" && last) {
      addResult(last, message, calls);
    }
  }
  for (const exchange of found) exchange.parts = exchange.parts.filter((part) => part.text !== "");
  return found;
}

/** The words of a message's content: a string, or blocks of which only texts have any. */
export function contentText(content: unknown): string {
  if (typeof content === "string") return content.trim();
  if (!Array.isArray(content)) return "";
  const texts = content.filter(isFields).map((block) => {
    if (block.type === "image") return "[image]";
    return block.type === "text" && typeof block.text === "string" ? block.text : "";
  });
  return texts.filter((text) => text.trim()).join("\n").trim();
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function begin(id: string, message: Fields, parts: Part[]): Exchange {
  const { timestamp } = message;
  const at = new Date(typeof timestamp === "number" || typeof timestamp === "string" ? timestamp : Number.NaN);
  return { id, at: Number.isNaN(at.getTime()) ? undefined : at.toISOString(), parts, done: false };
}

function addReply(exchange: Exchange, message: Fields, calls: Map<unknown, Part>): void {
  exchange.parts.push({ role: "assistant", text: contentText(message.content) });
  const blocks = Array.isArray(message.content) ? message.content.filter(isFields) : [];
  const called = blocks.filter((block) => block.type === "toolCall");
  for (const call of called) {
    const part: Part = { role: "tool", text: `${name(call.name)}(${argumentsText(call.arguments)})` };
    exchange.parts.push(part);
    calls.set(call.id, part);
  }
  exchange.done = called.length === 0 && FINAL.has(message.stopReason);
}

function addResult(exchange: Exchange, message: Fields, calls: Map<unknown, Part>): void {
  let call = calls.get(message.toolCallId);
  calls.delete(message.toolCallId);
  if (call === undefined) {
    call = { role: "tool", text: `${name(message.toolName)}()` };
    exchange.parts.push(call);
  }
  const result = excerpt(contentText(message.content), RESULT_CHARS);
  call.text = `${call.text} -> ${message.isError === true ? "error: " : ""}${result}`.trimEnd();
}

/** Whether the message only repeats what OpenClaw delivered to a channel. */
function isMirror(message: Fields, last: Exchange | undefined): boolean {
  const isDelivery = message.provider === "openclaw" && message.model === "delivery-mirror";
  return isDelivery && contentText(message.content) === last?.parts.findLast((part) => part.role === "assistant")?.text;
}

function name(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : "tool";
}

function argumentsText(value: unknown): string {
  if (!isFields(value)) return value === undefined || value === null ? "" : excerpt(String(value), ARGUMENT_CHARS);
  const written = (given: unknown) => (typeof given === "string" ? given : JSON.stringify(given));
  const shown = Object.entries(value).map(([key, given]) => `${key}=${written(given)}`);
  return excerpt(shown.join(", "), ARGUMENT_CHARS);
}

function excerpt(text: string, limit: number): string {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length <= limit ? line : `${line.slice(0, limit - 1).trimEnd()}…`;
}
