/** The extension where the service is slow, down, full of errors, or configured wrongly. The agent goes on. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { StandIn, until } from "../../testing/service.ts";
import { FakePi, lastUserTexts } from "./fake-pi.ts";

/** Milliseconds that no test waits for, however busy the machine is. */
const PATIENT = "60000";

let service: StandIn;

beforeEach(async () => {
  service = await new StandIn().start();
  configure({ URL: service.url, RECALL_MS: PATIENT, SEND_MS: PATIENT });
});

afterEach(() => service.stop());

function configure(values: Record<string, string>): void {
  for (const name of Object.keys(process.env)) if (name.startsWith("PI_NEURALSTREAM_")) delete process.env[name];
  for (const [name, value] of Object.entries(values)) process.env[`PI_NEURALSTREAM_${name}`] = value;
}

const turnIds = () => service.to("/v1/turns").flatMap(({ body }) => body.turns.map((turn: any) => turn.turn_id));

test("a prompt waits for a hanging service no longer than told, and once", async () => {
  configure({ URL: service.url, RECALL_MS: "2000", SEND_MS: PATIENT });
  service.mode = "hang";
  const pi = new FakePi("s");
  await pi.prompt("Hello?", "Hello.", { tools: ["a", "b", "c"] });
  assert.equal(service.to("/v1/context").length, 1);
  assert.deepEqual(lastUserTexts(pi.calls.at(-1)!), ["Hello?"]);
});

test("what could not be sent is sent again, in order, and the user is told when it stops and starts", async () => {
  service.mode = 503;
  const pi = new FakePi("s");
  await pi.prompt("One", "1");
  await pi.prompt("Two", "2");
  await until(() => pi.shown.length === 1);
  service.mode = 200;
  const refused = turnIds().length;
  await pi.prompt("Three", "3");
  await until(() => turnIds().length === refused + 3);
  assert.deepEqual(turnIds().slice(refused), ["s:e0", "s:e2", "s:e4"]);
  assert.equal(pi.shown.length, 2);
  assert.match(pi.shown[0]!, /does not answer/);
  assert.match(pi.shown[1]!, /answers again/);
});

test("what waits is sent again without another prompt", async () => {
  service.mode = 503;
  await new FakePi("s").prompt("One", "1");
  await until(() => turnIds().length === 1);
  service.mode = 200;
  await until(() => turnIds().length === 2);
  assert.deepEqual(turnIds(), ["s:e0", "s:e0"]);
});

test("a long session that is resumed is sent in parts that the service takes", async () => {
  const pi = new FakePi("s");
  const long = "word ".repeat(60_000).trim();
  for (const number of [1, 2, 3, 4, 5]) {
    pi.say({ role: "user", content: `${number} ${long}` });
    pi.say({ role: "assistant", content: "Read.", stopReason: "stop" });
  }
  await pi.emit("agent_end", { messages: [] });
  await until(() => turnIds().length === 5);
  assert.deepEqual(service.to("/v1/turns").map(({ body }) => body.turns.length), [3, 2]);
});

test("no more than the newest reports wait", async () => {
  configure({ URL: service.url, WAITING: "2", RECALL_MS: PATIENT, SEND_MS: PATIENT });
  service.mode = 503;
  const pi = new FakePi("s");
  for (const number of ["1", "2", "3", "4"]) await pi.prompt(number, number);
  await until(() => pi.shown.length === 1);
  service.mode = 200;
  const before = turnIds().length;
  await until(() => pi.shown.length === 3);
  assert.deepEqual(turnIds().slice(before), ["s:e4", "s:e6"]);
  assert.match(pi.shown[2]!, /^neuralstream: 2 reports were dropped/);
});

test("a report that is refused for what it says does not stop the next", async () => {
  service.mode = 422;
  const pi = new FakePi("s");
  await pi.prompt("One", "1");
  await until(() => pi.shown.some((line) => line.includes("/v1/turns was refused")));
  service.mode = 200;
  await pi.prompt("Two", "2");
  await until(() => turnIds().length === 2);
  assert.deepEqual(turnIds(), ["s:e0", "s:e2"]);
});

