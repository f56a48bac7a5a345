/** The plugin in a fake gateway, against the running service. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, until } from "../../testing/service.ts";
import { ALLOWED, FakeGateway } from "./fake-gateway.ts";

const CALL = { type: "toolCall", id: "c1", name: "exec", arguments: { command: "redis-cli ping" } };
const TOOL = [
  { role: "assistant", content: [CALL] },
  { role: "toolResult", toolCallId: "c1", toolName: "exec", content: [{ type: "text", text: "PONG" }] },
];

const MODELS = { models: { providers: { ollama: { models: [{ id: "qwen3", contextWindow: 10_000 }] } } } };

let service: Service;
let gateway: FakeGateway;

before(async () => {
  service = await Service.reserve();
  const patient = { recallTimeoutMs: 60_000, sendTimeoutMs: 60_000 }; // however busy the machine is
  gateway = new FakeGateway({ url: service.url, ...patient }, { ...ALLOWED, ...MODELS });
});

after(() => service.stop());

const said = async (sessionId: string) => (await service.turns(sessionId)).map((turn) => turn.said);

test("a turn that ends while the service is down is kept once the service is up", async () => {
  await gateway.run("s1", "Move redis to port 6381.", [...TOOL, "Done, 6379 stays for staging."]);
  await service.start();
  await gateway.run("s1", "And the logs?", ["They go to /var/log/redis."]);
  await until(async () => (await service.turns("s1")).length === 2);
  assert.deepEqual(await said("s1"), [
    [
      "user: Move redis to port 6381.",
      "tool: exec(command=redis-cli ping) -> PONG",
      "assistant: Done, 6379 stays for staging.",
    ],
    ["user: And the logs?", "assistant: They go to /var/log/redis."],
  ]);
});

test("another session is told what this one said, in its system prompt alone", async () => {
  await gateway.run("s2", "Which port does redis use now?", ["6381."]);
  const added = gateway.added.at(-1)!;
  assert.deepEqual(Object.keys(added), ["appendSystemContext"]);
  assert.match(added.appendSystemContext!, /^<neuralstream-memory[\s\S]*6381[\s\S]*<\/neuralstream-memory>$/);
});

test("a block that reached the transcript, and what OpenClaw writes around words, is not captured", async () => {
  const block = gateway.added.at(-1)!.appendSystemContext!;
  const sender = 'Sender (untrusted metadata):\n```json\n{"name": "Mira"}\n```\n\n';
  await gateway.run("s3", `${block}\n\n${sender}[Sat 2026-02-14 18:49 GMT-3] Thanks!`, [`${block}You are welcome.`]);
  await until(async () => (await service.turns("s3")).length === 1);
  assert.deepEqual(await said("s3"), [["user: Thanks!", "assistant: You are welcome."]]);
});

test("heartbeats, cron jobs and the silent memory flush are no conversation", async () => {
  await gateway.run("s4", "Read HEARTBEAT.md if it exists.", ["All quiet."], { ctx: { trigger: "heartbeat" } });
  await gateway.run("s4", "[cron:daily] Report.", ["Reported."], { ctx: { jobId: "daily" } });
  await gateway.run("s4", "Pre-compaction memory flush. Store what matters.", ["NO_REPLY"]);
  await gateway.run("s4", "Good morning!", ["Good morning."]);
  await until(async () => (await service.turns("s4")).length === 1);
  assert.deepEqual(await said("s4"), [["user: Good morning!", "assistant: Good morning."]]);
});

test("a context that fills distils everything said so far", async () => {
  assert.equal(await service.undistilled("s1"), 2);
  await gateway.run("s1", "Show me the config.", ["Here."], { usage: { input: 1000, cacheRead: 4000, output: 500 } });
  await until(async () => (await service.undistilled("s1")) === 0);
});

test("compaction, a reset and the end of a session distil the rest", async () => {
  const ends = [
    ["before_compaction", {}],
    ["before_reset", { reason: "new" }],
    ["session_end", { sessionId: "s1", reason: "idle" }],
  ] as const;
  for (const [hook, event] of ends) {
    await gateway.run("s1", `Before ${hook}?`, ["Yes."]);
    await until(async () => (await service.undistilled("s1")) === 1);
    await gateway.emit(hook, event, { sessionId: "s1" });
    await until(async () => (await service.undistilled("s1")) === 0);
  }
});
