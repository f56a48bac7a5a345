/** The extension in a fake pi, against the running service. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Service, until } from "../../testing/service.ts";
import { FakePi, lastUserTexts } from "./fake-pi.ts";

let service: Service;
let pi: FakePi;

before(async () => {
  service = await Service.reserve();
  process.env.PI_NEURALSTREAM_URL = service.url;
  process.env.PI_NEURALSTREAM_SEND_MS = "60000";
  process.env.PI_NEURALSTREAM_RECALL_MS = "60000"; // however busy the machine is
  pi = new FakePi("s1");
});

after(() => service.stop());

test("a turn that ends while the service is down is kept once the service is up", async () => {
  await pi.emit("session_start", { reason: "startup" });
  await pi.prompt("Move redis to port 6381.", "Done, 6379 stays for staging.", { tools: ["PONG"] });
  assert.deepEqual(lastUserTexts(pi.calls[1]!), ["Move redis to port 6381."]);
  await service.start();
  await pi.prompt("And the logs?", "They go to /var/log/redis.");
  await until(async () => (await service.turns("s1")).length === 2);
  assert.deepEqual(await service.turns("s1"), [
    {
      turn_id: "s1:e0",
      said: [
        "user: Move redis to port 6381.",
        "tool: bash(command=redis-cli ping) -> PONG",
        "assistant: Done, 6379 stays for staging.",
      ],
    },
    { turn_id: "s1:e4", said: ["user: And the logs?", "assistant: They go to /var/log/redis."] },
  ]);
});

test("another session is told what this one said, in its call alone", async () => {
  const other = new FakePi("s2");
  await other.prompt("Which port does redis use now?", "6381.", { tools: ["ok"] });
  const [first, second] = other.calls.map(lastUserTexts);
  assert.match(first![0]!, /^<neuralstream-memory[\s\S]*6381[\s\S]*<\/neuralstream-memory>$/);
  assert.equal(first![1], "Which port does redis use now?");
  assert.deepEqual(second, first, "the block stays the same for all calls of a prompt");
  assert.doesNotMatch(JSON.stringify(other.entries), /neuralstream-memory/);
});

test("a block that reached the transcript is not captured", async () => {
  const other = new FakePi("s3");
  await other.prompt("Which port does redis use?", "6381, as before.");
  const injected = lastUserTexts(other.calls[0]!)[0]!;
  assert.match(injected, /neuralstream-memory/);
  await other.prompt(`${injected}\n\nThanks!`, `${injected}You are welcome.`);
  await until(async () => (await service.turns("s3")).length === 2);
  const [, thanked] = await service.turns("s3");
  assert.deepEqual(thanked!.said, ["user: Thanks!", "assistant: You are welcome."]);
});

test("usage within a prompt distils what came before it", async () => {
  pi.usage = { tokens: 60_000, contextWindow: 100_000, percent: 60 };
  await pi.prompt("Show me the config.", "Here it is.", { tools: ["port 6381"] });
  await until(async () => (await service.undistilled("s1")) === 1);
});

test("compaction, a new session and the end distil the rest", async () => {
  await pi.emit("session_before_compact");
  await until(async () => (await service.undistilled("s1")) === 0);
  pi.usage = { tokens: null, contextWindow: 100_000, percent: null };
  await pi.prompt("Are we done?", "We are.");
  await until(async () => (await service.undistilled("s1")) === 1);
  await pi.emit("session_shutdown", { reason: "quit" });
  assert.equal(await service.undistilled("s1"), 0);
});