test("the end of the host waits for a hanging service no longer than told", { timeout: 60_000 }, async () => {
  configure({ URL: service.url, RECALL_MS: "100", SEND_MS: "100" });
  service.mode = "hang";
  const pi = new FakePi("s");
  await pi.prompt("One", "1");
  await pi.emit("session_shutdown", { reason: "quit" });
});

test("the token and the user go with every request", async () => {
  configure({ URL: service.url, TOKEN: "secret-secret-secret", USER: "mira", RECALL_MS: PATIENT, SEND_MS: PATIENT });
  const pi = new FakePi("s");
  pi.usage = { tokens: null, contextWindow: 1000, percent: null };
  await pi.prompt("One", "1");
  await pi.emit("session_shutdown", { reason: "quit" });
  assert.deepEqual(new Set(service.asked.map(({ token }) => token)), new Set(["Bearer secret-secret-secret"]));
  assert.deepEqual(service.asked.map(({ body }) => body.user_id ?? body.turns[0].user_id), Array(4).fill("mira"));
});

test("usage that is unknown after a compaction is sent as null", async () => {
  const pi = new FakePi("s");
  pi.usage = { tokens: null, contextWindow: 1000, percent: null };
  await pi.prompt("One", "1");
  await until(() => service.to("/v1/turn_end").length === 1);
  const { body } = service.to("/v1/turn_end")[0]!;
  assert.deepEqual(body.usage, { percent: null, tokens: null, context_window: 1000 });
  assert.equal(body.turn_id, "s:e0");
});

test("a reply that failed is not sent until it was tried again", async () => {
  const pi = new FakePi("s");
  await pi.prompt("One", "", { stopReason: "error" });
  assert.deepEqual(turnIds(), []);
  pi.say({ role: "assistant", content: "1", stopReason: "stop" });
  await pi.emit("agent_end", { messages: [] });
  await until(() => turnIds().length === 1);
  assert.deepEqual(service.to("/v1/turns")[0]!.body.turns[0].parts, [
    { role: "user", text: "One" },
    { role: "assistant", text: "1" },
  ]);
});

test("a resumed session sends what an earlier run could not, a fork not what it copied", async () => {
  const earlier = new FakePi("s");
  await earlier.prompt("One", "1");
  await until(() => turnIds().length === 1);
  for (const reason of ["resume", "fork"]) {
    const pi = new FakePi(reason);
    pi.entries = earlier.entries;
    await pi.emit("session_start", { reason });
    await pi.prompt("Two", "2");
  }
  await until(() => turnIds().length === 4);
  assert.deepEqual(turnIds(), ["s:e0", "resume:e0", "resume:e2", "fork:e2"]);
});

test("a pi that changes sessions in place ends the one before", async () => {
  const pi = new FakePi("s");
  await pi.emit("session_start", { reason: "startup" });
  pi.sessionId = "t";
  await pi.emit("session_switch", { reason: "new" });
  await until(() => service.to("/v1/sessions/s/end").length === 1);
});

test("what goes wrong in the extension is a warning, and the agent goes on", async () => {
  const pi = new FakePi("s");
  Object.defineProperty(pi, "entries", {
    get: () => {
      throw new Error("this context is stale");
    },
  });
  await pi.emit("agent_end", { messages: [] });
  await pi.emit("session_shutdown", { reason: "quit" });
  assert.deepEqual(pi.shown, Array(2).fill("neuralstream: this context is stale"));
});

test("a wrong configuration turns memory off and names the value", (t) => {
  const said = t.mock.method(console, "error", () => undefined);
  configure({ URL: "localhost:7711" });
  assert.deepEqual(new FakePi("s").events, []);
  configure({ RECALL_MS: "soon" });
  assert.deepEqual(new FakePi("s").events, []);
  assert.match(String(said.mock.calls[0]!.arguments[0]), /localhost:7711 is not an http/);
  assert.match(String(said.mock.calls[1]!.arguments[0]), /RECALL_MS = soon is not a whole number/);
});
